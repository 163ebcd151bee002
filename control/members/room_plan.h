#pragma once
// Which pools of lower priority must give how much for a job that forms. Nothing is changed here.

#include <cstdint>
#include <optional>
#include <vector>

#include "admission.h"
#include "box_state.h"
#include "job_membership.h"

namespace tally {

// A pool that must form anew with this window: a smaller one, or the same at another place.
struct Giver {
  JobMembership* pool = nullptr;
  std::uint32_t window = 0;
  bool same_window = false;
};

// For the largest window, up to the wish, for which giving helps. Empty: nobody is asked to give, because the
// best window that the job can get is free already, or because it can get none. The lowest priority gives
// first, among equals the largest window, by halves down to kMinWindow. Pools that form anew already are
// among the givers; so are those that cannot be called back yet, because their members are yet to be told.
[[nodiscard]] std::vector<Giver> plan_room(const JobMembership& job, const BoxState& box, const Wish& wish);

// The largest window, above its present one, to which a running pool could grow now; 0: to none.
[[nodiscard]] std::uint32_t growth_of(const JobMembership& pool, const BoxState& box);

}  // namespace tally
