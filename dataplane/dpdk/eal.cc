#include "eal.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "eal_log.h"
#include "hugepages.h"
#include "interrupt_thread.h"
#include "runtime_directory.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

namespace tally {
namespace {

// Of the one EAL of this process; DPDK keeps the stream for as long as it runs. Nobody frees it at exit: see
// ~Eal.
DpdkLog* the_log = nullptr;
std::atomic<bool> started = false;

std::vector<std::uint16_t> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint16_t> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (std::uint16_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

std::string list_of(const std::vector<std::uint16_t>& cpus) {
  std::string words;
  for (const std::uint16_t cpu : cpus) {
    if (!words.empty()) words += ',';
    words += std::to_string(cpu);
  }
  return words;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<void> check_cores(const EalOptions& options, const std::vector<std::uint16_t>& allowed) {
  if (allowed.empty()) return fail(ErrorCode::kSystem, "the kernel does not say which CPUs we may use");
  for (const std::uint16_t cpu : options.cores) {
    if (!options.pinned || std::ranges::find(allowed, cpu) != allowed.end()) continue;
    return fail(ErrorCode::kInvalidArgument,
                "CPU " + std::to_string(cpu) +
                    " does not exist here or this process may not use it; it may use " + list_of(allowed),
                "dataplane.cores");
  }
  return {};
}

// Whether to use hugepages; `warning` says why not.
Result<bool> decide_hugepages(const EalOptions& options, std::string& warning) {
  if (options.hugepages == EalOptions::Hugepages::kOff) return false;
  const Hugepages now = hugepages_of();
  const bool enough = now.free_bytes >= options.memory_bytes;
  if (enough && hugepages_mappable()) return true;
  std::string why;
  if (enough) {
    why = "hugepages are free, but this process may not map them (a container or control group limits it?)";
  } else {
    why = mebibytes(now.free_bytes) + " of hugepages are free and dataplane.memory is " +
          mebibytes(options.memory_bytes) +
          "; to reserve them: " + reserve_command(now, options.memory_bytes);
  }
  if (options.hugepages == EalOptions::Hugepages::kOn)
    return fail(ErrorCode::kSystem, why, "dataplane.hugepages: on");
  warning = why + "; ordinary memory is used instead, which is slower";
  return false;
}

Result<void> initialise(const EalOptions& options, bool hugepages, const std::string& cpus) {
  std::vector<std::string> words = eal_arguments(options, hugepages, cpus);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::optional<RuntimeDirectory> directory;  // telemetry needs it later
  std::error_code ignored;
  if (std::ranges::find(options.extra, "--telemetry") == options.extra.end())
    directory.emplace(std::filesystem::temp_directory_path(ignored));
  const HeardErrors heard;
  if (rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0) return {};
  const int code = rte_errno;
  if (code == EALREADY)
    return fail(ErrorCode::kSystem, "DPDK was started before in this process; it starts once per process");
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    command += word;
  }
  std::string what = std::string("DPDK does not start: ") + rte_strerror(code) + heard.text();
  if (code == EACCES || code == EPERM)
    what += "; run as root, or give this user the devices named in the configuration (vfio)";
  return tl::unexpected<Error>(
      Error{.code = ErrorCode::kSystem, .what = std::move(what), .where = command, .sys_errno = code});
}

}  // namespace

std::uint64_t free_hugepage_bytes() { return hugepages_of().free_bytes; }

Result<Eal> Eal::start(const EalOptions& options, EalLog log) {
  if (started.exchange(true))
    return fail(ErrorCode::kSystem, "DPDK was started before in this process; it starts once per process");
  const auto give_up = [](Error error) {
    delete std::exchange(the_log, nullptr);
    started = false;
    return tl::unexpected<Error>(std::move(error));
  };
  const std::vector<std::uint16_t> allowed = allowed_cpus();
  if (auto right = check_cores(options, allowed); !right) return give_up(std::move(right.error()));
  std::string warning;
  const auto hugepages = decide_hugepages(options, warning);
  if (!hugepages) return give_up(hugepages.error());
  the_log = new DpdkLog(std::move(log));
  if (!warning.empty()) the_log->line(RTE_LOG_WARNING, warning);
  if (auto done = initialise(options, *hugepages, list_of(allowed)); !done)
    return give_up(std::move(done.error()));
  return Eal(*hugepages);
}

Eal::Eal(Eal&& other) noexcept : hugepages_(other.hugepages_), owner_(std::exchange(other.owner_, false)) {}

// `started` stays: DPDK 22.11 cannot be started again in the same process. With a memif there is no cleanup:
// it removes the devices and unmaps their records under EAL's interrupt thread, which goes on running. What
// there is to clean up, memory and file descriptors, goes with the process.
Eal::~Eal() {
  if (!owner_) return;
  // EAL's interrupt thread lives on after a memif, and may be about to log: the_log stays.
  if (memif_was_opened()) {
    rte_openlog_stream(nullptr);
    return;
  }
  rte_eal_cleanup();
  delete std::exchange(the_log, nullptr);
}

}  // namespace tally
