#include "comparison.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdarg>
#include <cstdio>

#include "harness.h"

namespace tally::bench {

std::string words(const char* format, ...) {
  std::array<char, 512> out{};
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(out.data(), out.size(), format, values);
  va_end(values);
  return out.data();
}

int run(int argc, char** argv, const Comparison& comparison) {
  std::string prefix;
  bool quick = false;
  bool instead = false;
  unsigned threads = 2;
  CLI::App app{comparison.what, comparison.name};
  app.add_option("PREFIX", prefix, "Writes PREFIX.md and PREFIX.json");
  if (comparison.instead) app.add_flag(comparison.flag, instead, comparison.flag_says);
  app.add_flag("--quick", quick, "Smaller in everything: a look whether it works");
  app.add_option("--jobs", threads, "Threads (default 2)")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  if (instead) return comparison.instead();
  if (prefix.empty()) {
    std::fprintf(stderr, "%s: PREFIX%s is missing\nTry '%s --help'.\n", comparison.name.c_str(),
                 comparison.instead ? (" or " + comparison.flag).c_str() : "", comparison.name.c_str());
    return 2;
  }
  const Written written = comparison.run(quick, threads);
  write_text(prefix + ".md", written.markdown);
  write_text(prefix + ".json", written.json);
  std::printf("#wrong %lu in %zu runs; wrote %s.md and .json\n", written.wrong, written.runs, prefix.c_str());
  return written.wrong == 0 ? 0 : 1;
}

}  // namespace tally::bench
