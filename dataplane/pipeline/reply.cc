#include "pipeline/reply.h"

#include <cstring>

#include "tally/net.h"

namespace tally::pipeline {
namespace {

void seal(std::byte* datagram, Header& h, const kernels::Kernels& kernels) noexcept {
  std::memcpy(datagram, &h, sizeof h);
  h.check = Be{kernels.crc32c(datagram, kCheckedBytes)};
  std::memcpy(datagram + kCheckedBytes, &h.check, sizeof h.check);
}

// RFC 1071 over big-endian 16-bit words; a byte left over counts as the high half of a word.
std::uint32_t ones_sum(std::span<const std::byte> bytes, std::uint32_t sum) noexcept {
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) {
    sum += (std::to_integer<std::uint32_t>(bytes[i]) << 8) | std::to_integer<std::uint32_t>(bytes[i + 1]);
  }
  if (i < bytes.size()) sum += std::to_integer<std::uint32_t>(bytes[i]) << 8;
  return sum;
}
std::uint16_t folded(std::uint32_t sum) noexcept {
  while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}
template <class T>
std::byte* append(std::byte* at, const T& header) noexcept {
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

Ipv4Header ipv4_header(const jobs::Binding& to, const jobs::Box& box, std::size_t udp_bytes,
                       std::uint16_t fragment) noexcept {
  Ipv4Header ip;
  ip.total_length = Be{static_cast<std::uint16_t>(sizeof ip + udp_bytes)};
  ip.fragment = Be{fragment};
  ip.source = box.ipv4;
  std::memcpy(ip.destination.data(), to.address.data() + 12, ip.destination.size());
  ip.checksum = Be{folded(ones_sum(std::as_bytes(std::span{&ip, 1}), 0))};
  return ip;
}

Ipv6Header ipv6_header(const jobs::Binding& to, const jobs::Box& box, std::size_t udp_bytes) noexcept {
  Ipv6Header ip;
  ip.payload_length = Be{static_cast<std::uint16_t>(udp_bytes)};
  ip.source = box.ipv6;
  ip.destination = to.address;
  return ip;
}

// RFC 8200, 8.1: pseudo header of addresses, length and next header, then UDP header and payload.
std::uint16_t ipv6_udp_checksum(const Ipv6Header& ip, const UdpHeader& udp,
                                std::span<const std::byte> payload) noexcept {
  std::uint32_t sum = ones_sum(std::as_bytes(std::span{ip.source}), kProtocolUdp + udp.length.host());
  sum = ones_sum(std::as_bytes(std::span{ip.destination}), sum);
  sum = ones_sum(std::as_bytes(std::span{&udp, 1}), sum);
  const std::uint16_t check = folded(ones_sum(payload, sum));
  return check == 0 ? std::uint16_t{0xFFFF} : check;
}

}  // namespace

void write_result(std::byte* datagram, const jobs::Job& job, const Contribution& p, std::uint8_t flags,
                  const kernels::Kernels& kernels, std::uint64_t missing) noexcept {
  Header h;
  h.type = PacketType::kResult;
  h.flags = static_cast<std::uint8_t>(flags | (missing != 0 ? kFlagIncomplete : 0));
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(kSwitchRank)};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(p.chunk)};
  h.slot = Be{raw(p.slot)};
  h.contributors = Be{job.members & ~missing};
  h.cookie = Be{raw(job.result_cookie)};
  jobs::write_sum(h, p.sum);
  seal(datagram, h, kernels);
}

void write_query(std::byte* datagram, const jobs::Job& job, const Contribution& p, Rank peer,
                 const kernels::Kernels& kernels) noexcept {
  Header h;
  h.type = PacketType::kQuery;
  h.flags = kFlagRetransmit;
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(p.rank)};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(p.chunk)};
  h.slot = Be{raw(p.slot)};
  h.dtype = p.sum.shape.dtype;
  h.contributors = Be{bit_of(peer)};
  h.cookie = Be{raw(job.result_cookie)};
  seal(datagram, h, kernels);
}

void write_partial(std::byte* datagram, const jobs::Job& job, const Contribution& p,
                   const kernels::Kernels& kernels) noexcept {
  Header h;
  h.type = PacketType::kPartial;
  h.priority = p.priority;
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(kSwitchRank)};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(p.chunk)};
  h.slot = Be{slot_of(jobs::slot_map(job), p.chunk)};
  h.contributors = Be{p.bit};
  h.cookie = Be{raw(job.result_cookie)};
  jobs::write_sum(h, p.sum);
  seal(datagram, h, kernels);
}

void relay_header(std::byte* datagram, Cookie cookie, const kernels::Kernels& kernels,
                  std::uint8_t flags) noexcept {
  Header h = header_at(datagram);
  h.flags |= flags;
  h.cookie = Be{raw(cookie)};
  seal(datagram, h, kernels);
}

void write_reject(std::span<std::byte, kHeaderBytes> out, const Header& refused, RejectReason reason,
                  Cookie cookie, std::uint64_t contributors, const kernels::Kernels& kernels) noexcept {
  Header h;
  h.type = PacketType::kReject;
  h.job = refused.job;
  h.rank = Be{raw(kSwitchRank)};
  h.epoch = refused.epoch;
  h.chunk = refused.chunk;
  h.slot = Be{static_cast<std::uint32_t>(reason)};
  h.contributors = Be{contributors};
  h.cookie = Be{raw(cookie)};
  seal(out.data(), h, kernels);
}

std::size_t encapsulation_bytes(const jobs::Binding& to) noexcept {
  const std::size_t ip = is_mapped_ipv4(to.address) ? sizeof(Ipv4Header) : sizeof(Ipv6Header);
  return sizeof(EthernetHeader) + (to.vlan == jobs::kUntagged ? 0 : sizeof(VlanTag)) + ip + sizeof(UdpHeader);
}

void write_encapsulation(std::span<std::byte> out, const jobs::Binding& to, const jobs::Box& box,
                         std::uint16_t source_port, std::span<const std::byte> payload,
                         std::uint16_t fragment) noexcept {
  const bool v4 = is_mapped_ipv4(to.address);
  const Be ip_type{v4 ? kEtherIpv4 : kEtherIpv6};
  const bool tagged = to.vlan != jobs::kUntagged;
  std::byte* at = append(out.data(), EthernetHeader{to.mac, box.mac, tagged ? Be{kEtherVlan} : ip_type});
  if (tagged) at = append(at, VlanTag{Be{to.vlan}, ip_type});

  UdpHeader udp{Be{source_port},
                Be{to.udp_port},
                Be{static_cast<std::uint16_t>(sizeof(UdpHeader) + payload.size())},
                {}};
  if (v4) {
    at = append(at, ipv4_header(to, box, udp.length.host(), fragment));
  } else {
    const Ipv6Header ip = ipv6_header(to, box, udp.length.host());
    udp.checksum = Be{ipv6_udp_checksum(ip, udp, payload)};
    at = append(at, ip);
  }
  append(at, udp);
}

}  // namespace tally::pipeline
