#include "eal_arguments.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tally {
namespace {

struct Owned {
  std::string_view option;
  std::string_view instead;
};

constexpr std::string_view kCores = "set dataplane.cores";
constexpr std::string_view kDevices = "list the device in ports";
constexpr std::string_view kMemory = "set dataplane.memory and dataplane.hugepages";
constexpr std::string_view kInstance = "set instance: it names the files of DPDK too";
constexpr std::string_view kNever = "remove it";

// Short options first: their value may follow without a space.
constexpr std::array kOwned{
    Owned{"-l", kCores},
    Owned{"-c", kCores},
    Owned{"-s", kCores},
    Owned{"-S", kCores},
    Owned{"-a", kDevices},
    Owned{"-b", kDevices},
    Owned{"-w", kDevices},
    Owned{"-m", kMemory},
    Owned{"-h", kNever},
    Owned{"-v", kNever},
    Owned{"--lcores", kCores},
    Owned{"--main-lcore", kCores},
    Owned{"--allow", kDevices},
    Owned{"--block", kDevices},
    Owned{"--vdev", kDevices},
    Owned{"--no-pci", kDevices},
    Owned{"--socket-mem", kMemory},
    Owned{"--socket-limit", kMemory},
    Owned{"--in-memory", kMemory},
    Owned{"--no-huge", kMemory},
    Owned{"--no-shconf", kMemory},
    Owned{"--huge-dir", kMemory},
    Owned{"--huge-unlink", kMemory},
    Owned{"--legacy-mem", kMemory},
    Owned{"--file-prefix", kInstance},
    Owned{"--proc-type", kNever},
    Owned{"--no-telemetry", kNever},
    Owned{"--syslog", kNever},
    Owned{"--help", kNever},
    Owned{"--version", kNever},
};

// getopt_long takes every unambiguous beginning of a long option; an ambiguous one is refused by EAL itself.
bool means(std::string_view argument, std::string_view option) {
  if (!option.starts_with("--")) return argument.starts_with(option);
  const std::string_view name = argument.substr(0, argument.find('='));
  return name.size() > 2 && option.starts_with(name);
}

Parsed<std::string> parse_argument(const std::string& text) {
  if (text.empty() || text == "--" || text == "-") {
    return complain(shown(text) + " is not an argument of EAL", "write one argument, such as --telemetry");
  }
  if (text.find(' ') != std::string::npos) {
    return complain(shown(text) + " contains a space", "write each argument by itself: [\"-n\", \"4\"]");
  }
  const auto* const owned =
      std::find_if(kOwned.begin(), kOwned.end(), [&](const Owned& o) { return means(text, o.option); });
  if (owned == kOwned.end()) return text;
  return complain(std::string(owned->option) + " is set by tallyd itself", std::string(owned->instead));
}

}  // namespace

ValueType<std::string> eal_argument() {
  return scalar_type<std::string>("an argument of EAL, such as `--telemetry`", parse_argument, yaml_text);
}

}  // namespace tally
