#pragma once
// Slot memory for a job that forms.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "members/box_state.h"
#include "members/job_membership.h"
#include "tally/discipline.h"

namespace tally::members {

// What a job that forms would like.
struct Wish {
  std::uint16_t elements = 0;
  std::uint32_t window = 0;
  std::uint32_t largest_window = 0;  // of a generation that goes on; 0: the window granted will be it
  bool grows = false;  // after it was shrunk: at the upper end, so that what is free stays in one piece for
                       // the other pools that lie at the lower end since they were shrunk
  bool moves = false;  // to lower lines, also where the present ones fit exactly
};

// Holds the lines of the job's own for the largest power of two <= wish.window that fits, and its quota of
// the shared slots; returns the window, or why there is none, with the numbers. A range that fits exactly
// stays, unless the wish says that it moves; otherwise what the job held is given back first, so the answer
// is never worse than before. A ledger that is held is to be zeroed before the next table is in force, also
// where the job had it already.
[[nodiscard]] tl::expected<std::uint32_t, std::string> admit(JobMembership& job, BoxState& box,
                                                             const Wish& wish);
// Why the shared region has no place for the job; empty: it has, or the job does not share slots.
[[nodiscard]] std::string objection(const JobMembership& job, const BoxState& box, const Wish& wish);
// Lines of its own that the job needs for such a window.
[[nodiscard]] std::uint32_t lines_for(const JobMembership& job, const BoxState& box, const Wish& wish,
                                      std::uint32_t window);
// Gives all of it back; the cores zero the lines before the next table is in force.
void release_slots(JobMembership& job, BoxState& box);

// Which pools of lower priority must give how much for a job that forms. Nothing is changed here.

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
