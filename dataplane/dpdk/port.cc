#include "dpdk/port.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "dpdk/eal.h"
#include "dpdk/port_gate.h"
#include "dpdk/threads.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

namespace tally::dpdk {
namespace {

rte_eth_conf configuration_of(const PortOptions& options, const rte_eth_dev_info& info) {
  rte_eth_conf conf{};
  // Never MBUF_FAST_FREE: payloads are shared and mbufs come from several mempools.
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (options.checksum) conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  // Of NICs only: memif, af_packet and tap refuse more than 1,500 and carry it all the same.
  if (options.pci) conf.rxmode.mtu = options.mtu;
  return conf;
}

std::uint16_t clamped(std::uint16_t wished, std::uint16_t most) noexcept {
  return std::max<std::uint16_t>(1, std::min(wished, most));
}

}  // namespace

std::recursive_mutex& Port::one_at_a_time() {
  static std::recursive_mutex mutex;
  return mutex;
}

Result<Port> Port::open(const PortOptions& options, rte_mempool* frames) {
  const std::lock_guard lock(one_at_a_time());
  const auto named = [&](Error error) {
    error.where = "port " + options.name + (error.where.empty() ? "" : ": " + error.where);
    return tl::unexpected<Error>(std::move(error));
  };
  auto p = prepare_device(options);
  if (!p) return named(std::move(p.error()));
  const auto id = probe_device(options, *p);
  if (!id) return named(id.error());
  Port port;
  port.memif_id_ = p->id;
  port.door_ = p->door;
  port.kind_ = p->kind;
  PortOptions granted = options;
  granted.device = p->device;
  if (auto done = port.take(*id, granted, frames); !done) {
    done.error().what += missing_rights(p->kind);
    return tl::unexpected<Error>(std::move(done.error()));
  }
  port.options_ = options;
  port.interface_ = p->interface;
  port.index_ = p->index;
  if (p->kind == device::DeviceKind::kAfXdp) note_xdp(p->interface, p->index);
  if (port.follows()) {
    PortGate::of(*id).guard(true);
    PortGate::of(*id).open();
  }
  return port;
}

Result<Port> Port::adopt(std::uint16_t id, const PortOptions& options, rte_mempool* frames) {
  const std::lock_guard lock(one_at_a_time());
  Port port;
  if (auto done = port.take(id, options, frames); !done)
    return tl::unexpected<Error>(std::move(done.error()));
  return port;
}

Result<void> Port::take(std::uint16_t id, const PortOptions& options, rte_mempool* frames) {
  options_ = options;
  device_ = options.device;
  traits_.id = id;
  traits_.frames = frames;
  open_ = true;  // closed and removed also when what follows fails
  if (auto done = set_up(options, frames); !done) return done;
  auto done = start();
  // A client starts only while its server is there; it waits for that in restart().
  if (!done && is_memif() && !door_) return {};
  return done;
}

Port::Port(Port&& other) noexcept { swap(other); }

Port& Port::operator=(Port&& other) noexcept {
  if (this == &other) return *this;
  close();
  swap(other);
  return *this;
}

void Port::swap(Port& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(options_, other.options_);
  std::swap(traits_, other.traits_);
  std::swap(open_, other.open_);
  std::swap(memif_id_, other.memif_id_);
  std::swap(door_, other.door_);
  std::swap(kind_, other.kind_);
  std::swap(interface_, other.interface_);
  std::swap(index_, other.index_);
  std::swap(openings_, other.openings_);
  std::swap(trouble_, other.trouble_);
  std::swap(retry_, other.retry_);
  std::swap(former_, other.former_);
}

Port::~Port() { close(); }

// Not rte_eth_dev_close(): it would leave the name of a virtual device taken. A memif server is only stopped:
// removing it would free the record of its listening socket while the interrupt thread still uses it, which
// ends the process sooner or later (DPDK 22.11). Nobody can reach it without its door.
void Port::close() noexcept {
  if (follows()) PortGate::of(traits_.id).guard(false);
  if (!open_) return;
  const std::lock_guard lock(one_at_a_time());
  if (door_) door_->dismiss(memif_id_);
  on_its_thread([this] {
    if (!door_) return remove_device();
    rte_eth_dev_stop(traits_.id);
  });
  open_ = false;
  if (door_) park_device(device_);
  door_.reset();
}

void Port::remove_device() noexcept {
  if (!std::exchange(open_, false)) return;
  rte_eth_dev_stop(traits_.id);
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(traits_.id, &info) != 0 || rte_dev_remove(info.device) != 0)
    rte_eth_dev_close(traits_.id);
}

// A memif's records belong to the interrupt thread.
void Port::on_its_thread(const std::function<void()>& work) const {
  if (is_memif()) {
    on_interrupt_thread(work);
  } else {
    work();
  }
}

Error Port::error(const std::string& what, int code) const {
  Error e{.code = ErrorCode::kSystem, .what = what, .where = "port " + name() + ": " + device_};
  if (code != 0) {
    e.sys_errno = code < 0 ? -code : code;
    e.what += std::string(": ") + rte_strerror(e.sys_errno);
  }
  return e;
}

std::uint16_t Port::descriptors_of(const PortOptions& options) noexcept {
  if (device::kind_of(options.device) != device::DeviceKind::kMemif) return options.descriptors;
  const device::MemifDevice memif =
      device::examine_memif_device(options.device, device::MemifEnd::kAny, 0, options.descriptors);
  return memif.complaints.empty() ? memif.descriptors : options.descriptors;
}

PortNeeds Port::needs_of(const PortOptions& options) {
  const device::DeviceKind kind = options.pci ? device::DeviceKind::kPci : device::kind_of(options.device);
  PortNeeds needs{.kind = kind, .frame_bytes = frame_bytes(options)};
  std::uint16_t id = 0;
  if (options.pci && rte_eth_dev_get_port_by_name(options.device.c_str(), &id) == 0)
    needs.node = rte_eth_dev_socket_id(id);
  // Its rings are in memory that both ends share; frames are copied there and from there (rte_eth_memif.c).
  if (kind == device::DeviceKind::kMemif || kind == device::DeviceKind::kNull) return needs;
  const std::uint32_t descriptors = options.descriptors;
  needs.receive_mbufs = descriptors * options.receive_queues;
  needs.transmit_mbufs = descriptors * options.transmit_queues;
  if (!device::is_kernel(kind)) return needs;
  const device::KernelDevice kernel =
      device::examine_kernel_device(options.device, options.mtu, options.receive_queues, descriptors);
  needs.receive_mbufs = kernel.receive_mbufs * options.receive_queues;
  needs.transmit_mbufs = kernel.transmit_mbufs * options.receive_queues;
  needs.least_room = kernel.least_room;
  return needs;
}

Result<void> Port::set_up(const PortOptions& options, rte_mempool* frames) {
  const HeardErrors heard;
  const auto failed = [&](const std::string& what, int code) {
    return tl::unexpected<Error>(error(what + heard.text(), code));
  };
  const std::uint32_t room = room_of(frames);
  if (room < frame_bytes(options))
    return failed("mbufs hold " + std::to_string(room) + " bytes, frames of this mtu need " +
                      std::to_string(frame_bytes(options)),
                  0);
  if (kind_ == device::DeviceKind::kAfXdp) {
    if (auto shared = check_umem(frames); !shared) return failed(shared.error().what, 0);
  }
  rte_eth_dev_info info{};
  if (const int code = rte_eth_dev_info_get(traits_.id, &info); code != 0)
    return failed("DPDK does not know the device", code);
  if (options.pci && options.mtu > info.max_mtu)
    return failed("the device takes an mtu of at most " + std::to_string(info.max_mtu) + ", not " +
                      std::to_string(options.mtu),
                  0);
  traits_.receive_queues = clamped(options.receive_queues, info.max_rx_queues);
  traits_.transmit_queues = clamped(options.transmit_queues, info.max_tx_queues);
  traits_.mtu = options.mtu;
  if (is_memif()) {
    traits_.receive_queues = std::min(traits_.receive_queues, kMostGatedQueues);
    traits_.transmit_queues = std::min(traits_.transmit_queues, traits_.receive_queues);
  }
  if (device::is_kernel(kind_)) traits_.transmit_queues = traits_.receive_queues;
  const rte_eth_conf conf = configuration_of(options, info);
  traits_.segments = (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  traits_.vouches = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0;
  traits_.umem = kind_ == device::DeviceKind::kAfXdp;
  traits_.same_mbuf = std::string_view(info.driver_name) == "net_ring";
  if (const int code =
          rte_eth_dev_configure(traits_.id, traits_.receive_queues, traits_.transmit_queues, &conf);
      code != 0)
    return failed("the device does not take its settings", code);
  if (auto done = set_up_queues(descriptors_of(options), frames); !done) return done;
  // A virtual device may have no such mode and receive everything anyway.
  if (options.promiscuous) rte_eth_promiscuous_enable(traits_.id);
  return {};
}

Result<void> Port::set_up_queues(std::uint16_t descriptors, rte_mempool* frames) {
  const HeardErrors heard;
  const auto failed = [&](const std::string& what, int code) {
    return tl::unexpected<Error>(
        error(what + " of " + std::to_string(descriptors) + " descriptors" + heard.text(), code));
  };
  const auto node = static_cast<unsigned>(rte_eth_dev_socket_id(traits_.id));
  traits_.receive_descriptors = traits_.transmit_descriptors = descriptors;
  const int adjusted = rte_eth_dev_adjust_nb_rx_tx_desc(traits_.id, &traits_.receive_descriptors,
                                                        &traits_.transmit_descriptors);
  if (adjusted != 0) return failed("the device has no queues", adjusted);
  for (std::uint16_t q = 0; q < traits_.receive_queues; ++q) {
    const int code =
        rte_eth_rx_queue_setup(traits_.id, q, traits_.receive_descriptors, node, nullptr, frames);
    if (code != 0) return failed("receive queue " + std::to_string(q), code);
  }
  for (std::uint16_t q = 0; q < traits_.transmit_queues; ++q) {
    const int code = rte_eth_tx_queue_setup(traits_.id, q, traits_.transmit_descriptors, node, nullptr);
    if (code != 0) return failed("transmit queue " + std::to_string(q), code);
  }
  return {};
}

Result<void> Port::start() {
  Result<void> result;
  on_its_thread([&] {
    const HeardErrors heard;
    const int code = rte_eth_dev_start(traits_.id);
    if (code != 0) result = tl::unexpected<Error>(error("the device does not start" + heard.text(), code));
  });
  if (result && door_) door_->admit(memif_id_, traits_.id, traits_.receive_queues, traits_.transmit_queues);
  return result;
}

PortStatistics& PortStatistics::operator+=(const PortStatistics& other) noexcept {
  rx_packets += other.rx_packets;
  rx_bytes += other.rx_bytes;
  rx_missed += other.rx_missed;
  rx_errors += other.rx_errors;
  rx_no_mbuf += other.rx_no_mbuf;
  tx_packets += other.tx_packets;
  tx_bytes += other.tx_bytes;
  tx_errors += other.tx_errors;
  return *this;
}

PortStatistics Port::statistics() const noexcept {
  PortStatistics all = former_;
  rte_eth_stats s{};
  if (!open_ || rte_eth_stats_get(traits_.id, &s) != 0) return all;
  return all += {.rx_packets = s.ipackets,
                 .rx_bytes = s.ibytes,
                 .rx_missed = s.imissed,
                 .rx_errors = s.ierrors,
                 .rx_no_mbuf = s.rx_nombuf,
                 .tx_packets = s.opackets,
                 .tx_bytes = s.obytes,
                 .tx_errors = s.oerrors};
}

Result<void> Port::restart() {
  const std::lock_guard lock(one_at_a_time());
  if (door_) door_->dismiss(memif_id_);
  on_its_thread([this] { rte_eth_dev_stop(traits_.id); });
  return start();
}

}  // namespace tally::dpdk
