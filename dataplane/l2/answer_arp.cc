// ARP (RFC 826), also for hosts that try out whether an address is free (RFC 5227).

#include "answer_parts.h"
#include "forwarding.h"
#include "l2_headers.h"

namespace tally {
namespace {

bool of_ipv4(const ArpPacket& arp) noexcept {
  constexpr std::uint16_t kEthernet = 1;
  return arp.hardware.host() == kEthernet && arp.protocol.host() == kEtherIpv4 &&
         arp.hardware_bytes == sizeof(Mac) && arp.protocol_bytes == sizeof(Ipv4);
}

// 0.0.0.0 is a probe's.
bool may_send(const Ipv4& a) noexcept { return a == Ipv4{} || (a[0] != 0 && a[0] != 127 && a[0] < 224); }

}  // namespace

Answer answer_arp(const Question& q, const Box& box) noexcept {
  constexpr std::uint16_t kRequest = 1, kReply = 2;
  if (q.room() < sizeof(ArpPacket)) return dropped(SwitchFate::kRunt);
  auto arp = wire_at<ArpPacket>(q.at());
  if (box.ipv4 == Ipv4{} || !of_ipv4(arp)) return ignored(q);
  // Not flooded either, or every host would send there what is meant for the box.
  if (arp.sender == box.ipv4) return dropped(SwitchFate::kConflict);
  if (arp.operation.host() != kRequest || arp.target != box.ipv4) return ignored(q);
  if (wrong_source(arp.sender_mac, box.mac)) return dropped(SwitchFate::kArpFields);
  if (!may_send(arp.sender)) return dropped(SwitchFate::kAsker);

  arp.operation = Be<std::uint16_t>(kReply);
  arp.target_mac = arp.sender_mac;
  arp.target = arp.sender;
  arp.sender_mac = box.mac;
  arp.sender = box.ipv4;
  wire_put(q.at(), arp);
  return answered(q, SwitchFate::kArpAnswered, arp.target_mac, box.mac, sizeof arp);
}

bool claims_address(std::span<const std::byte> head, const Box& box) noexcept {
  static_assert(kClaimBytes == sizeof(EthernetHeader) + sizeof(VlanTag) + sizeof(ArpPacket));
  std::size_t offset = sizeof(EthernetHeader);
  if (box.ipv4 == Ipv4{} || head.size() < offset + sizeof(ArpPacket)) return false;
  std::uint16_t type = wire_at<EthernetHeader>(head.data()).type.host();
  if (type == kEtherVlan) {
    type = wire_at<VlanTag>(head.data() + offset).type.host();
    offset += sizeof(VlanTag);
  }
  if (type != kEtherArp || head.size() < offset + sizeof(ArpPacket)) return false;
  const auto arp = wire_at<ArpPacket>(head.data() + offset);
  return of_ipv4(arp) && arp.sender == box.ipv4;
}

}  // namespace tally
