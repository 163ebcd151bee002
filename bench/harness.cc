#include "harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "perf/machine.h"

namespace tally::bench {

std::vector<Figure> measure(std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<double>> ns(contenders.size());
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const auto [seconds, operations] = contenders[i].round();
      if (round >= 0) ns[i].push_back(seconds * 1e9 / static_cast<double>(operations));
    }
  }
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::sort(ns[i].begin(), ns[i].end());
    figures.push_back({contenders[i].name, ns[i][ns[i].size() / 2], ns[i].front(), ns[i].back()});
  }
  return figures;
}

std::string json_argument(int argc, char** argv) {
  if (argc == 1) return {};
  if (argc == 3 && std::string_view(argv[1]) == "--json") return argv[2];
  std::fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
  std::exit(2);
}

void write_text(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (out.flush()) return;
  std::fprintf(stderr, "cannot write %s\n", file.c_str());
  std::exit(1);
}

void write_json(const std::string& file, const nlohmann::json& results) {
  if (!file.empty()) write_text(file, results.dump(1) + "\n");
}

void report(const std::string& file, std::vector<Contender>& contenders, int rounds, const char* unit,
            double per_ns) {
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-50s %10s %10s %10s\n", "", unit, "min", "max");
  for (const Figure& f : measure(contenders, rounds)) {
    std::printf("%-50s %10.3f %10.3f %10.3f\n", f.name.c_str(), f.median_ns * per_ns, f.min_ns * per_ns,
                f.max_ns * per_ns);
    rows.push_back(
        {{"name", f.name}, {"median_ns", f.median_ns}, {"min_ns", f.min_ns}, {"max_ns", f.max_ns}});
  }
  write_json(file, {{"environment", environment()}, {"rows", rows}});
}

void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "WRONG RESULT, no figure: %s\n", what);
  std::exit(1);
}

nlohmann::json environment() { return perf::machine_json(perf::read_machine()); }

void print_environment() {
  const perf::Machine machine = perf::read_machine();
  std::printf("%s\n", perf::machine_line(machine).c_str());
  for (const auto& warning : perf::machine_warnings(machine)) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace tally::bench
