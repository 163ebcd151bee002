#include "io/l2_switch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "io/egress.h"
#include "tally/check.h"

namespace tally::io {
namespace {

constexpr std::uint16_t kEtherServiceVlan = 0x88A8;
// Some NICs stop their transmit queue at a frame below this.
constexpr std::uint32_t kShortestSent = 17;

EthernetHeader ethernet_of(const rte_mbuf* m) noexcept {
  EthernetHeader header;
  std::memcpy(&header, dpdk::data_of(m), sizeof header);
  return header;
}

constexpr std::uint64_t bit_of(PortIndex port) noexcept { return std::uint64_t{1} << raw(port); }

// Of a bitmap that is not 0.
PortIndex first_of(std::uint64_t ports) noexcept {
  return PortIndex{static_cast<std::uint16_t>(std::countr_zero(ports))};
}

}  // namespace

L2Switch::L2Switch(l2::BoxMode mode, const jobs::Box& box, std::size_t ports, l2::MacTable& hosts,
                   Egress& egress, CoreStatistics& statistics) noexcept
    : mode_(mode),
      box_(box),
      ports_(ports == 0 ? 0 : ~std::uint64_t{0} >> (64 - ports)),
      egress_(egress),
      statistics_(statistics),
      counters_(statistics.l2),
      forwarding_(hosts, statistics.l2) {
  TALLY_CHECK(ports <= l2::MacTable::kPorts, "the table of hosts can name every port");
}

void L2Switch::handle(rte_mbuf* m, TimeNs now) noexcept {
  if (m->pkt_len < kShortestSent) return drop_as(m, l2::SwitchFate::kRunt);
  const EthernetHeader header = ethernet_of(m);
  const PortIndex ingress{m->port};
  if (const auto why = l2::wrong_source(header.source, box_.mac)) return drop_as(m, *why);
  if (l2::may_ask(header.destination, box_)) {
    m = whole(m, ingress);
    if (m == nullptr) return;
    const auto capacity = static_cast<std::uint32_t>(m->buf_len - m->data_off);
    const l2::Answer out =
        l2::answer({.data = dpdk::data_of(m), .length = m->pkt_len, .capacity = capacity}, box_);
    if (out.kind != l2::Answer::Kind::kNone) {
      if (mode_ == l2::BoxMode::kInline) forwarding_.learn(header.source, ingress, now);
      if (out.kind == l2::Answer::Kind::kDropped) return drop_as(m, out.fate);
      m->data_len = static_cast<std::uint16_t>(out.length);
      m->pkt_len = out.length;
      if (!fits(m, ingress)) return drop_as(m, l2::SwitchFate::kTooLong);
      counters_.add(out.fate);
      return push(ingress, m);
    }
  }
  if (mode_ == l2::BoxMode::kOneArm) return drop_as(m, l2::SwitchFate::kNotForUs);
  const l2::Route route = forwarding_.route(ingress, header.destination, header.source, now);
  if (route.fate != l2::SwitchFate::kReserved && claims_our_address(m))
    return drop_as(m, l2::SwitchFate::kConflict);
  if (route.fate == l2::SwitchFate::kForwarded) return forward(m, route.to);
  if (route.fate == l2::SwitchFate::kFlooded) return flood(m, ingress);
  drop_as(m, route.fate);
}

void L2Switch::learn(const rte_mbuf* m, TimeNs now) noexcept {
  if (mode_ != l2::BoxMode::kInline) return;
  const Mac source = ethernet_of(m).source;
  if (!l2::wrong_source(source, box_.mac)) forwarding_.learn(source, PortIndex{m->port}, now);
}

void L2Switch::drop_as(rte_mbuf* m, l2::SwitchFate fate) noexcept {
  counters_.add(fate);
  dpdk::drop(m);
}

rte_mbuf* L2Switch::whole(rte_mbuf* m, PortIndex port) noexcept {
  if (m->nb_segs == 1) return m;
  rte_mempool* const pool = egress_.traits(port).frames;
  if (m->pkt_len > dpdk::room_of(pool)) {
    drop_as(m, l2::SwitchFate::kTooLong);
    return nullptr;
  }
  rte_mbuf* const copy = dpdk::copied_whole(m, 0, pool, statistics_);
  if (copy == nullptr) {
    drop_as(m, l2::SwitchFate::kNoMbuf);
    return nullptr;
  }
  dpdk::drop(m);
  return copy;
}

// answer() has looked at broadcasts and at what is sent to the box; a claim may be sent to one other host.
bool L2Switch::claims_our_address(const rte_mbuf* m) const noexcept {
  std::array<std::byte, l2::kClaimBytes> room{};
  const std::uint32_t bytes = std::min(m->pkt_len, l2::kClaimBytes);
  const auto* const head = static_cast<const std::byte*>(rte_pktmbuf_read(m, 0, bytes, room.data()));
  return head != nullptr && l2::claims_address({head, bytes}, box_);
}

// Whether the port's MTU allows it. A tag does not count.
bool L2Switch::fits(const rte_mbuf* m, PortIndex port) const noexcept {
  const std::uint16_t type = ethernet_of(m).type.host();
  const bool tagged = type == kEtherVlan || type == kEtherServiceVlan;
  return m->pkt_len <= egress_.traits(port).mtu + sizeof(EthernetHeader) + (tagged ? sizeof(VlanTag) : 0);
}

bool L2Switch::takes_form(const rte_mbuf* m, PortIndex port) const noexcept {
  return m->nb_segs == 1 || egress_.traits(port).segments;
}

void L2Switch::forward(rte_mbuf* m, PortIndex to) noexcept {
  if (!fits(m, to)) return drop_as(m, l2::SwitchFate::kTooLong);
  if (!takes_form(m, to)) m = whole(m, to);
  if (m == nullptr) return;
  counters_.add(l2::SwitchFate::kForwarded);
  push(to, m);
}

// The very mbuf goes to all ports that may share it, and a copy to each other one. Copies come first: what
// has been sent may not be read any more.
void L2Switch::flood(rte_mbuf* m, PortIndex ingress) noexcept {
  counters_.add(l2::SwitchFate::kFlooded);
  std::uint64_t shared = 0;
  std::uint64_t alone = 0;
  for (std::uint64_t left = ports_ & ~bit_of(ingress); left != 0; left &= left - 1) {
    const PortIndex port = first_of(left);
    const bool shares = (egress_.sharing_ports() & bit_of(port)) != 0 && takes_form(m, port);
    if (!fits(m, port) || (!shares && m->pkt_len > dpdk::room_of(egress_.traits(port).frames))) {
      ++counters_.not_flooded;
    } else {
      (shares ? shared : alone) |= bit_of(port);
    }
  }
  // Without sharers one of the others may have the frame itself.
  PortIndex last{};
  bool gives_away = false;
  if (shared == 0 && alone != 0) {
    last = first_of(std::bit_floor(alone));
    gives_away = takes_form(m, last);
    if (gives_away) alone &= ~bit_of(last);
  }
  send_copies(alone, m);
  if (shared != 0) return send_shared(shared, m);
  if (!gives_away) return dpdk::drop(m);
  ++counters_.copies;
  push(last, m);
}

void L2Switch::send_copies(std::uint64_t ports, const rte_mbuf* m) noexcept {
  for (; ports != 0; ports &= ports - 1) {
    const PortIndex port = first_of(ports);
    rte_mbuf* const copy = dpdk::copied_whole(m, 0, egress_.traits(port).frames, statistics_);
    if (copy == nullptr) continue;
    ++counters_.copies;
    push(port, copy);
  }
}

void L2Switch::send_shared(std::uint64_t ports, rte_mbuf* m) noexcept {
  const int others = std::popcount(ports) - 1;
  counters_.copies += static_cast<std::uint64_t>(others) + 1;
  m->ol_flags = 0;
  dpdk::share(m, static_cast<std::uint16_t>(others));
  for (; ports != 0; ports &= ports - 1) egress_.push(first_of(ports), m);
}

// What a port said of the frame that arrived is not said to the next one.
void L2Switch::push(PortIndex port, rte_mbuf* m) noexcept {
  m->ol_flags = 0;
  egress_.push(port, m);
}

}  // namespace tally::io
