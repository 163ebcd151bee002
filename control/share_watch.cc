#include "share_watch.h"

#include <algorithm>
#include <utility>

namespace tally {

std::vector<SharedDemand> ShareWatch::look(const std::map<JobId, JobStatus>& jobs) {
  std::vector<SharedDemand> all;
  for (const auto& [id, job] : jobs) {
    const bool runs = job.phase == JobPhase::kRunning || job.phase == JobPhase::kDraining;
    if (!runs || !shares_slots(job.discipline)) continue;
    SharedDemand demand{.job = id};
    std::uint64_t denied = 0;
    for (std::size_t core = 0; core < plane_.cores(); ++core) {
      demand.entries = std::max(demand.entries, plane_.occupancy(core, id));
      denied += plane_.slots(core, id).denied;
    }
    demand.denied = std::exchange(denied_[id], denied) != denied;
    all.push_back(demand);
  }
  return all;
}

}  // namespace tally
