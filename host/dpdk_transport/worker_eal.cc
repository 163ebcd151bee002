#include "dpdk_transport/worker_eal.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "device/memif_device.h"
#include "dpdk/eal.h"
#include "tally/ids.h"
#include "text/text.h"

namespace tally::dpdk_transport {
namespace {

// memif says so at every device because there are no secondary processes here, and means nothing by it.
constexpr std::string_view kHarmless = "Failed to register mp action callback";

void log_to_stderr(std::uint32_t level, std::string_view line) {
  if (level > RTE_LOG_WARNING || line.find(kHarmless) != std::string_view::npos) return;
  std::fprintf(stderr, "libtally: DPDK: %.*s\n", static_cast<int>(line.size()), line.data());
}

Result<bool> start(std::vector<std::string> pci) {
  dpdk::EalOptions options;
  options.program = "libtally";
  options.instance = "worker-" + std::to_string(getpid());
  options.pinned = false;
  options.memory_bytes = kWorkerMemory;
  // Only a card wants hugepages. Who finds enough of them free may still find them taken a moment later, when
  // the other workers of the machine or a restarted daemon took them, and DPDK cannot be started a second
  // time.
  if (pci.empty()) options.hugepages = false;
  options.pci = std::move(pci);
  std::optional<Result<dpdk::Eal>> started;
  std::thread starter([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    started.emplace(dpdk::Eal::start(options, log_to_stderr));
  });
  starter.join();
  if (!*started) return tl::unexpected(started->error());
  // Never cleaned up: progress threads of the program may still run when static objects are destroyed. What
  // EAL holds is memory and threads of this process.
  static const dpdk::Eal* const kept = new dpdk::Eal(std::move(**started));
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

namespace {

constexpr std::string_view kExample =
    "for example dpdk:net_memif0,role=client,id=0,socket=/run/tally/memif.sock,socket-abstract=no";
constexpr std::string_view kQueues = "queues";
constexpr std::uint16_t kAnyRing = 1024;  // rsize= is checked where the port is opened

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "TALLY_TRANSPORT");
}

tl::unexpected<Error> bad(const device::DeviceComplaint& complaint) {
  return bad(complaint.message + ": " + complaint.help);
}

Result<void> take_memif(device::PortDevice& parsed, std::uint32_t mtu, WorkerDevice& device) {
  const device::MemifDevice memif =
      device::examine_memif_device(parsed.for_driver(), device::MemifEnd::kWorker, mtu, kAnyRing);
  if (!memif.complaints.empty()) return bad(memif.complaints.front());
  device.socket = memif.socket;
  device.abstract_socket = memif.abstract;
  // MemifRelay stands in for the daemon.
  for (const char* const key : {"role", "socket", "socket-abstract"}) parsed.remove(key);
  if (device.abstract_socket) return {};
  const auto directory = std::filesystem::path(device.socket).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return {};
  return bad("socket=" + device.socket + ": there is no directory " + text::in_quotes(directory.string()) +
             "; name the same file as the port in the daemon's configuration, with its whole path");
}

}  // namespace

std::string WorkerDevice::driver_string(std::string_view private_socket) const {
  if (!memif) return name + arguments;
  return name + ",role=client,socket-abstract=yes,socket=" + std::string(private_socket) + arguments;
}

Result<WorkerDevice> parse_worker_device(std::string_view text, std::uint32_t mtu) {
  device::DeviceComplaints complaints;
  device::PortDevice parsed = device::parse_device(text, complaints);
  WorkerDevice device{.name = parsed.name,
                      .pci = parsed.kind == device::DeviceKind::kPci,
                      .memif = parsed.kind == device::DeviceKind::kMemif};
  const bool other = parsed.kind == device::DeviceKind::kOther;
  if (other && !device.name.starts_with("net_")) {
    return bad(text::in_quotes(device.name) +
               " is no device: it is a PCI address such as 0000:3b:00.0, or a " + "virtual device, " +
               std::string(kExample));
  }
  for (const device::DeviceComplaint& complaint : complaints) {
    const bool unknown_here = other && complaint.offset == 0;  // DPDK may know it
    if (complaint.about != kQueues && !unknown_here) return bad(complaint);
  }
  complaints.clear();
  device.queues =
      static_cast<std::uint16_t>(parsed.number(kQueues, 1, kMaxShards, 1, complaints).value_or(1));
  if (!complaints.empty()) return bad(complaints.front());
  parsed.remove(kQueues);
  if (device.memif) {
    if (auto done = take_memif(parsed, mtu, device); !done) return tl::unexpected(done.error());
  }
  device.arguments = parsed.for_driver().substr(parsed.name.size());
  return device;
}

}  // namespace tally::dpdk_transport
