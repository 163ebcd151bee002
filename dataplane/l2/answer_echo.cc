// Ping (RFC 792, 4443). Never for groups, and never to one (RFC 1122, 3.2.2.6).

#include "answer_parts.h"
#include "internet_sum.h"
#include "l2_headers.h"

namespace tally {
namespace {

constexpr std::uint8_t kHopLimit = 64;

bool may_be_answered(const Ipv4& a, const Box& box) noexcept {
  return a[0] != 0 && a[0] != 127 && a[0] < 224 && a != box.ipv4;
}
bool may_be_answered(const Ipv6& a, const Box& box) noexcept {
  constexpr Ipv6 kLoopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return a != Ipv6{} && a != kLoopback && a[0] != 0xff && a != box.ipv6 && !is_mapped_ipv4(a);
}

// The same packet with another type: identifier, number and data go back as they came. pseudo: sum of the
// pseudo header. (All of an IPv4 reply but its checksum may be zero, which an incremental update gets wrong.)
void turn_round(std::span<std::byte> packet, std::uint8_t type, std::uint32_t pseudo) noexcept {
  auto icmp = wire_at<IcmpHeader>(packet.data());
  icmp.type = type;
  icmp.checksum = {};
  wire_put(packet.data(), icmp);
  icmp.checksum = Be<std::uint16_t>(static_cast<std::uint16_t>(~folded(internet_sum(packet) + pseudo)));
  wire_put(packet.data(), icmp);
}

}  // namespace

Answer answer_ipv4(const Question& q, const Box& box) noexcept {
  constexpr std::uint16_t kRight = 0xFFFF, kDontFragment = 0x4000;
  if (q.room() < sizeof(Ipv4Header)) return dropped(SwitchFate::kRunt);
  auto ip = wire_at<Ipv4Header>(q.at());
  if (box.ipv4 == Ipv4{} || ip.destination != box.ipv4 || ip.protocol != kProtocolIcmp) return ignored(q);
  if (ip.version_ihl >> 4 != 4 || (ip.version_ihl & 15) < 5) return dropped(SwitchFate::kIpHeader);
  if (ip.version_ihl != 0x45) return dropped(SwitchFate::kIpOptions);
  if ((ip.fragment.host() & 0x3FFF) != 0) return dropped(SwitchFate::kFragment);
  const std::size_t total = ip.total_length.host();
  if (total > q.room()) return dropped(SwitchFate::kLength);
  if (total < sizeof ip + sizeof(IcmpHeader)) return dropped(SwitchFate::kRunt);
  if (folded(internet_sum({q.at(), sizeof ip})) != kRight) return dropped(SwitchFate::kIpHeader);
  std::byte* const at = q.at() + sizeof ip;
  const auto icmp = wire_at<IcmpHeader>(at);
  if (icmp.type != kIcmpEcho) return ignored(q);
  if (folded(internet_sum({at, total - sizeof ip})) != kRight) return dropped(SwitchFate::kChecksum);
  if (icmp.code != 0) return dropped(SwitchFate::kIcmp);
  if (!may_be_answered(ip.source, box)) return dropped(SwitchFate::kAsker);

  ip.destination = ip.source;
  ip.source = box.ipv4;
  ip.ttl = kHopLimit;
  ip.id = {};  // says nothing of a packet that is never fragmented (RFC 6864)
  ip.fragment = Be<std::uint16_t>(kDontFragment);
  ip.checksum = {};
  const std::uint32_t sum = internet_sum(std::as_bytes(std::span{&ip, 1}));
  ip.checksum = Be<std::uint16_t>(static_cast<std::uint16_t>(~folded(sum)));
  wire_put(q.at(), ip);
  turn_round({at, total - sizeof ip}, kIcmpEchoReply, 0);
  return answered(q, SwitchFate::kEchoAnswered, asker_mac(q), box.mac, total);
}

Answer answer_echo6(const Question& q, const Box& box, const Ipv6Header& ip, std::size_t payload) noexcept {
  std::byte* const at = q.at() + sizeof ip;
  const auto icmp = wire_at<IcmpHeader>(at);
  if (icmp6_sum(ip, {at, payload}) != 0xFFFF) return dropped(SwitchFate::kChecksum);
  if (icmp.code != 0) return dropped(SwitchFate::kIcmp);
  if (!may_be_answered(ip.source, box)) return dropped(SwitchFate::kAsker);

  Ipv6Header reply = ip;
  reply.destination = ip.source;
  reply.source = box.ipv6;
  reply.hop_limit = kHopLimit;
  wire_put(q.at(), reply);
  turn_round({at, payload}, kIcmp6EchoReply, icmp6_sum(reply, {}) + static_cast<std::uint32_t>(payload));
  return answered(q, SwitchFate::kEchoAnswered, asker_mac(q), box.mac, sizeof ip + payload);
}

}  // namespace tally
