#include "io/headers.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <variant>

namespace tally::io {

template <class Make>
void JobHeaders::set_members(const jobs::Job& job, const JobHeaders* before, const jobs::Job* job_before,
                             Make header) {
  const std::uint32_t kept = job_before != nullptr ? job_before->world : 0;
  for (std::uint32_t r = 0; r < job.world; ++r) {
    const jobs::Binding& to = job.ranks[r].binding;
    if (to == jobs::Binding{}) continue;  // not known here (several boxes alone): nothing is sent there
    members[r] =
        r < kept && job_before->ranks[r].binding == to ? before->members[r] : Receiver{header(to), to.port};
    ipv6 |= members[r].header.ipv6();
    member_ports |= bit_of_port(to.port);
  }
}

JobHeaders::JobHeaders(const jobs::Job& job, const jobs::Box& box, const JobHeaders* before,
                       const jobs::Job* job_before) {
  set_members(job, before, job_before,
              [&](const jobs::Binding& to) { return pipeline::HeaderTemplate(to, box, to.udp_port, 0); });
}

JobHeaders::JobHeaders(const jobs::NativeJob& job, const jobs::Box& box, const JobHeaders* before,
                       const jobs::NativeJob* job_before)
    : one_frame(job.leaders != 0) {
  set_members(job, before, job_before,
              [&](const jobs::Binding& to) { return pipeline::HeaderTemplate(to, box); });
  for (std::uint32_t s = 0; s < job.servers; ++s) {
    const jobs::Binding& to = job.server_ranks[s].binding;
    servers[s] = {pipeline::HeaderTemplate(to, box), to.port};
  }
  for (std::uint32_t shard = 0; job.racked != 0 && shard < job.parent.shards; ++shard) {
    jobs::Binding to = job.parent.binding;
    to.udp_port = static_cast<std::uint16_t>(kBasePort + shard);
    parent.push_back({pipeline::HeaderTemplate(to, box, kBasePort), to.port});
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
  for (std::uint16_t id = 0; id <= kMaxJobs; ++id) {
    const auto set = [&](const auto& job) {
      using Dialect = std::remove_cvref_t<decltype(*job)>;
      if (job == nullptr) return;
      // Beside the binding and the box a template depends on the dialect.
      const Dialect* const was =
          table_before != nullptr ? jobs::row_as<Dialect>(table_before->row(JobId{id})) : nullptr;
      const JobHeaders* const had = was != nullptr ? before->rows_[id].get() : nullptr;
      rows_[id] =
          was == job.get() ? before->rows_[id] : std::make_shared<const JobHeaders>(*job, box, had, was);
    };
    std::visit(set, table.row(JobId{id}));
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
