#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/doctor.h"
#include "text/text.h"

namespace tally::doctor {
namespace {

const std::string kCpu = "/sys/devices/system/cpu/";

bool contains(const std::vector<std::uint16_t>& all, std::uint16_t one) {
  return std::ranges::binary_search(all, one);
}

std::string cpus_text(const std::vector<std::uint16_t>& cpus) {
  return (cpus.size() == 1 ? "CPU " : "CPUs ") + text::listed(cpus);
}

void check_allowed(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  const auto online = machine.cpus(kCpu + "online");
  const auto allowed = cpus_of(machine.value_of("/proc/self/status", "Cpus_allowed_list"));
  std::vector<std::uint16_t> absent;
  std::vector<std::uint16_t> forbidden;
  for (const std::uint16_t core : wish.cores) {
    if (!online.empty() && !contains(online, core))
      absent.push_back(core);
    else if (!allowed.empty() && !contains(allowed, core))
      forbidden.push_back(core);
  }
  if (!absent.empty())
    findings.push_back({true, cpus_text(absent) + " of dataplane.cores is not online",
                        "A data core runs on a CPU of its own; online are " + text::listed(online) + ".",
                        "dataplane: {cores: [" + std::to_string(online.back()) + "]}"});
  if (!forbidden.empty())
    findings.push_back(
        {true, cpus_text(forbidden) + " of dataplane.cores is not given to this process",
         "A cpuset (of a container, of systemd) leaves it " + text::listed(allowed) +
             " only, and its data cores fight for those.",
         "systemctl set-property --runtime tallyd AllowedCPUs=" + text::listed(wish.cores, ",")});
  if (online.size() == 1)
    findings.push_back({false, "there is one CPU for everything",
                        "The data core and whatever else runs take turns, of milliseconds each.",
                        "give the machine a second CPU"});
}

void check_isolated(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  const auto isolated = machine.cpus(kCpu + "isolated");
  std::vector<std::uint16_t> shared;
  for (const std::uint16_t core : wish.cores) {
    if (!contains(isolated, core)) shared.push_back(core);
  }
  if (shared.empty()) return;
  const std::string list = text::listed(wish.cores, ",");
  findings.push_back({false, cpus_text(shared) + " of the data cores runs other programs as well",
                      "Whenever the kernel gives it to another, frames wait for milliseconds, or are lost.",
                      "add to the kernel's command line: isolcpus=" + list + " nohz_full=" + list});
}

void check_governor(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  std::vector<std::uint16_t> slow;
  std::string governor;
  for (const std::uint16_t core : wish.cores.empty() ? machine.cpus(kCpu + "online") : wish.cores) {
    const auto name = machine.line(kCpu + "cpu" + std::to_string(core) + "/cpufreq/scaling_governor");
    if (!name || *name == "performance") continue;
    governor = *name;
    slow.push_back(core);
  }
  if (slow.empty()) return;
  findings.push_back({false,
                      "the governor of " +
                          (slow.size() > 8 ? std::to_string(slow.size()) + " CPUs" : cpus_text(slow)) +
                          " is " + governor,
                      "The clock falls while a data core waits, and frames that come then are late.",
                      "cpupower frequency-set -g performance"});
}

// Two data cores on the threads of one physical core.
void check_siblings(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  for (const std::uint16_t core : wish.cores) {
    for (const std::uint16_t sibling :
         machine.cpus(kCpu + "cpu" + std::to_string(core) + "/topology/thread_siblings_list")) {
      if (sibling <= core || std::ranges::find(wish.cores, sibling) == wish.cores.end()) continue;
      findings.push_back({false,
                          "the data cores on CPUs " + std::to_string(core) + " and " +
                              std::to_string(sibling) + " are threads of one physical core",
                          "Together they add little more than one of them would.",
                          "dataplane.cores: one CPU of each line of lscpu -e=CORE,CPU"});
    }
  }
}

void check_clock(const Machine& machine, std::vector<Finding>& findings) {
  const auto source = machine.line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  constexpr std::array<std::string_view, 3> kReadByPrograms{"tsc", "kvm-clock",
                                                            "hyperv_clocksource_tsc_page"};
  if (source && std::ranges::find(kReadByPrograms, *source) == kReadByPrograms.end())
    findings.push_back(
        {false, "the clock source is " + text::cleaned(*source),
         "Each look at the clock asks the kernel, in every turn of a data core and of a worker.",
         "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"});
  const std::string flags = " " + machine.value_of("/proc/cpuinfo", "flags") + " ";
  if (flags.size() > 2 && flags.find(" constant_tsc ") == std::string::npos)
    findings.push_back({false, "the CPU's cycle counter changes its speed with the clock",
                        "Busy shares and cycles per frame are wrong, and so are short times.",
                        "cpupower frequency-set -g performance"});
}

// cgroup v2: what a container or a unit may use of CPUs.
void check_quota(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  std::string path;
  for (const std::string& line : machine.lines("/proc/self/cgroup")) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  // The limits of every level hold.
  for (; path.size() > 1; path = path.substr(0, path.rfind('/'))) {
    std::istringstream words(machine.line("/sys/fs/cgroup" + path + "/cpu.max").value_or("max"));
    double quota = 0;
    double period = 0;
    if (!(words >> quota >> period) || period <= 0) continue;
    const double cpus = quota / period;
    if (cpus >= static_cast<double>(wish.cores.size()) + 1) continue;
    findings.push_back({false, "this container may use " + text::fixed(cpus, 2) + " CPUs",
                        "A data core that has used up its share stands still until the next period, some 100 "
                        "ms, and so do all workers.",
                        "raise the quota (docker update --cpus, CPUQuota= of the unit)"});
    return;
  }
}

}  // namespace

void examine_cpus(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  check_allowed(machine, wish, findings);
  check_isolated(machine, wish, findings);
  check_governor(machine, wish, findings);
  check_siblings(machine, wish, findings);
  check_clock(machine, findings);
  check_quota(machine, wish, findings);
}

}  // namespace tally::doctor
