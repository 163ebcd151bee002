#pragma once
// Transport 'dpdk': a worker's datagrams over a port of ethdev, memif or any other. No system call per
// packet.
//
// Threads: created and destroyed on any thread; everything else but wake() on the progress thread.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/transport.h"
#include "dpdk/mbuf.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "dpdk_transport/idle_wait.h"
#include "dpdk_transport/memif_link.h"
#include "dpdk_transport/memif_relay.h"
#include "dpdk_transport/worker_address.h"
#include "dpdk_transport/worker_eal.h"
#include "jobs/binding.h"

namespace tally::dpdk_transport {

// One writer: the progress thread.
struct DpdkTransportCounters {
  dpdk::MbufCounters mbufs;
  OneWriter<std::uint64_t> received = 0;  // datagrams handed to the sink
  OneWriter<std::uint64_t> foreign = 0;   // frames that were not for us, or not from the box
  OneWriter<std::uint64_t> sent = 0;      // frames that the port took
  OneWriter<std::uint64_t> reports = 0;   // of membership of the multicast group
};

class DpdkTransport final : public Transport {
 public:
  // Starts DPDK in this process if need be, opens the device. A memif whose daemon is not there yet is no
  // error.
  [[nodiscard]] static Result<std::unique_ptr<DpdkTransport>> open(const TransportOptions& options);
  ~DpdkTransport() override;

  [[nodiscard]] Result<void> attach() override;
  [[nodiscard]] std::uint16_t most_elements() const noexcept override { return most_elements_; }
  std::size_t receive(const DatagramSink& sink) override;
  [[nodiscard]] std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) override;
  void send(std::size_t filled) override;
  [[nodiscard]] std::size_t most_bytes() const noexcept override;
  // All boxes are in the worker's own network. One whose MAC is not known is sent to by broadcast.
  [[nodiscard]] Result<void> set_boxes(std::span<const BoxAddress> boxes) override;
  void joined(const engine::Membership& membership) override;
  void wait(TimeNs now, TimeNs until) override;
  void wake() noexcept override { idle_.wake(); }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string trouble() const override;

  [[nodiscard]] const DpdkTransportCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const WorkerAddress& address() const noexcept { return filter_.ours; }
  [[nodiscard]] bool up() const noexcept { return up_; }
  // memif: how often the link came up; others: 0.
  [[nodiscard]] std::uint64_t connections() const noexcept;
  // For audits: every mbuf of the transport comes from here.
  [[nodiscard]] rte_mempool* pool() const noexcept { return pool_.get(); }

  static constexpr std::size_t kBurst = 32;

 private:
  explicit DpdkTransport(bool poll) noexcept : idle_(poll) {}
  [[nodiscard]] Result<void> open_port(const TransportOptions& options);
  [[nodiscard]] Result<void> make_pool(const dpdk::PortOptions& port);
  void maintain(TimeNs now);
  void report_group(TimeNs now) noexcept;
  void link_lost() noexcept;
  void encapsulate(rte_mbuf* m, const Outbound& datagram) noexcept;
  [[nodiscard]] Mac destination_of(std::span<const std::byte> payload, std::size_t box) const noexcept;

  WorkerDevice device_;
  WorkerFilter filter_;  // who we are, and the group
  jobs::Box self_;       // the same as the sender that write_encapsulation() wants
  TimeNs report_due_ = kNever;
  bool reported_ = false;          // since we are in the group, or the link came up
  Mac box_mac_ = kBroadcastMac;    // of the first box
  std::vector<BoxAddress> boxes_;  // empty: filter_.ours.box alone
  std::uint16_t mtu_ = 0;
  std::uint16_t most_elements_ = 0;
  bool hugepages_ = false;

  // In this order: destroyed from the last to the first (memif_link.h).
  std::unique_ptr<MemifRelay> relay_;
  dpdk::Mempool pool_;
  std::optional<dpdk::Port> port_;
  std::unique_ptr<MemifLink> link_;

  bool up_ = false;
  bool held_back_ = false;  // the port refused a frame; nothing more before the next receive()
  TimeNs link_due_ = 0;
  std::uint32_t turns_ = 0;
  // Empty frames of ours: the first `lent_` are in the caller's hands, what it does not fill is lent again.
  std::array<rte_mbuf*, kBurst> stock_{};
  std::size_t stocked_ = 0;
  std::size_t lent_ = 0;
  std::array<Outbound, kBurst> room_{};
  std::vector<std::vector<rte_mbuf*>> outgoing_;  // by transmit queue; capacity kBurst
  std::vector<std::byte> linear_;                 // a frame that arrived in several segments
  IdleWait idle_;
  DpdkTransportCounters counters_;
};

}  // namespace tally::dpdk_transport
