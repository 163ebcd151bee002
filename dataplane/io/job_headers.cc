#include "job_headers.h"

#include <bit>

#include "multicast.h"

namespace tally {

JobHeaders::JobHeaders(const Job& job, const Box& box) : one_frame(job.leaders != 0) {
  for (std::uint32_t r = 0; r < job.world; ++r) {
    const Binding& to = job.ranks[r].binding;
    members[r] = {job.session ? HeaderTemplate(to, box, to.udp_port, 0) : HeaderTemplate(to, box), to.port};
    ipv6 |= members[r].header.ipv6();
    member_ports |= bit_of_port(to.port);
  }
  for (std::uint32_t s = 0; s < job.servers; ++s) {
    const Binding& to = job.server_ranks[s].binding;
    servers[s] = {HeaderTemplate(to, box), to.port};
  }
  const Binding& first = job.ranks[static_cast<unsigned>(std::countr_zero(job.leaders)) % kMaxRanks].binding;
  for (std::uint64_t left = job.leaders; left != 0; left &= left - 1) {
    const auto r = static_cast<unsigned>(std::countr_zero(left));
    const Binding& leader = job.ranks[r].binding;
    groups[r] = {HeaderTemplate(multicast_binding(job.id, leader), box), leader.port};
    one_frame &= leader.vlan == first.vlan &&
                 is_mapped_ipv4(leader.address) == is_mapped_ipv4(first.address) && raw(leader.port) < 64;
    group_ports |= bit_of_port(leader.port);
  }
}

HeaderTable::HeaderTable(const JobTable& table, const Box& box, const HeaderTable* before,
                         const JobTable* table_before) {
  for (std::uint32_t id = 0; id <= kMaxJobs; ++id) {
    const Job* const job = table.row(static_cast<JobId>(id));
    if (job == nullptr) continue;
    const bool same = table_before != nullptr && table_before->row(job->id) == job;
    rows_[id] = same ? before->rows_[id] : std::make_shared<const JobHeaders>(*job, box);
  }
}

}  // namespace tally
