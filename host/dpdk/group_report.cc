#include "group_report.h"

#include <cstring>

namespace tally {
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

// RFC 1071, of an even number of bytes; `sum`: what came before.
template <class T>
std::uint32_t add_words(const T& value, std::uint32_t sum = 0) noexcept {
  static_assert(sizeof(T) % 2 == 0);
  std::array<std::uint8_t, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    sum += static_cast<std::uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  return sum;
}

Be<std::uint16_t> finish(std::uint32_t sum) noexcept {
  sum = (sum & 0xFFFFU) + (sum >> 16);
  sum = (sum & 0xFFFFU) + (sum >> 16);
  return Be{static_cast<std::uint16_t>(~sum & 0xFFFFU)};
}

template <class T>
void append(GroupReport& report, const T& value) noexcept {
  std::memcpy(report.frame.data() + report.length, &value, sizeof value);
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
  igmp.checksum = finish(add_words(igmp));
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
  ip.checksum = finish(add_words(alert, add_words(ip)));
  GroupReport report;
  append(report, EthernetHeader{multicast_mac(group), ours.mac, Be{kEtherIpv4}});
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
  const std::uint32_t pseudo = add_words(ip.source, add_words(ip.destination)) + sizeof mld + kProtocolIcmpv6;
  mld.checksum = finish(add_words(mld, pseudo));
  GroupReport report;
  append(report, EthernetHeader{multicast_mac(group), ours.mac, Be{kEtherIpv6}});
  append(report, ip);
  append(report, options);
  append(report, mld);
  return report;
}

}  // namespace

GroupReport make_group_report(const WorkerAddress& ours, const Ipv6& group) noexcept {
  return ours.ipv4() ? igmp_report(ours, group) : mld_report(ours, group);
}

}  // namespace tally
