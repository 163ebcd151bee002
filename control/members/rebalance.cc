#include "rebalance.h"

#include <algorithm>
#include <vector>

#include "division.h"
#include "offer.h"

namespace tally {
namespace {

// A publication for each entry that comes and goes would be noise. The limit itself is always given, so that
// a job alone has all it may have.
bool worth_a_publication(const SharedQuota& quota, std::uint32_t cap) noexcept {
  if (cap == quota.limit) return quota.cap != cap;
  const std::uint32_t change = cap > quota.cap ? cap - quota.cap : quota.cap - cap;
  return change > std::max(quota.cap / 16, 1U);
}

std::uint32_t wanted_by(JobId job, std::span<const SharedDemand> demand) {
  const auto named =
      std::find_if(demand.begin(), demand.end(), [job](const auto& d) { return d.job == job; });
  if (named == demand.end()) return 0;
  return named->denied ? Sharer::kEverything : named->entries;
}

// Classes are strict: to a class, those below it want no more than what is reserved for them.
std::vector<Sharer> seen_by(std::uint8_t rank, std::span<JobMembership* const> jobs,
                            std::vector<Sharer> sharers) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (class_of(jobs[i]->config.priority) < rank)
      sharers[i].demand = std::min(sharers[i].demand, sharers[i].reserved);
  }
  return sharers;
}

}  // namespace

void rebalance_shared(BoxState& box, std::span<const SharedDemand> demand) {
  std::vector<JobMembership*> jobs;
  std::vector<Sharer> sharers;
  for (const auto& job : box.jobs) {
    if (job == nullptr || !job->active() || !shares_slots(job->config.discipline)) continue;
    jobs.push_back(job.get());
    sharers.push_back(
        {job->config.quota.weight, job->quota.reserved, job->quota.limit, wanted_by(job->id, demand)});
  }
  for (std::uint8_t rank = 0; rank <= class_of(kMaxPriority); ++rank) {
    const auto caps = divide(seen_by(rank, jobs, sharers), box.options.shared_entries);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      JobMembership& job = *jobs[i];
      if (class_of(job.config.priority) != rank || !worth_a_publication(job.quota, caps[i])) continue;
      job.quota.cap = caps[i];
      publish_row(job, box, job.term);
    }
  }
}

}  // namespace tally
