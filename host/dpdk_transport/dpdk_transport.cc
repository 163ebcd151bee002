#include "dpdk_transport/dpdk_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pipeline/reply.h"
#include "random/random.h"
#include "tally/check.h"
#include "tally/mtu.h"
#include "tally/wire.h"

#include <rte_errno.h>

namespace tally::dpdk_transport {
namespace {

constexpr TimeNs kLinkPeriod =
    10 * kMillisecond;  // how often another device than memif is asked for its link
// A report may be lost, so a second one follows; then one well within the 260 s after which switches forget
// (RFC 2236, 8.4), for nobody here hears a querier.
constexpr TimeNs kSecondReport = kSecond;
constexpr TimeNs kReportPeriod = 60 * kSecond;
constexpr std::uint32_t kMaintainTurns = 64;  // receive() looks at the clock this often; wait() always

std::uint32_t frame_bytes(std::uint16_t mtu) noexcept { return mtu + device::kEthernetBytes; }

}  // namespace

Result<std::unique_ptr<DpdkTransport>> DpdkTransport::open(const TransportOptions& options) {
  if (options.mtu < kLeastMtu || options.mtu > kGreatestMtu) {
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(options.mtu) + ": over DPDK the MTU is " + std::to_string(kLeastMtu) + " to " +
                    std::to_string(kGreatestMtu),
                "TALLY_MTU");
  }
  const std::uint64_t identity = options.identity != 0 ? options.identity : random::word();
  const auto address = make_worker_address(options.box, options.address, identity);
  if (!address) return tl::unexpected(address.error());
  auto device = parse_worker_device(options.device, options.mtu);
  if (!device) return tl::unexpected(device.error());

  std::unique_ptr<DpdkTransport> made(new DpdkTransport(options.poll));
  made->device_ = std::move(*device);
  made->filter_.ours = *address;
  made->self_.mac = address->mac;
  if (address->ipv4()) {
    std::copy_n(address->own.begin() + 12, made->self_.ipv4.size(), made->self_.ipv4.begin());
  } else {
    made->self_.ipv6 = address->own;
  }
  made->mtu_ = options.mtu;
  made->most_elements_ = elements_that_fit(options.mtu, address->ipv4());
  if (auto opened = made->open_port(options); !opened) return tl::unexpected(opened.error());
  return made;
}

Result<void> DpdkTransport::open_port(const TransportOptions& options) {
  const auto hugepages = worker_eal(device_.pci ? std::vector{device_.name} : std::vector<std::string>{});
  if (!hugepages) return tl::unexpected(hugepages.error());
  hugepages_ = *hugepages;

  std::string private_name;
  if (device_.memif) {
    auto relay = MemifRelay::create(device_.socket, device_.abstract_socket);
    if (!relay) return tl::unexpected(relay.error());
    relay_ = std::move(*relay);
    private_name = relay_->private_name();
  }
  dpdk::PortOptions port;
  port.name = device_.name;
  port.device = device_.driver_string(private_name);
  port.pci = device_.pci;
  port.mtu = options.mtu;
  port.receive_queues = device_.queues;
  port.transmit_queues = device_.queues;
  if (auto pool = make_pool(port); !pool) return pool;
  auto opened = dpdk::Port::open(port, pool_.get());
  if (!opened) return tl::unexpected(opened.error());
  port_.emplace(std::move(*opened));
  outgoing_.resize(port_->traits().transmit_queues);
  for (auto& queue : outgoing_) queue.reserve(kBurst);
  if (relay_ == nullptr) return {};
  auto link = MemifLink::create(*relay_, *port_, random::word());
  if (!link) return tl::unexpected(link.error());
  link_ = std::move(*link);
  return {};
}

Result<void> DpdkTransport::make_pool(const dpdk::PortOptions& port) {
  static std::atomic<unsigned> count = 0;
  const dpdk::PortNeeds needs = dpdk::Port::needs_of(port);
  // Full queues both ways, what the cache may keep to itself, a burst in hand and one in stock.
  const dpdk::PoolPlan plan{.name = "tally-worker-" + std::to_string(count++),
                            .mbufs = needs.receive_mbufs + needs.transmit_mbufs + dpdk::kPoolCache * 3 / 2 +
                                     2 * static_cast<unsigned>(kBurst),
                            .room = static_cast<std::uint16_t>(std::max(frame_bytes(mtu_), needs.least_room)),
                            .umem = needs.umem(),
                            .threads = 1};
  auto pool = tally::dpdk::make_pool(plan);
  if (!pool)
    return fail(ErrorCode::kSystem,
                "no memory for " + std::to_string(plan.mbufs) + " packets of " +
                    std::to_string(frame_bytes(mtu_)) + " bytes (" + rte_strerror(pool.error().sys_errno) +
                    "): all workers of a process share " + std::to_string(kWorkerMemory >> 20) +
                    " MiB; use fewer workers in one process, fewer queues=, or a smaller TALLY_MTU",
                device_.name);
  pool_ = std::move(*pool);
  return {};
}

DpdkTransport::~DpdkTransport() {
  for (std::size_t i = 0; i < stocked_; ++i) dpdk::drop(stock_[i]);
}

Result<void> DpdkTransport::attach() { return register_worker_thread(); }

std::uint64_t DpdkTransport::connections() const noexcept {
  return link_ == nullptr ? 0 : link_->connections();
}

// The daemon that comes back may have another MAC, and so may others behind it.
void DpdkTransport::link_lost() noexcept {
  box_mac_ = kBroadcastMac;
  for (BoxAddress& box : boxes_) box.mac = kBroadcastMac;
  if (report_due_ == kNever) return;
  report_due_ = 0;
  reported_ = false;
}

void DpdkTransport::maintain(TimeNs now) {
  if (link_ != nullptr) {
    link_->step(now);
    if (up_ && !link_->up()) link_lost();
    up_ = link_->up();
  } else if (now >= link_due_) {
    up_ = port_->link_up();
    link_due_ = now + kLinkPeriod;
  }
  if (up_ && now >= report_due_) report_group(now);
}

void DpdkTransport::report_group(TimeNs now) noexcept {
  rte_mbuf* m = dpdk::allocate(pool_.get(), counters_.mbufs);
  if (m == nullptr) return;  // the next turn tries again
  const GroupReport report = make_group_report(filter_.ours, filter_.group);
  std::memcpy(dpdk::data_of(m), report.frame.data(), report.length);
  m->data_len = static_cast<std::uint16_t>(report.length);
  m->pkt_len = m->data_len;
  if (tally::dpdk::send(port_->traits().id, 0, {&m, 1}, counters_.mbufs) == 0) return;
  ++counters_.reports;
  report_due_ = now + (reported_ ? kReportPeriod : kSecondReport);
  reported_ = true;
}

std::size_t DpdkTransport::receive(const DatagramSink& sink) {
  held_back_ = false;
  if (++turns_ % kMaintainTurns == 0) maintain(steady_now());
  if (!up_) return 0;
  std::size_t handed = 0;
  for (std::uint16_t queue = 0; queue < port_->traits().receive_queues; ++queue) {
    std::array<rte_mbuf*, kBurst> burst;
    for (rte_mbuf* m : tally::dpdk::receive(port_->traits().id, queue, burst)) {
      std::span<const std::byte> frame{dpdk::data_of(m), m->data_len};
      if (m->nb_segs != 1) {
        linear_.resize(m->pkt_len);
        frame = {static_cast<const std::byte*>(rte_pktmbuf_read(m, 0, m->pkt_len, linear_.data())),
                 m->pkt_len};
      }
      std::size_t box = 0;
      const auto payload = open_worker_frame(frame, filter_, box);
      if (payload.empty()) {
        ++counters_.foreign;
      } else {
        sink(payload, box);
        ++handed;
      }
      dpdk::drop(m);
    }
  }
  counters_.received += handed;
  if (handed != 0) idle_.busy();
  return handed;
}

std::size_t DpdkTransport::most_bytes() const noexcept { return mtu_ - ip_udp_bytes(filter_.ours.ipv4()); }

std::span<Outbound> DpdkTransport::lend(std::size_t wanted, std::size_t bytes) {
  lent_ = 0;
  if (!up_ || held_back_ || bytes > most_bytes()) return {};
  const std::size_t count = std::min(wanted, kBurst);
  while (stocked_ < count) {
    rte_mbuf* m = dpdk::allocate(pool_.get(), counters_.mbufs);
    if (m == nullptr) break;
    stock_[stocked_++] = m;
  }
  lent_ = std::min(count, stocked_);
  for (std::size_t i = 0; i < lent_; ++i)
    room_[i] = Outbound{{dpdk::data_of(stock_[i]), bytes}, 0, kBasePort};
  return {room_.data(), lent_};
}

Mac DpdkTransport::destination_of(std::span<const std::byte> payload, std::size_t box) const noexcept {
  // A JOIN looks for the box anew, whatever its MAC was before (docs/protocol.md, 2), and so does an ENLIST.
  const PacketType type =
      payload.size() < kHeaderBytes ? PacketType{} : static_cast<PacketType>(payload[offsetof(Header, type)]);
  if (type == PacketType::kJoin || type == PacketType::kEnlist) return kBroadcastMac;
  return box == 0 ? box_mac_ : boxes_[box].mac;
}

// Writes the headers in front of the datagram, into the mbuf's headroom.
void DpdkTransport::encapsulate(rte_mbuf* m, const Outbound& datagram) noexcept {
  const std::span<const std::byte> payload = datagram.room.first(datagram.bytes);
  jobs::Binding to;
  const std::size_t box = datagram.box < boxes_.size() ? datagram.box : 0;  // else it is lost at the first
  to.address = boxes_.empty() ? filter_.ours.box : boxes_[box].address;
  to.mac = destination_of(payload, box);
  to.udp_port = datagram.destination_port;
  const std::size_t head = pipeline::encapsulation_bytes(to);
  m->data_off = static_cast<std::uint16_t>(m->data_off - head);
  m->data_len = static_cast<std::uint16_t>(head + payload.size());
  m->pkt_len = m->data_len;
  pipeline::write_encapsulation({dpdk::data_of(m), head}, to, self_, filter_.ours.udp_port, payload);
}

void DpdkTransport::send(std::size_t filled) {
  TALLY_DCHECK(filled <= lent_, "only what was lent can be sent");
  for (std::size_t i = 0; i < filled; ++i) {
    encapsulate(stock_[i], room_[i]);
    // Shard i is served by the data core that polls queue i, as far as there are so many queues.
    const auto shard = static_cast<std::uint16_t>(room_[i].destination_port - kBasePort);
    outgoing_[shard % outgoing_.size()].push_back(stock_[i]);
  }
  std::copy(stock_.begin() + static_cast<std::ptrdiff_t>(filled),
            stock_.begin() + static_cast<std::ptrdiff_t>(stocked_), stock_.begin());
  stocked_ -= filled;
  lent_ = 0;
  for (std::uint16_t queue = 0; auto& frames : outgoing_) {
    const std::size_t taken = tally::dpdk::send(port_->traits().id, queue++, frames, counters_.mbufs);
    counters_.sent += taken;
    held_back_ = held_back_ || taken < frames.size();
    frames.clear();
  }
  if (filled != 0) idle_.busy();
}

Result<void> DpdkTransport::set_boxes(std::span<const BoxAddress> boxes) {
  std::vector<BoxAddress> next(boxes.begin(), boxes.end());
  for (BoxAddress& box : next) {
    if (box.address == Ipv6{}) box.address = filter_.ours.box;
    if (auto near = check_other_box(filter_.ours, box.address); !near) return near;
  }
  // The first one's is told by joined(), and is nothing to another first one.
  const Ipv6 first = boxes_.empty() ? filter_.ours.box : boxes_.front().address;
  if (next.front().address != first) box_mac_ = kBroadcastMac;
  boxes_ = std::move(next);
  filter_.boxes.clear();
  for (const BoxAddress& box : boxes_) filter_.boxes.push_back(box.address);
  return {};
}

void DpdkTransport::joined(const engine::Membership& membership) {
  const bool multicast = membership.results == ResultsMode::kMulticast;
  const bool in_it = report_due_ != kNever && filter_.group == membership.group;
  box_mac_ = membership.box_mac;
  filter_.group_port = multicast ? membership.group_port : 0;
  filter_.group = membership.group;
  filter_.group_mac = jobs::multicast_mac(membership.group);
  if (!multicast) {
    report_due_ = kNever;
  } else if (!in_it) {
    reported_ = false;
    report_due_ = 0;
    maintain(steady_now());  // before the first contribution leaves
  }
}

void DpdkTransport::wait(TimeNs now, TimeNs until) {
  maintain(steady_now());
  if (until > now) idle_.wait(until - now);
}

std::string DpdkTransport::describe() const {
  std::string text = device_.name + ": MTU " + std::to_string(mtu_) + ", " +
                     std::to_string(port_->traits().receive_queues) + " receive and " +
                     std::to_string(port_->traits().transmit_queues) + " transmit queues, link " +
                     (up_ ? "up" : "down") + ", " + (hugepages_ ? "hugepages" : "no hugepages");
  if (const std::string down = trouble(); !down.empty()) text += "; " + down;
  return text;
}

std::string DpdkTransport::trouble() const {
  return link_ != nullptr && !up_ ? link_->why_down() : std::string();
}

}  // namespace tally::dpdk_transport
