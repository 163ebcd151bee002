#include "perf/machine.h"

#include <sys/utsname.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>

#include "text/text.h"

namespace tally::perf {
namespace {

constexpr double kIdleLoad = 0.5;  // processes; what an idle machine's own services stay below

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

// Of the tree that this program was built from; empty when that is not there any more, or none of ours.
std::string commit() {
  if (std::string_view(TALLY_SOURCE_DIRECTORY).empty()) return {};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen("git -c safe.directory='*' -C '" TALLY_SOURCE_DIRECTORY "' describe --always --dirty 2>/dev/null",
            "r"),
      pclose);
  std::array<char, 80> text{};
  if (!pipe || std::fgets(text.data(), static_cast<int>(text.size()), pipe.get()) == nullptr) return {};
  std::string line = text.data();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace

Machine read_machine() {
  utsname name{};
  uname(&name);
  Machine machine{.cpu = cpu_model(),
                  .cores = std::thread::hardware_concurrency(),
                  .kernel = name.release,
                  .governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
                  .load = std::strtod(first_line("/proc/loadavg").c_str(), nullptr),
                  .version = TALLY_VERSION};
  if (machine.governor.empty()) machine.governor = "none visible";
  if (const std::string of_tree = commit(); !of_tree.empty()) machine.version += " (" + of_tree + ")";
  return machine;
}

std::string machine_line(const Machine& machine) {
  return machine.cpu + ", " + std::to_string(machine.cores) + " cores, kernel " + machine.kernel +
         ", governor " + machine.governor + ", load " + text::fixed(machine.load, 2) + ", tally " +
         machine.version;
}

std::vector<std::string> machine_warnings(const Machine& machine) {
  std::vector<std::string> warnings;
  if (machine.load > kIdleLoad)
    warnings.push_back("load " + text::fixed(machine.load, 2) + ": other work shares these cores");
  if (machine.governor != "none visible" && machine.governor != "performance")
    warnings.push_back("governor is " + machine.governor +
                       ", not performance: the clock rate changes meanwhile");
#ifndef NDEBUG
  warnings.emplace_back("this is not a Release build");
#endif
  return warnings;
}

nlohmann::json machine_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"kernel", machine.kernel},
          {"governor", machine.governor},
          {"load", machine.load},
          {"version", machine.version},
          {"warnings", machine_warnings(machine)}};
}

}  // namespace tally::perf
