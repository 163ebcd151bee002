#include "io/headers.h"

#include <bit>
#include <cstring>

#include "jobs/binding.h"
#include "pipeline/reply.h"

namespace tally::io {
namespace {

template <class T>
T header_at(const std::byte* at) noexcept {
  T header;
  std::memcpy(&header, at, sizeof header);
  return header;
}
template <class T>
void put(std::byte* at, const T& value) noexcept {
  std::memcpy(at, &value, sizeof value);
}
using Be16 = Be<std::uint16_t>;

}  // namespace

HeaderTemplate::HeaderTemplate(const jobs::Binding& to, const jobs::Box& box, std::uint16_t source_port,
                               std::uint16_t fragment) noexcept
    : bytes_(static_cast<std::uint8_t>(pipeline::encapsulation_bytes(to))),
      ipv6_(!is_mapped_ipv4(to.address)) {
  pipeline::write_encapsulation(std::span{header_}.first(bytes_), to, box, source_port, {}, fragment);
  std::byte* const udp_at = header_.data() + bytes_ - sizeof(UdpHeader);
  auto udp = header_at<UdpHeader>(udp_at);
  udp.length = {};
  udp.checksum = {};
  put(udp_at, udp);
  if (ipv6_) {
    std::byte* const ip_at = udp_at - sizeof(Ipv6Header);
    auto ip = header_at<Ipv6Header>(ip_at);
    ip.payload_length = {};
    put(ip_at, ip);
    sum_ = l2::internet_sum(std::as_bytes(std::span{ip.source})) +
           l2::internet_sum(std::as_bytes(std::span{ip.destination})) +
           l2::internet_sum(std::as_bytes(std::span{&udp, 1})) + kProtocolUdp;
  } else {
    std::byte* const ip_at = udp_at - sizeof(Ipv4Header);
    auto ip = header_at<Ipv4Header>(ip_at);
    ip.total_length = {};
    ip.checksum = {};
    put(ip_at, ip);
    sum_ = l2::internet_sum(std::as_bytes(std::span{&ip, 1}));
  }
}

void HeaderTemplate::set_destination_port(std::uint16_t port) noexcept {
  put(header_.data() + bytes_ - sizeof(UdpHeader) + offsetof(UdpHeader, destination), Be16{port});
}

void HeaderTemplate::write(std::byte* out, std::uint16_t source_port, std::uint32_t payload_bytes,
                           std::uint32_t payload_sum) const noexcept {
  // The usual size first, as a constant: two or three moves instead of a call.
  constexpr std::size_t kIpv4 = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
  if (bytes_ == kIpv4) {
    std::memcpy(out, header_.data(), kIpv4);
  } else {
    std::memcpy(out, header_.data(), bytes_);
  }
  std::byte* const udp = out + bytes_ - sizeof(UdpHeader);
  const auto length = static_cast<std::uint16_t>(sizeof(UdpHeader) + payload_bytes);
  if (source_port != 0) put(udp + offsetof(UdpHeader, source), Be16{source_port});
  put(udp + offsetof(UdpHeader, length), Be16{length});
  if (ipv6_) {
    put(udp - sizeof(Ipv6Header) + offsetof(Ipv6Header, payload_length), Be16{length});
    // The length counts twice: in the pseudo header and in the UDP header.
    const auto check =
        static_cast<std::uint16_t>(~l2::folded(sum_ + source_port + 2U * length + payload_sum));
    put(udp + offsetof(UdpHeader, checksum), Be16{check == 0 ? std::uint16_t{0xFFFF} : check});
  } else {
    std::byte* const ip = udp - sizeof(Ipv4Header);
    const auto total = static_cast<std::uint16_t>(sizeof(Ipv4Header) + length);
    put(ip + offsetof(Ipv4Header, total_length), Be16{total});
    put(ip + offsetof(Ipv4Header, checksum), Be16{static_cast<std::uint16_t>(~l2::folded(sum_ + total))});
  }
}

JobHeaders::JobHeaders(const jobs::Job& job, const jobs::Box& box, const JobHeaders* before,
                       const jobs::Job* job_before)
    : one_frame(job.leaders != 0) {
  // Beside the binding and the box a template depends on the dialect.
  const std::uint32_t kept =
      job_before != nullptr && job_before->session.has_value() == job.session.has_value() ? job_before->world
                                                                                          : 0;
  for (std::uint32_t r = 0; r < job.world; ++r) {
    const jobs::Binding& to = job.ranks[r].binding;
    if (r < kept && job_before->ranks[r].binding == to) {
      members[r] = before->members[r];
    } else {
      members[r] = {job.session ? HeaderTemplate(to, box, to.udp_port, 0) : HeaderTemplate(to, box), to.port};
    }
    ipv6 |= members[r].header.ipv6();
    member_ports |= bit_of_port(to.port);
  }
  for (std::uint32_t s = 0; s < job.servers; ++s) {
    const jobs::Binding& to = job.server_ranks[s].binding;
    servers[s] = {HeaderTemplate(to, box), to.port};
  }
  const jobs::Binding& first =
      job.ranks[static_cast<unsigned>(std::countr_zero(job.leaders)) % kMaxRanks].binding;
  for (std::uint64_t left = job.leaders; left != 0; left &= left - 1) {
    const auto r = static_cast<unsigned>(std::countr_zero(left));
    const jobs::Binding& leader = job.ranks[r].binding;
    groups[r] = {HeaderTemplate(jobs::multicast_binding(job.id, leader), box), leader.port};
    one_frame &= leader.vlan == first.vlan &&
                 is_mapped_ipv4(leader.address) == is_mapped_ipv4(first.address) && raw(leader.port) < 64;
    group_ports |= bit_of_port(leader.port);
  }
}

HeaderTable::HeaderTable(const jobs::JobTable& table, const jobs::Box& box, const HeaderTable* before,
                         const jobs::JobTable* table_before) {
  for (std::uint32_t id = 0; id <= kMaxJobs; ++id) {
    const jobs::Job* const job = table.row(static_cast<JobId>(id));
    if (job == nullptr) continue;
    const jobs::Job* const was = table_before != nullptr ? table_before->row(job->id) : nullptr;
    const JobHeaders* const had = was != nullptr ? before->rows_[id].get() : nullptr;
    rows_[id] = was == job ? before->rows_[id] : std::make_shared<const JobHeaders>(*job, box, had, was);
  }
}

rte_mbuf* make_frame(const jobs::Binding& to, const jobs::Box& box, std::uint16_t source_port,
                     std::span<const std::byte> datagram, rte_mempool* pool,
                     dpdk::MbufCounters& counters) noexcept {
  rte_mbuf* const m = dpdk::allocate(pool, counters);
  if (m == nullptr) return nullptr;
  const std::size_t head = pipeline::encapsulation_bytes(to);
  if (head + datagram.size() > rte_pktmbuf_tailroom(m)) {
    dpdk::drop(m);
    return nullptr;
  }
  m->data_len = static_cast<std::uint16_t>(head + datagram.size());
  m->pkt_len = m->data_len;
  pipeline::write_encapsulation({dpdk::data_of(m), head}, to, box, source_port, datagram);
  std::memcpy(dpdk::data_of(m) + head, datagram.data(), datagram.size());
  return m;
}

}  // namespace tally::io
