#include "counters_snapshot.h"

#include <cstddef>

namespace tally {
namespace {

void add(JobCounters& sum, const JobCounters& part) {
  for (std::size_t i = 0; i < kVerdictCount; ++i) sum.verdicts[i] += part.verdicts[i].get();
  for (std::size_t i = 0; i < kDropCount; ++i) sum.drops[i] += part.drops[i].get();
}

JobCounts count_job(const Plane& plane, const JobStatus& status, std::vector<CoreCounts>& cores) {
  JobCounts job{.status = status};
  for (std::size_t core = 0; core < cores.size(); ++core) {
    const JobCounters part = plane.counters(core, status.id);
    add(job.counters, part);
    cores[core].contributions += contributions_of(part);
    job.slots += plane.slots(core, status.id);
    job.occupancy += plane.occupancy(core, status.id);
    job.overflows += plane.overflows(core, status.id);
  }
  return job;
}

}  // namespace

CountersSnapshot take_snapshot(const Plane& plane, const std::vector<JobStatus>& jobs,
                               const std::vector<std::uint16_t>& cpus) {
  CountersSnapshot all;
  for (std::size_t i = 0; i < plane.ports(); ++i) {
    const PortIndex port{static_cast<std::uint16_t>(i)};
    all.ports.push_back(
        {plane.port_name(port), plane.link_up(port), plane.port_statistics(port), plane.impaired(port)});
  }
  for (std::size_t core = 0; core < plane.cores(); ++core) {
    all.cores.push_back(
        {.cpu = cpus.at(core), .statistics = plane.statistics(core), .server = plane.server(core)});
    add(all.no_job, plane.counters(core, JobId{0}));
    all.l2 += plane.statistics(core).l2;
  }
  all.jobs.reserve(jobs.size());
  for (const JobStatus& job : jobs) all.jobs.push_back(count_job(plane, job, all.cores));
  all.hosts = plane.hosts();
  all.mbufs_in_use = plane.mbufs_in_use();
  return all;
}

}  // namespace tally
