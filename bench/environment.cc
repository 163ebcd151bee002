#include <sys/utsname.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "harness.h"

namespace tally::bench {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string commit() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen("git describe --always --dirty 2>/dev/null", "r"), pclose);
  std::array<char, 80> text{};
  if (!pipe || std::fgets(text.data(), text.size(), pipe.get()) == nullptr) return "unknown";
  std::string line = text.data();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace

nlohmann::json environment() {
  utsname name{};
  uname(&name);
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const std::string load = first_line("/proc/loadavg");
  nlohmann::json e{{"cpu", cpu_model()},
                   {"cores", std::thread::hardware_concurrency()},
                   {"kernel", name.release},
                   {"governor", governor.empty() ? "none visible" : governor},
                   {"load", load.substr(0, load.find(' '))},
                   {"commit", commit()}};
  auto& warnings = e["warnings"] = nlohmann::json::array();
  const double busy = std::atof(load.c_str());
  if (busy > 0.5)
    warnings.push_back("load " + load.substr(0, load.find(' ')) + ": other work shares these cores");
  if (!governor.empty() && governor != "performance")
    warnings.push_back("governor is " + governor + ", not performance");
#ifndef NDEBUG
  warnings.push_back("built without NDEBUG: not a Release build");
#endif
  return e;
}

void print_environment(const nlohmann::json& e) {
  std::printf("%s, %d cores, kernel %s, governor %s, load %s, commit %s\n",
              e["cpu"].get<std::string>().c_str(), e["cores"].get<int>(),
              e["kernel"].get<std::string>().c_str(), e["governor"].get<std::string>().c_str(),
              e["load"].get<std::string>().c_str(), e["commit"].get<std::string>().c_str());
  for (const auto& w : e["warnings"]) std::printf("warning: %s\n", w.get<std::string>().c_str());
}

}  // namespace tally::bench
