#include "dpdk_transport/worker_address.h"

#include <arpa/inet.h>
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "tally/mix64.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::dpdk_transport {
namespace {

constexpr std::uint16_t kVlanId = 0xFFF;          // of a tag; the rest is priority
constexpr std::uint16_t kFirstEphemeral = 49152;  // RFC 6335; above the box's own ports

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

std::string ip_text(const Ipv6& a) {
  const bool ipv4 = is_mapped_ipv4(a);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? a.data() + 12 : a.data(), text.data(), text.size());
  return text.data();
}

template <class T>
std::optional<T> take(std::span<const std::byte>& rest) noexcept {
  if (rest.size() < sizeof(T)) return std::nullopt;
  const T value = wire_at<T>(rest.data());
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
  const auto box_ip = text::ip_address(box);
  if (!box_ip) return bad(text::in_quotes(box) + " is not an IP address: give the box's", "TALLY_SWITCH");
  const std::size_t slash = address.find('/');
  const auto own = text::ip_address(address.substr(0, slash));
  if (!own || slash == std::string_view::npos) {
    return bad(text::in_quotes(address) + ": over DPDK a worker has an address of its own; give it with " +
                   "the length of the network, for example 10.0.0.11/24",
               "TALLY_ADDRESS");
  }
  const unsigned most = is_mapped_ipv4(*own) ? 32 : 128;
  const auto length = text::whole_number(address.substr(slash + 1), 1, most);
  if (!length) {
    return bad(text::in_quotes(address) + ": the length of the network is 1 to " + std::to_string(most),
               "TALLY_ADDRESS");
  }
  const auto bits = static_cast<unsigned>(*length) + 128 - most;
  if (is_mapped_ipv4(*own) != is_mapped_ipv4(*box_ip) || !same_network(*own, *box_ip, bits)) {
    return bad("the box " + std::string(box) + " is not in the network of " + std::string(address) +
                   ": a worker over DPDK reaches only its own network",
               "TALLY_ADDRESS");
  }
  if (*own == *box_ip || names_no_host(*own, bits)) {
    return bad(text::in_quotes(address) + " is not an address for a worker: it is the box's own, the " +
                   "network's or its broadcast address",
               "TALLY_ADDRESS");
  }
  WorkerAddress made{*own, *box_ip, {}, 0, bits};
  const std::uint64_t bytes = mix64(random);
  std::memcpy(made.mac.data() + 1, &bytes, 5);
  made.mac[0] = 0x02;  // locally administered, one host
  made.udp_port = static_cast<std::uint16_t>(kFirstEphemeral + (bytes >> 40) % (65536 - kFirstEphemeral));
  return made;
}

Result<void> check_other_box(const WorkerAddress& ours, const Ipv6& box) {
  const bool near = ours.ipv4() == is_mapped_ipv4(box) && same_network(ours.own, box, ours.network_bits);
  if (near && box != ours.own) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      ip_text(box) +
          ", another box of the job, is not in this worker's network: a worker over DPDK reaches only that",
      "TALLY_ADDRESS");
}

std::span<const std::byte> open_worker_frame(std::span<const std::byte> frame, const WorkerFilter& filter,
                                             std::size_t& box) noexcept {
  const auto ethernet = take<EthernetHeader>(frame);
  if (!ethernet) return {};
  const bool multicast = filter.group_port != 0 && ethernet->destination == filter.group_mac;
  if (!multicast && ethernet->destination != filter.ours.mac) return {};
  std::uint16_t type = ethernet->type.host();
  if (filter.vlan != jobs::kUntagged) {
    const auto tag = take<VlanTag>(frame);
    if (type != kEtherVlan || !tag || (tag->tci.host() & kVlanId) != filter.vlan) return {};
    type = tag->type.host();
  }
  if (type != (filter.ours.ipv4() ? kEtherIpv4 : kEtherIpv6)) return {};
  auto packet = type == kEtherIpv4 ? open_ipv4(frame) : open_ipv6(frame);
  if (!packet) return {};
  if (filter.boxes.empty()) {
    if (packet->source != filter.ours.box) return {};
    box = 0;
  } else {
    const auto at = std::find(filter.boxes.begin(), filter.boxes.end(), packet->source);
    if (at == filter.boxes.end()) return {};
    box = static_cast<std::size_t>(at - filter.boxes.begin());
  }
  if (packet->destination != (multicast ? filter.group : filter.ours.own)) return {};
  const std::size_t udp_bytes = packet->udp.size();
  const auto udp = take<UdpHeader>(packet->udp);
  if (!udp || udp->length.host() != udp_bytes) return {};
  if (udp->destination.host() != (multicast ? filter.group_port : filter.ours.udp_port)) return {};
  return packet->udp;
}

namespace {

constexpr std::uint8_t kProtocolIgmp = 2;
constexpr std::uint8_t kProtocolIcmpv6 = 58;
constexpr std::uint8_t kNetworkControl = 0xC0;  // precedence, as kernels send it
constexpr std::size_t kLeastFrame = 60;

struct RouterAlert {  // RFC 2113, behind the IPv4 header
  std::uint8_t type = 0x94;
  std::uint8_t length = 4;
  Be<std::uint16_t> value{};
};
struct IgmpReport {
  std::uint8_t type = 0x16;
  std::uint8_t time = 0;
  Be<std::uint16_t> checksum;
  Ipv4 group{};
};
struct HopByHop {  // RFC 2711, padded to eight bytes
  std::uint8_t next_header = kProtocolIcmpv6;
  std::uint8_t length = 0;
  std::array<std::uint8_t, 6> options{5, 2, 0, 0, 1, 0};
};
struct MldReport {
  std::uint8_t type = 131;
  std::uint8_t code = 0;
  Be<std::uint16_t> checksum;
  Be<std::uint32_t> delay_and_reserved;
  Ipv6 group{};
};
static_assert(sizeof(EthernetHeader) + sizeof(Ipv6Header) + sizeof(HopByHop) + sizeof(MldReport) ==
              kMostReportBytes);

template <class T>
void append(GroupReport& report, const T& value) noexcept {
  wire_put(report.frame.data() + report.length, value);
  report.length += sizeof value;
}

Ipv4 ipv4_of(const Ipv6& ip) noexcept { return {ip[12], ip[13], ip[14], ip[15]}; }

// RFC 4291, appendix A.
Ipv6 link_local(const Mac& mac) noexcept {
  const auto first = static_cast<std::uint8_t>(mac[0] ^ 2U);
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, first, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

GroupReport igmp_report(const WorkerAddress& ours, const Ipv6& group) noexcept {
  IgmpReport igmp;
  igmp.group = ipv4_of(group);
  igmp.checksum = internet_checksum(internet_sum_of(igmp));
  const RouterAlert alert;
  Ipv4Header ip;
  ip.version_ihl = 0x46;
  ip.tos = kNetworkControl;
  ip.total_length = Be{static_cast<std::uint16_t>(sizeof ip + sizeof alert + sizeof igmp)};
  ip.fragment = Be{std::uint16_t{0x4000}};
  ip.ttl = 1;
  ip.protocol = kProtocolIgmp;
  ip.source = ipv4_of(ours.own);
  ip.destination = igmp.group;
  ip.checksum = internet_checksum(internet_sum_of(alert) + internet_sum_of(ip));
  GroupReport report;
  append(report, EthernetHeader{jobs::multicast_mac(group), ours.mac, Be{kEtherIpv4}});
  append(report, ip);
  append(report, alert);
  append(report, igmp);
  report.length = kLeastFrame;  // the rest is zero
  return report;
}

GroupReport mld_report(const WorkerAddress& ours, const Ipv6& group) noexcept {
  const HopByHop options;
  MldReport mld;
  mld.group = group;
  Ipv6Header ip;
  ip.payload_length = Be{static_cast<std::uint16_t>(sizeof options + sizeof mld)};
  ip.next_header = 0;
  ip.hop_limit = 1;
  ip.source = link_local(ours.mac);
  ip.destination = group;
  // The pseudo-header: both addresses, length and protocol of what follows the options.
  const std::uint32_t pseudo = internet_sum_of(ip.source) + internet_sum_of(ip.destination) +
                               std::uint32_t{sizeof mld} + kProtocolIcmpv6;
  mld.checksum = internet_checksum(pseudo + internet_sum_of(mld));
  GroupReport report;
  append(report, EthernetHeader{jobs::multicast_mac(group), ours.mac, Be{kEtherIpv6}});
  append(report, ip);
  append(report, options);
  append(report, mld);
  return report;
}

}  // namespace

GroupReport make_group_report(const WorkerAddress& ours, const Ipv6& group) noexcept {
  return ours.ipv4() ? igmp_report(ours, group) : mld_report(ours, group);
}

}  // namespace tally::dpdk_transport
