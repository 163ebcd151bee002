#include "io/headers.h"

#include <bit>
#include <cstring>

#include "jobs/binding.h"
#include "pipeline/reply.h"

namespace tally::io {
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
      members[r] = {
          job.session ? pipeline::HeaderTemplate(to, box, to.udp_port, 0) : pipeline::HeaderTemplate(to, box),
          to.port};
    }
    ipv6 |= members[r].header.ipv6();
    member_ports |= bit_of_port(to.port);
  }
  for (std::uint32_t s = 0; s < job.servers; ++s) {
    const jobs::Binding& to = job.server_ranks[s].binding;
    servers[s] = {pipeline::HeaderTemplate(to, box), to.port};
  }
  const jobs::Binding& first =
      job.ranks[static_cast<unsigned>(std::countr_zero(job.leaders)) % kMaxRanks].binding;
  for (std::uint64_t left = job.leaders; left != 0; left &= left - 1) {
    const auto r = static_cast<unsigned>(std::countr_zero(left));
    const jobs::Binding& leader = job.ranks[r].binding;
    groups[r] = {pipeline::HeaderTemplate(jobs::multicast_binding(job.id, leader), box), leader.port};
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
