#include "l2/box_answers.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "l2/forwarding.h"
#include "l2/l2_headers.h"

namespace tally::l2 {
namespace {

constexpr std::size_t kShortest = 60;  // of Ethernet, without FCS

// A question that was opened as far as its Ethernet header and tag.
struct Question {
  AskedFrame frame;
  std::size_t offset = 0;  // of what follows Ethernet header and tag
  bool alone = false;      // to the box's MAC, so nobody else wants it

  [[nodiscard]] std::byte* at() const noexcept { return frame.data + offset; }
  [[nodiscard]] std::size_t room() const noexcept { return frame.length - offset; }
};

constexpr Answer dropped(SwitchFate why) noexcept { return {Answer::Kind::kDropped, why, 0}; }
// Nothing that the box answers.
constexpr Answer ignored(const Question& q) noexcept {
  return q.alone ? dropped(SwitchFate::kNotServed) : Answer{};
}

// The frame goes from `from` to `to` and has `bytes` behind its Ethernet header and tag. What the port had
// padded to Ethernet's 60 bytes is padded again, with zeros: another port may not do it.
Answer answered(const Question& q, SwitchFate fate, const Mac& to, const Mac& from,
                std::size_t bytes) noexcept {
  std::memcpy(q.frame.data, to.data(), to.size());
  std::memcpy(q.frame.data + to.size(), from.data(), from.size());
  const std::size_t end = q.offset + bytes;
  const std::size_t length = std::max(end, std::min<std::size_t>(q.frame.length, kShortest));
  std::fill(q.frame.data + end, q.frame.data + length, std::byte{0});
  return {Answer::Kind::kAnswer, fate, static_cast<std::uint32_t>(length)};
}

Mac asker_mac(const Question& q) noexcept { return wire_at<EthernetHeader>(q.frame.data).source; }

bool is_solicited_group(const Mac& mac, const jobs::Box& box) noexcept {
  return box.ipv6 != Ipv6{} && mac == group_mac(solicited_node(box.ipv6));
}

bool is_extension(std::uint8_t next_header) noexcept {
  constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kAuthentication = 51, kDestination = 60;
  return next_header == kHopByHop || next_header == kRouting || next_header == kAuthentication ||
         next_header == kDestination;
}

// ARP (RFC 826), also for hosts that try out whether an address is free (RFC 5227).

constexpr std::uint16_t kArpEthernet = 1, kArpRequest = 1, kArpReply = 2;

bool of_ipv4(const ArpPacket& arp) noexcept {
  return arp.hardware.host() == kArpEthernet && arp.protocol.host() == kEtherIpv4 &&
         arp.hardware_bytes == sizeof(Mac) && arp.protocol_bytes == sizeof(Ipv4);
}

// 0.0.0.0 is a probe's.
bool may_send(const Ipv4& a) noexcept { return a == Ipv4{} || (a[0] != 0 && a[0] != 127 && a[0] < 224); }

Answer answer_arp(const Question& q, const jobs::Box& box) noexcept {
  if (q.room() < sizeof(ArpPacket)) return dropped(SwitchFate::kRunt);
  auto arp = wire_at<ArpPacket>(q.at());
  if (box.ipv4 == Ipv4{} || !of_ipv4(arp)) return ignored(q);
  // Not flooded either, or every host would send there what is meant for the box.
  if (arp.sender == box.ipv4) return dropped(SwitchFate::kConflict);
  if (arp.operation.host() != kArpRequest || arp.target != box.ipv4) return ignored(q);
  if (wrong_source(arp.sender_mac, box.mac)) return dropped(SwitchFate::kArpFields);
  if (!may_send(arp.sender)) return dropped(SwitchFate::kAsker);

  arp.operation = Be<std::uint16_t>(kArpReply);
  arp.target_mac = arp.sender_mac;
  arp.target = arp.sender;
  arp.sender_mac = box.mac;
  arp.sender = box.ipv4;
  wire_put(q.at(), arp);
  return answered(q, SwitchFate::kArpAnswered, arp.target_mac, box.mac, sizeof arp);
}

// Ping (RFC 792, 4443). Never for groups, and never to one (RFC 1122, 3.2.2.6).

constexpr std::uint8_t kHopLimit = 64;

bool may_be_answered(const Ipv4& a, const jobs::Box& box) noexcept {
  return a[0] != 0 && a[0] != 127 && a[0] < 224 && a != box.ipv4;
}
bool may_be_answered(const Ipv6& a, const jobs::Box& box) noexcept {
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
  icmp.checksum = internet_checksum(internet_sum(packet) + pseudo);
  wire_put(packet.data(), icmp);
}

Answer answer_ipv4(const Question& q, const jobs::Box& box) noexcept {
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
  ip.checksum = internet_checksum(internet_sum_of(ip));
  wire_put(q.at(), ip);
  turn_round({at, total - sizeof ip}, kIcmpEchoReply, 0);
  return answered(q, SwitchFate::kEchoAnswered, asker_mac(q), box.mac, total);
}

// ip: the header at q.at(), checked. payload: bytes behind it, as it says, all there.
Answer answer_echo6(const Question& q, const jobs::Box& box, const Ipv6Header& ip,
                    std::size_t payload) noexcept {
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

// Neighbour solicitations (RFC 4861, 7.1.1 and 7.2.4), also those of hosts that try out whether an address is
// free (RFC 4862, 5.4).

struct Options {
  bool right = true;
  std::optional<Mac> source;  // link-layer address of the asker
};

Options read_options(std::span<const std::byte> rest) noexcept {
  constexpr std::uint8_t kSourceAddress = 1;
  Options found;
  while (!rest.empty()) {
    const std::size_t bytes = rest.size() < 2 ? 0 : 8 * std::to_integer<std::size_t>(rest[1]);
    if (bytes == 0 || bytes > rest.size()) return {.right = false};
    if (rest[0] == std::byte{kSourceAddress}) {
      if (bytes != sizeof(LinkAddressOption)) return {.right = false};
      found.source = wire_at<LinkAddressOption>(rest.data()).mac;
    }
    rest = rest.subspan(bytes);
  }
  return found;
}

constexpr std::uint8_t kNotRouted = 255;  // no router has passed it on
constexpr std::size_t kAdvertisementBytes = sizeof(NeighbourMessage) + sizeof(LinkAddressOption);

// `at` becomes the packet whose header is `ip`, with the box's address as its target.
void write_advertisement(std::byte* at, const Ipv6Header& ip, std::uint32_t flags,
                         const jobs::Box& box) noexcept {
  constexpr std::uint8_t kTargetAddress = 2;
  NeighbourMessage message{.icmp = {.type = kAdvertisement, .rest = Be<std::uint32_t>(flags)},
                           .target = box.ipv6};
  std::byte* const icmp = at + sizeof ip;
  wire_put(at, ip);
  wire_put(icmp, message);
  wire_put(icmp + sizeof message, LinkAddressOption{.type = kTargetAddress, .mac = box.mac});
  message.icmp.checksum = internet_checksum(icmp6_sum(ip, {icmp, kAdvertisementBytes}));
  wire_put(icmp, message.icmp);
}

// An advertisement may be longer than what it answers.
Answer answer_solicitation(const Question& q, const jobs::Box& box, const Ipv6Header& ip,
                           std::size_t payload) noexcept {
  std::byte* const at = q.at() + sizeof ip;
  if (payload < sizeof(NeighbourMessage)) return dropped(SwitchFate::kRunt);
  const auto message = wire_at<NeighbourMessage>(at);
  if (message.target != box.ipv6) return ignored(q);
  if (ip.hop_limit != kNotRouted || message.icmp.code != 0) return dropped(SwitchFate::kNeighbourFields);
  if (icmp6_sum(ip, {at, payload}) != 0xFFFF) return dropped(SwitchFate::kChecksum);
  const Options options = read_options({at + sizeof message, payload - sizeof message});
  if (!options.right) return dropped(SwitchFate::kNeighbourFields);
  const bool probe = ip.source == Ipv6{};
  if (probe && (options.source || ip.destination == box.ipv6)) return dropped(SwitchFate::kNeighbourFields);
  if (ip.source == box.ipv6) return dropped(SwitchFate::kConflict);
  if (ip.source[0] == 0xff) return dropped(SwitchFate::kAsker);
  const Mac asker = options.source.value_or(asker_mac(q));
  if (wrong_source(asker, box.mac)) return dropped(SwitchFate::kNeighbourFields);
  if (q.offset + sizeof ip + kAdvertisementBytes > q.frame.capacity) return dropped(SwitchFate::kRoom);

  Ipv6Header reply = ip;
  reply.payload_length = Be<std::uint16_t>(kAdvertisementBytes);
  reply.source = box.ipv6;
  reply.destination = probe ? kAllNodes : ip.source;
  write_advertisement(q.at(), reply, (probe ? 0 : kSolicited) | kOverride, box);
  return answered(q, SwitchFate::kNeighbourAnswered, probe ? group_mac(kAllNodes) : asker, box.mac,
                  sizeof ip + kAdvertisementBytes);
}

// Of others' packets to the same group nothing is judged.
Answer answer_ipv6(const Question& q, const jobs::Box& box) noexcept {
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

}  // namespace

std::uint16_t icmp6_sum(const Ipv6Header& ip, std::span<const std::byte> icmp) noexcept {
  const auto addresses = std::as_bytes(std::span{&ip, 1}).subspan(offsetof(Ipv6Header, source));
  return folded(internet_sum(addresses) + internet_sum(icmp) + static_cast<std::uint32_t>(icmp.size()) +
                kProtocolIcmp6);
}

bool may_ask(const Mac& destination, const jobs::Box& box) noexcept {
  return destination == box.mac || destination == kBroadcastMac || is_solicited_group(destination, box);
}

Answer answer(const AskedFrame& frame, const jobs::Box& box) noexcept {
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

bool claims_address(std::span<const std::byte> head, const jobs::Box& box) noexcept {
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

std::uint32_t announce_ipv4(std::span<std::byte> out, const jobs::Box& box) noexcept {
  if (box.ipv4 == Ipv4{}) return 0;
  std::fill_n(out.data(), kShortest, std::byte{0});
  wire_put(
      out.data(),
      EthernetHeader{.destination = kBroadcastMac, .source = box.mac, .type = Be<std::uint16_t>(kEtherArp)});
  wire_put(out.data() + sizeof(EthernetHeader), ArpPacket{.hardware = Be<std::uint16_t>(kArpEthernet),
                                                          .protocol = Be<std::uint16_t>(kEtherIpv4),
                                                          .operation = Be<std::uint16_t>(kArpRequest),
                                                          .sender_mac = box.mac,
                                                          .sender = box.ipv4,
                                                          .target = box.ipv4});
  return kShortest;
}

std::uint32_t announce_ipv6(std::span<std::byte> out, const jobs::Box& box) noexcept {
  static_assert(kAnnouncementBytes == sizeof(EthernetHeader) + sizeof(Ipv6Header) + kAdvertisementBytes);
  if (box.ipv6 == Ipv6{}) return 0;
  constexpr std::uint32_t kVersion = 6U << 28;
  wire_put(out.data(), EthernetHeader{.destination = group_mac(kAllNodes),
                                      .source = box.mac,
                                      .type = Be<std::uint16_t>(kEtherIpv6)});
  write_advertisement(out.data() + sizeof(EthernetHeader),
                      Ipv6Header{.version_class_flow = Be<std::uint32_t>(kVersion),
                                 .payload_length = Be<std::uint16_t>(kAdvertisementBytes),
                                 .next_header = kProtocolIcmp6,
                                 .hop_limit = kNotRouted,
                                 .source = box.ipv6,
                                 .destination = kAllNodes},
                      kOverride, box);
  return kAnnouncementBytes;
}

}  // namespace tally::l2
