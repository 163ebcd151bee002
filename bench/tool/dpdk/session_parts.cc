#include "session_parts.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include <rte_log.h>
#include <rte_version.h>

namespace tally::bench {
namespace {

// memif says so at every device because there are no secondary processes here, and means nothing by it.
constexpr std::string_view kHarmless = "Failed to register mp action callback";

constexpr std::string_view kDataCore = "lcore-worker";  // what EAL names a data core's thread

void log_to_stderr(std::uint32_t level, std::string_view line) {
  if (level > RTE_LOG_WARNING || line.find(kHarmless) != std::string_view::npos) return;
  std::fprintf(stderr, "tally-bench: DPDK: %.*s\n", static_cast<int>(line.size()), line.data());
}

}  // namespace

Result<Eal> start_eal(const LoadOptions& options, std::vector<std::string> cards) {
  const bool huge = options.ports.empty() || !cards.empty();
  EalOptions eal;
  eal.program = "tally-bench";
  eal.instance = "bench-" + std::to_string(getpid());
  eal.pinned = false;
  eal.memory_bytes = options.memory_mib << 20;
  eal.hugepages = huge ? EalOptions::Hugepages::kAuto : EalOptions::Hugepages::kOff;
  eal.pci = std::move(cards);
  return Eal::start(eal, log_to_stderr);
}

Result<void> pin_to(std::optional<std::uint16_t> cpu) {
  if (!cpu) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(*cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  Error error{.code = ErrorCode::kInvalidArgument,
              .what = "CPU " + std::to_string(*cpu) + " does not exist or is not allowed to this process",
              .where = "--cpu",
              .sys_errno = errno};
  return tl::unexpected<Error>(std::move(error));
}

bool shares_cpu(int process, std::uint16_t cpu) {
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with(kDataCore)) continue;
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line == "Cpus_allowed_list:\t" + std::to_string(cpu)) return true;
  }
  return false;
}

LoadSetting common_setting(const LoadOptions& options, bool hugepages) {
  LoadSetting s{.machine = read_machine(),
                .dpdk = rte_version(),
                .ports = "in-memory port",
                .workers = options.workers,
                .elements = options.elements,
                .mtu = options.mtu,
                .multicast = options.multicast,
                .format = options.format,
                .hugepages = hugepages,
                .cpu = options.cpu ? *options.cpu : -1,
                .ceiling = options.ceiling,
                .deadline_ms = static_cast<double>(options.deadline) / 1e6};
  if (s.machine.cores < 2 && !options.ports.empty())
    s.warnings.emplace_back("generator and box share the only CPU: the figures say nothing of the box");
  if (!options.cpu) s.warnings.emplace_back("this thread runs where the kernel puts it (--cpu)");
  return s;
}

}  // namespace tally::bench
