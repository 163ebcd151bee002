#pragma once
// An ethdev port of the box: opened by PCI address or as a virtual device, set up, started. Owner: the thread
// that opened it, except the data functions in mbuf.h (one thread for each queue).

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "device/kernel_device.h"
#include "dpdk/memif_door.h"
#include "dpdk/pools.h"
#include "dpdk/probed_device.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::dpdk {

// What the loop has to know of a port.
struct PortTraits {
  std::uint16_t id = 0;  // of ethdev
  std::uint16_t receive_queues = 1;
  std::uint16_t transmit_queues = 1;
  std::uint16_t mtu = 1500;  // as configured: longer frames may not be sent here
  bool segments = false;     // frames may have several segments (MULTI_SEGS was granted)
  bool same_mbuf = false;    // hands the very mbuf to the reader (net_ring): its fields are not ours any more
  bool umem =
      false;  // af_xdp: what is not of its own mempool is copied into it, without a look at the length
  bool vouches = false;           // RTE_MBUF_F_RX_L4_CKSUM_GOOD is set by hardware, and trusted
  rte_mempool* frames = nullptr;  // what it receives into, and what frames that are made for it are of
  std::uint16_t receive_descriptors = 0;  // of each queue, as granted
  std::uint16_t transmit_descriptors = 0;
};

struct PortStatistics {
  std::uint64_t rx_packets = 0, rx_bytes = 0, rx_missed = 0, rx_errors = 0, rx_no_mbuf = 0;
  std::uint64_t tx_packets = 0, tx_bytes = 0, tx_errors = 0;
  PortStatistics& operator+=(const PortStatistics& other) noexcept;
};

// Whether frames can pass.
struct PortLink {
  bool up = false;
  std::string why{};           // down, and we know more: "interface eth1 is gone"
  std::uint32_t openings = 0;  // how often the port was opened again, since its interface was another one
  bool operator==(const PortLink&) const = default;
};

class Port {
 public:
  // Probes the device (rte_dev_probe of a vdev or PCI device), configures, starts. Errors name the port, the
  // device, what DPDK said, and what to do: unknown device (with the list of those present), a driver that is
  // not installed (with the package), a memif socket directory that does not exist or is not writable, a
  // busy socket (a stale one is removed), mbufs that are too small, an interface that is not there, is too
  // narrow or may not be used. What will cost frames is warned of in DPDK's log: docs/ports.md. A memif
  // client whose server is not there is opened all the same, with its link down: see restart().
  [[nodiscard]] static Result<Port> open(const PortOptions& options, rte_mempool* frames);
  // Takes over a port of ethdev that exists already and is not configured (net_ring in tests, benchmarks).
  [[nodiscard]] static Result<Port> adopt(std::uint16_t id, const PortOptions& options, rte_mempool* frames);
  Port(Port&& other) noexcept;
  Port& operator=(Port&& other) noexcept;
  // Stops, closes and removes the device, and a memif server's socket file; the same can be opened again.
  ~Port();

  // Descriptors that open() would take, for the size of the pools.
  [[nodiscard]] static std::uint16_t descriptors_of(const PortOptions& options) noexcept;
  // Its mbufs: more than the descriptors for af_xdp, none for a driver that copies (memif, af_packet). The
  // node is that of a NIC which EAL has probed. Nothing of `impair`.
  [[nodiscard]] static PortNeeds needs_of(const PortOptions& options);

  [[nodiscard]] const PortTraits& traits() const noexcept { return traits_; }
  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  [[nodiscard]] PortLink link() const;
  [[nodiscard]] bool link_up() const { return link().up; }
  // bit/s of its link, as the card or the interface says; 0: down, or it does not say, as memif does not. Costs a system
  // call.
  [[nodiscard]] std::uint64_t rate() const;
  // Since it was opened first.
  [[nodiscard]] PortStatistics statistics() const noexcept;
  // To be called a few times in a second: looks whether the network interface of an af_packet port is
  // still the one it was opened on. The interface is gone (deleted, moved away, renamed): the port is closed to
  // data threads. It is there again: the port is opened on it anew, under the same number of ethdev, with the
  // same queues and mempool, and data threads go on as if nothing had been. Never waits for a data thread; the
  // opening takes some milliseconds. Returns link() as of then. See port_return.cc.
  [[nodiscard]] PortLink follow(TimeNs now);
  // Stops and starts the device: a memif client connects only then. Queues must be idle. After an error the
  // device is stopped; it may be restarted again, and its queues carry nothing until then.
  [[nodiscard]] Result<void> restart();

 private:
  // Many workers of one process may open and close ports at once; DPDK's probing and memif's table of sockets
  // have no lock. Recursive: open() closes what it could not finish.
  [[nodiscard]] static std::recursive_mutex& one_at_a_time();

  Port() = default;
  [[nodiscard]] Result<void> take(std::uint16_t id, const PortOptions& options, rte_mempool* frames);
  [[nodiscard]] Result<void> set_up(const PortOptions& options, rte_mempool* frames);
  [[nodiscard]] Result<void> set_up_queues(std::uint16_t descriptors, rte_mempool* frames);
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Error error(const std::string& what, int code = 0) const;
  void on_its_thread(const std::function<void()>& work) const;
  void swap(Port& other) noexcept;
  void close() noexcept;
  void remove_device() noexcept;
  [[nodiscard]] bool is_memif() const noexcept { return kind_ == device::DeviceKind::kMemif; }

  // Of a port that follows its interface.
  [[nodiscard]] bool follows() const noexcept {
    return !interface_.empty() && kind_ == device::DeviceKind::kAfPacket;
  }
  [[nodiscard]] Result<void> open_again();
  [[nodiscard]] Result<void> probe_again(const ProbedDevice& device);

  std::string device_;
  PortOptions options_;  // name, and all else that opening it again takes
  PortTraits traits_;
  bool open_ = false;  // ethdev has a device of our number
  std::uint32_t memif_id_ = 0;
  std::shared_ptr<MemifDoor> door_;  // of a memif server
  device::DeviceKind kind_ = device::DeviceKind::kOther;

  std::string interface_;  // of the kernel, on which it is opened; empty: none
  unsigned index_ = 0;     // the kernel's number of the interface as the device has it; 0: it is gone
  std::uint32_t openings_ = 0;
  std::string trouble_;  // why it could not be opened again
  TimeNs retry_ = 0;
  PortStatistics former_;  // of devices before this one
};

}  // namespace tally::dpdk
