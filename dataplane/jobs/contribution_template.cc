#include "jobs/contribution_template.h"

#include <cstring>

namespace tally::jobs {
namespace {

constexpr Be<std::uint16_t> kAll16{std::uint16_t{0xFFFF}};

struct Layers {
  EthernetHeader ethernet;
  VlanTag vlan;
  Ipv4Header ipv4;
  Ipv6Header ipv6;
  UdpHeader udp;
  Header header;
};

Likeness laid_out(const Layers& layers, Framing framing) noexcept {
  Likeness words{};
  auto* at = reinterpret_cast<std::byte*>(words.data());
  const auto put = [&at](const auto& layer, std::size_t bytes) noexcept {
    std::memcpy(at, &layer, bytes);
    at += bytes;
  };
  put(layers.ethernet, sizeof layers.ethernet);
  if (framing.tagged) put(layers.vlan, sizeof layers.vlan);
  if (framing.ipv6) put(layers.ipv6, sizeof layers.ipv6);
  if (!framing.ipv6) put(layers.ipv4, sizeof layers.ipv4);
  put(layers.udp, sizeof layers.udp);
  put(layers.header, offsetof(Header, sum1));
  return words;
}

// All bits that must be as the template has them: bits that may differ are those that no gate looks at
// (frame.cc), and fields that differ from packet to packet.
Likeness mask_of(Framing framing, bool halves) noexcept {
  Layers m;
  m.ethernet = {kBroadcastMac, kBroadcastMac, kAll16};
  m.vlan = {Be{std::uint16_t{0x0FFF}}, kAll16};
  m.ipv4.version_ihl = 0xFF;
  m.ipv4.fragment = Be{std::uint16_t{0x3FFF}};
  m.ipv4.ttl = 0;
  m.ipv4.protocol = 0xFF;
  m.ipv4.source.fill(0xFF);
  m.ipv4.destination.fill(0xFF);
  m.ipv6.version_class_flow = Be{0xF000'0000U};
  m.ipv6.next_header = 0xFF;
  m.ipv6.hop_limit = 0;
  m.ipv6.source.fill(0xFF);
  m.ipv6.destination.fill(0xFF);
  m.udp = {kAll16, Be{static_cast<std::uint16_t>(~(kMaxShards - 1))}, {}, {}};
  m.header.version = 0xFF;
  m.header.type = PacketType{0xFF};
  m.header.flags = static_cast<std::uint8_t>(~(kFlagRetransmit | kFlagDirect | kFlagOverflow));
  m.header.job = m.header.rank = kAll16;
  m.header.epoch = Be{~std::uint32_t{0}};
  m.header.elements = Be{static_cast<std::uint16_t>((halves ? 2 : 1) * kElementGranule - 1)};
  m.header.dtype = halves ? 0xFF & ~static_cast<std::uint8_t>(Dtype::kInt16) : 0xFE;
  m.header.exponent = 0;
  m.header.contributors = m.header.cookie = Be{~std::uint64_t{0}};
  return laid_out(m, framing);
}
static_assert(kBasePort % kMaxShards == 0 && kMaxShards == 64, "a mask finds the box's ports");
static_assert(static_cast<int>(Dtype::kInt32) == 0 && static_cast<int>(Dtype::kFloat32) == 1 &&
                  static_cast<int>(Dtype::kInt16) == 2,
              "a mask finds the dtypes");

Likeness masked(Likeness words, const Likeness& mask) noexcept {
  for (std::size_t i = 0; i < mask.size(); ++i) words[i] &= mask[i];
  return words;
}

Layers layers(const Binding& member, const Box& to) noexcept {
  const Be<std::uint16_t> ip_type{is_mapped_ipv4(member.address) ? kEtherIpv4 : kEtherIpv6};
  Layers l;
  l.ethernet = {to.mac, member.mac, member.vlan == kUntagged ? ip_type : Be{kEtherVlan}};
  l.vlan = {Be{member.vlan}, ip_type};
  std::memcpy(l.ipv4.source.data(), member.address.data() + 12, sizeof l.ipv4.source);
  l.ipv4.destination = to.ipv4;
  l.ipv6.source = member.address;
  l.ipv6.destination = to.ipv6;
  l.udp = {Be{member.udp_port}, Be{kBasePort}, {}, {}};
  l.header.type = PacketType::kContribute;
  return l;
}

}  // namespace

Likeness contribution_likeness(const Binding& from, JobId job, Epoch epoch, Rank rank,
                               Cookie cookie) noexcept {
  const Framing framing{from.vlan != kUntagged, !is_mapped_ipv4(from.address)};
  Layers l = layers(from, {});
  l.header.job = Be{raw(job)};
  l.header.rank = Be{raw(rank)};
  l.header.epoch = Be{raw(epoch)};
  l.header.contributors = Be{bit_of(rank)};
  l.header.cookie = Be{raw(cookie)};
  // Of both masks: neither has a bit where the other one has a template's.
  return masked(laid_out(l, framing), mask_of(framing, false));
}

BoxLikeness box_likeness(const Box& box, Framing framing, bool halves) noexcept {
  BoxLikeness made{.mask = mask_of(framing, halves)};
  const Likeness with = masked(laid_out(layers({}, box), framing), made.mask);
  const Likeness without = masked(laid_out(layers({}, {}), framing), made.mask);
  for (std::size_t i = 0; i < made.box.size(); ++i) made.box[i] = with[i] ^ without[i];
  constexpr std::size_t kLength = 2;  // the word that has the length, which no template has
  if (framing.ipv6 ? box.ipv6 == Ipv6{} : box.ipv4 == Ipv4{}) made.box[kLength] |= ~made.mask[kLength];
  return made;
}

}  // namespace tally::jobs
