#pragma once
// Who gets slot memory. It moves from running pools to jobs of higher priority that form, and comes back:
// each time by a new epoch of the pool's generation with another window (docs/scheduling.md, Taking memory
// from pools).

#include <cstdint>

#include "jobs/layout.h"
#include "members/box_state.h"
#include "members/native_life.h"
#include "tally/discipline.h"

namespace tally::members {

// A pool that was shrunk runs at least so long before it is called back to grow.
inline constexpr TimeNs kGrowAfter = 10 * kSecond;

// A job of higher priority has all its ranks and waits for slot memory: nothing of what comes free is for
// `job`.
[[nodiscard]] bool outranked(const ResidentJob& job, const BoxState& box);

// All ranks of `job` are there. True: it must wait, because pools of lower priority are to give way for it;
// those that run are called back by this. False: admission has the best answer there is.
[[nodiscard]] bool must_wait(const ResidentJob& job, BoxState& box, const Wish& wish, TimeNs now);

// After any change: jobs that wait are tried again if lines came free or a pool can be called back since.
void settle_slots(BoxState& box, TimeNs now);

// Calls the shrunk pool back whose turn it is to grow, if its time has come.
void grow_pools(BoxState& box, TimeNs now);

// Slot memory that a job has for itself on each core: what the allocator hands out.

// pool: its entries; shared: its ledger, which covers the span; by hash: nothing.
constexpr std::uint32_t own_lines(Discipline discipline, std::uint32_t window, std::uint32_t span,
                                  std::uint32_t shards, std::uint32_t elements) noexcept {
  switch (discipline) {
    case Discipline::kPool:
      return jobs::pool_lines(window, shards, elements);
    case Discipline::kShared:
      return jobs::ledger_lines(span, shards);
    case Discipline::kFcfs:
    case Discipline::kPreemptive:
      break;
  }
  return 0;
}

}  // namespace tally::members
