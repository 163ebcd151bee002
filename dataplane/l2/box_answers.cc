#include "box_answers.h"

#include "answer_parts.h"
#include "internet_sum.h"
#include "l2_headers.h"

namespace tally {
namespace {

bool is_solicited_group(const Mac& mac, const Box& box) noexcept {
  return box.ipv6 != Ipv6{} && mac == group_mac(solicited_node(box.ipv6));
}

bool is_extension(std::uint8_t next_header) noexcept {
  constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kAuthentication = 51, kDestination = 60;
  return next_header == kHopByHop || next_header == kRouting || next_header == kAuthentication ||
         next_header == kDestination;
}

}  // namespace

bool may_ask(const Mac& destination, const Box& box) noexcept {
  return destination == box.mac || destination == kBroadcastMac || is_solicited_group(destination, box);
}

Answer answer(const AskedFrame& frame, const Box& box) noexcept {
  const auto ethernet = wire_at<EthernetHeader>(frame.data);
  Question q{.frame = frame, .offset = sizeof ethernet, .alone = ethernet.destination == box.mac};
  if (!may_ask(ethernet.destination, box)) return {};
  std::uint16_t type = ethernet.type.host();
  if (type == kEtherVlan) {
    if (q.room() < sizeof(VlanTag)) return q.alone ? dropped(SwitchFate::kRunt) : Answer{};
    type = wire_at<VlanTag>(q.at()).type.host();
    q.offset += sizeof(VlanTag);
  }
  if (type == kEtherArp && (q.alone || ethernet.destination == kBroadcastMac)) return answer_arp(q, box);
  if (type == kEtherIpv4 && q.alone) return answer_ipv4(q, box);
  if (type == kEtherIpv6 && (q.alone || is_solicited_group(ethernet.destination, box)))
    return answer_ipv6(q, box);
  return ignored(q);
}

// Of others' packets to the same group nothing is judged.
Answer answer_ipv6(const Question& q, const Box& box) noexcept {
  constexpr std::uint8_t kFragmentHeader = 44;
  if (q.room() < sizeof(Ipv6Header)) return dropped(SwitchFate::kRunt);
  const auto ip = wire_at<Ipv6Header>(q.at());
  const bool to_box = ip.destination == box.ipv6 && q.alone;
  if (box.ipv6 == Ipv6{} || (!to_box && ip.destination != solicited_node(box.ipv6))) return ignored(q);
  if ((ip.version_class_flow.host() >> 28) != 6) return dropped(SwitchFate::kIpHeader);
  if (to_box && ip.next_header == kFragmentHeader) return dropped(SwitchFate::kFragment);
  if (to_box && is_extension(ip.next_header)) return dropped(SwitchFate::kIpOptions);
  if (ip.next_header != kProtocolIcmp6) return ignored(q);
  const std::size_t payload = ip.payload_length.host();
  if (payload > q.room() - sizeof ip) return dropped(SwitchFate::kLength);
  if (payload < sizeof(IcmpHeader)) return dropped(SwitchFate::kRunt);
  const auto icmp = wire_at<IcmpHeader>(q.at() + sizeof ip);
  if (icmp.type == kIcmp6Echo && to_box) return answer_echo6(q, box, ip, payload);
  if (icmp.type == kSolicitation) return answer_solicitation(q, box, ip, payload);
  return ignored(q);
}

std::uint16_t icmp6_sum(const Ipv6Header& ip, std::span<const std::byte> icmp) noexcept {
  const auto addresses = std::as_bytes(std::span{&ip, 1}).subspan(offsetof(Ipv6Header, source));
  return folded(internet_sum(addresses) + internet_sum(icmp) + static_cast<std::uint32_t>(icmp.size()) +
                kProtocolIcmp6);
}

}  // namespace tally
