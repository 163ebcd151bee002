#pragma once
// What the jobs that share slots want, as the data cores show it. Owner: the control thread.

#include <cstdint>
#include <map>
#include <vector>

#include "membership.h"
#include "plane.h"

namespace tally {

class ShareWatch {
 public:
  // plane: outlives the watch.
  explicit ShareWatch(const Plane& plane) noexcept : plane_(plane) {}

  // The demand since the last look, of the running jobs that share slots.
  [[nodiscard]] std::vector<SharedDemand> look(const std::map<JobId, JobStatus>& jobs);

 private:
  const Plane& plane_;
  std::map<JobId, std::uint64_t> denied_;  // of all cores, at the last look
};

}  // namespace tally
