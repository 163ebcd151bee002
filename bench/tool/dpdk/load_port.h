#pragma once
// What a program that plays workers needs of the machine: EAL, a CPU, and ports.

#include <time.h>

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk/eal.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "dpdk_transport/memif_link.h"
#include "dpdk_transport/memif_relay.h"
#include "dpdk_transport/worker_eal.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::bench {

// A port of the generator: the same devices, words and memif reconnection as a worker's (`dpdk:` in
// TALLY_TRANSPORT). Owner: one thread.
class LoadPort {
 public:
  // EAL has been started. number: distinguishes its mempool. Errors name --port: so
  // does a device with fewer queues than device.queues.
  [[nodiscard]] static Result<std::unique_ptr<LoadPort>> open(const dpdk_transport::WorkerDevice& device,
                                                              std::uint16_t mtu, std::size_t number);

  // Brings the link up and keeps it up. Nothing may be in a burst.
  void maintain(TimeNs now);
  [[nodiscard]] bool up() const noexcept { return up_; }
  [[nodiscard]] std::uint16_t id() const noexcept { return port_->traits().id; }
  [[nodiscard]] std::uint16_t queues() const noexcept { return port_->traits().receive_queues; }
  [[nodiscard]] std::uint16_t transmit_queues() const noexcept { return port_->traits().transmit_queues; }
  [[nodiscard]] std::uint32_t transmit_descriptors() const noexcept { return transmit_descriptors_; }
  // Received frames, and those of control.
  [[nodiscard]] rte_mempool* pool() const noexcept { return pool_.get(); }
  // Gbit/s of a card's link; 0: a virtual port has none.
  [[nodiscard]] double line_rate() const noexcept;
  [[nodiscard]] std::string why_down() const;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  LoadPort() = default;

  std::string name_{};
  bool card_ = false;
  std::uint32_t transmit_descriptors_ = 0;
  // In this order: destroyed from the last to the first (memif_link.h).
  std::unique_ptr<dpdk_transport::MemifRelay> relay_{};
  dpdk::Mempool pool_{};
  std::optional<dpdk::Port> port_{};
  std::unique_ptr<dpdk_transport::MemifLink> link_{};
  bool up_ = false;
  TimeNs due_ = 0;
};

// Ethernet header, VLAN tag and the mtu.
[[nodiscard]] std::uint16_t load_frame_bytes(std::uint16_t mtu) noexcept;

// The devices of --port: as a worker has them, without `dpdk:`. Errors name --port.
[[nodiscard]] Result<std::vector<dpdk_transport::WorkerDevice>> parse_load_devices(
    const std::vector<std::string>& ports, std::uint16_t mtu);
// program: for messages and DPDK's own files. Hugepages for cards and, with in_memory (the port of that
// name), if enough are free; ordinary memory for other devices.
[[nodiscard]] Result<dpdk::Eal> start_load_eal(const std::string& program,
                                               const std::vector<dpdk_transport::WorkerDevice>& devices,
                                               std::uint64_t memory_mib, bool in_memory = false);
// The calling thread runs there only. Nothing: where it likes.
[[nodiscard]] Result<void> pin_to(std::optional<std::uint16_t> cpu);
// Whether a data core of the process, which DPDK made, runs on that CPU only.
[[nodiscard]] bool shares_cpu(int process, std::uint16_t cpu);

// CPU time of another process of this machine: of all its threads, so far, in seconds; 0 if there is none
// with this number.
inline double process_cpu_seconds(pid_t process) noexcept {
  clockid_t clock{};
  timespec t{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace tally::bench
