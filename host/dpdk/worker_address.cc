#include "worker_address.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "in_quotes.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally {
namespace {

constexpr std::uint16_t kVlanId = 0xFFF;          // of a tag; the rest is priority
constexpr std::uint16_t kFirstEphemeral = 49152;  // RFC 6335; above the box's own ports

std::optional<Ipv6> parse_ip(std::string_view text) {
  const std::string copy(text);
  Ipv4 v4{};
  if (inet_pton(AF_INET, copy.c_str(), v4.data()) == 1) return mapped(v4);
  Ipv6 v6{};
  if (inet_pton(AF_INET6, copy.c_str(), v6.data()) == 1 && !is_mapped_ipv4(v6)) return v6;
  return std::nullopt;
}

bool same_network(const Ipv6& a, const Ipv6& b, unsigned bits) noexcept {
  for (unsigned i = 0; i < bits; ++i) {
    const auto shift = 7 - i % 8;
    if (((a[i / 8] ^ b[i / 8]) >> shift & 1) != 0) return false;
  }
  return true;
}

// The host part is all zeros or all ones: the network itself, or its broadcast address.
bool names_no_host(const Ipv6& a, unsigned bits) noexcept {
  unsigned ones = 0;
  for (unsigned i = bits; i < 128; ++i) ones += a[i / 8] >> (7 - i % 8) & 1U;
  return bits < 127 && (ones == 0 || (is_mapped_ipv4(a) && ones == 128 - bits));
}

template <class T>
std::optional<T> take(std::span<const std::byte>& rest) noexcept {
  if (rest.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, rest.data(), sizeof value);
  rest = rest.subspan(sizeof value);
  return value;
}

struct Packet {
  Ipv6 source{};
  Ipv6 destination{};
  std::span<const std::byte> udp{};
};

std::optional<Packet> open_ipv4(std::span<const std::byte> rest) noexcept {
  const std::size_t room = rest.size();
  const auto ip = take<Ipv4Header>(rest);
  if (!ip || ip->version_ihl != 0x45 || ip->protocol != kProtocolUdp) return std::nullopt;
  const std::size_t total = ip->total_length.host();
  if ((ip->fragment.host() & 0x3FFF) != 0 || total < sizeof *ip || total > room) return std::nullopt;
  return Packet{mapped(ip->source), mapped(ip->destination), rest.first(total - sizeof *ip)};
}

std::optional<Packet> open_ipv6(std::span<const std::byte> rest) noexcept {
  const auto ip = take<Ipv6Header>(rest);
  if (!ip || ip->version_class_flow.host() >> 28 != 6 || ip->next_header != kProtocolUdp) return std::nullopt;
  if (ip->payload_length.host() > rest.size()) return std::nullopt;
  return Packet{ip->source, ip->destination, rest.first(ip->payload_length.host())};
}

}  // namespace

Result<WorkerAddress> make_worker_address(std::string_view box, std::string_view address,
                                          std::uint64_t random) {
  const auto bad = [](std::string what, const char* where) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), where);
  };
  const auto box_ip = parse_ip(box);
  if (!box_ip) return bad(in_quotes(box) + " is not an IP address: give the box's", "TALLY_SWITCH");
  const std::size_t slash = address.find('/');
  const auto own = parse_ip(address.substr(0, slash));
  if (!own || slash == std::string_view::npos) {
    return bad(in_quotes(address) + ": over DPDK a worker has an address of its own; give it with " +
                   "the length of the network, for example 10.0.0.11/24",
               "TALLY_ADDRESS");
  }
  const unsigned most = is_mapped_ipv4(*own) ? 32 : 128;
  const std::string_view length = address.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
  if (error != std::errc{} || end != length.data() + length.size() || bits == 0 || bits > most) {
    return bad(in_quotes(address) + ": the length of the network is 1 to " + std::to_string(most),
               "TALLY_ADDRESS");
  }
  bits += 128 - most;
  if (is_mapped_ipv4(*own) != is_mapped_ipv4(*box_ip) || !same_network(*own, *box_ip, bits)) {
    return bad("the box " + std::string(box) + " is not in the network of " + std::string(address) +
                   ": a worker over DPDK reaches only its own network",
               "TALLY_ADDRESS");
  }
  if (*own == *box_ip || names_no_host(*own, bits)) {
    return bad(in_quotes(address) + " is not an address for a worker: it is the box's own, the " +
                   "network's or its broadcast address",
               "TALLY_ADDRESS");
  }
  WorkerAddress made{*own, *box_ip, {}, 0};
  const std::uint64_t bytes = mix64(random);
  std::memcpy(made.mac.data() + 1, &bytes, 5);
  made.mac[0] = 0x02;  // locally administered, one host
  made.udp_port = static_cast<std::uint16_t>(kFirstEphemeral + (bytes >> 40) % (65536 - kFirstEphemeral));
  return made;
}

Mac multicast_mac(const Ipv6& group) noexcept {
  if (is_mapped_ipv4(group))
    return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(group[13] & 0x7F), group[14], group[15]};
  return {0x33, 0x33, group[12], group[13], group[14], group[15]};
}

std::span<const std::byte> open_worker_frame(std::span<const std::byte> frame,
                                             const WorkerFilter& filter) noexcept {
  const auto ethernet = take<EthernetHeader>(frame);
  if (!ethernet) return {};
  const bool multicast = filter.group_port != 0 && ethernet->destination == filter.group_mac;
  if (!multicast && ethernet->destination != filter.ours.mac) return {};
  std::uint16_t type = ethernet->type.host();
  if (filter.vlan != kUntagged) {
    const auto tag = take<VlanTag>(frame);
    if (type != kEtherVlan || !tag || (tag->tci.host() & kVlanId) != filter.vlan) return {};
    type = tag->type.host();
  }
  if (type != (filter.ours.ipv4() ? kEtherIpv4 : kEtherIpv6)) return {};
  auto packet = type == kEtherIpv4 ? open_ipv4(frame) : open_ipv6(frame);
  if (!packet || packet->source != filter.ours.box) return {};
  if (packet->destination != (multicast ? filter.group : filter.ours.own)) return {};
  const std::size_t udp_bytes = packet->udp.size();
  const auto udp = take<UdpHeader>(packet->udp);
  if (!udp || udp->length.host() != udp_bytes) return {};
  if (udp->destination.host() != (multicast ? filter.group_port : filter.ours.udp_port)) return {};
  return packet->udp;
}

}  // namespace tally
