#include "worker_eal.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

namespace tally {
namespace {

// memif says so at every device because there are no secondary processes here, and means nothing by it.
constexpr std::string_view kHarmless = "Failed to register mp action callback";

void log_to_stderr(std::uint32_t level, std::string_view line) {
  if (level > RTE_LOG_WARNING || line.find(kHarmless) != std::string_view::npos) return;
  std::fprintf(stderr, "libtally: DPDK: %.*s\n", static_cast<int>(line.size()), line.data());
}

Result<bool> start(std::vector<std::string> pci) {
  EalOptions options;
  options.program = "libtally";
  options.instance = "worker-" + std::to_string(getpid());
  options.pinned = false;
  options.memory_bytes = kWorkerMemory;
  // Only a card wants hugepages. Who finds enough of them free may still find them taken a moment later, when
  // the other workers of the machine or a restarted daemon took them, and DPDK cannot be started a second
  // time.
  options.hugepages = pci.empty() ? EalOptions::Hugepages::kOff : EalOptions::Hugepages::kAuto;
  options.pci = std::move(pci);
  std::optional<Result<Eal>> started;
  std::thread starter([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    started.emplace(Eal::start(options, log_to_stderr));
  });
  starter.join();
  if (!*started) return tl::unexpected(started->error());
  // Never cleaned up: progress threads of the program may still run when static objects are destroyed. What
  // EAL holds is memory and threads of this process.
  static const Eal* const kept = new Eal(std::move(**started));
  return kept->hugepages();
}

// Unregisters at the end of the thread, wherever the transport is destroyed.
struct Registration {
  bool ours = false;
  Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    if (ours) rte_thread_unregister();
  }
};

}  // namespace

Result<bool> worker_eal(std::vector<std::string> pci) {
  static std::atomic<pid_t> owner = 0;
  static std::mutex mutex;
  static std::optional<Result<bool>> outcome;
  // Before the mutex, which a thread of the parent may have held during fork().
  if (const pid_t started_by = owner.load(); started_by != 0 && started_by != getpid()) {
    return fail(ErrorCode::kSystem,
                "DPDK was started before fork() and does not survive it; join in processes that are started "
                "afresh (exec), or fork before the first join");
  }
  const std::lock_guard lock(mutex);
  if (outcome) return *outcome;
  owner = getpid();
  // EAL has lcores from rte_eal_init() on.
  outcome = rte_lcore_count() > 0 ? Result<bool>(rte_eal_has_hugepages() != 0) : start(std::move(pci));
  return *outcome;
}

Result<void> register_worker_thread() {
  if (rte_lcore_id() != LCORE_ID_ANY) return {};
  if (rte_thread_register() != 0) {
    return fail(ErrorCode::kSystem, std::string("DPDK takes no more threads in this process: ") +
                                        rte_strerror(rte_errno) + "; use fewer workers in one process");
  }
  static thread_local Registration registration;
  registration.ours = true;
  return {};
}

}  // namespace tally
