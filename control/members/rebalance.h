#pragma once
// The caps of running jobs in the shared region, from what they want now.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "members/box_state.h"
#include "members/membership_status.h"

namespace tally::members {

// Sets them, with no publication. Jobs that are not named want nothing; names of jobs that do not run or do
// not share slots are passed over.
void rebalance_shared(BoxState& box, std::span<const SharedDemand> demand);

// Weighted max-min division of the shared slots by demand (scheduling.md, Quota). Pure.

// A job as the division sees it, in entries of one core. One division serves all cores: a job's demand is
// that of its busiest core. Chunks spread evenly over the cores, so dividing each by its own demand has
// little to give; it is not done.
struct Sharer {
  static constexpr std::uint32_t kEverything = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t weight = 1;    // >= 1
  std::uint32_t reserved = 0;  // <= limit; of all sharers together at most `entries`
  std::uint32_t limit = 0;     // >= 1
  std::uint32_t demand = 0;
};

// Each one's cap: what it would get of `entries` if it asked for everything while the others ask for their
// demand. So what nobody wants is free for whoever comes to want it, and nobody waits for control to
// take what lies idle. At least 1 and `reserved`, at most `limit`; rounded up, as a slot too few would idle.
[[nodiscard]] std::vector<std::uint32_t> divide(std::span<const Sharer> sharers, std::uint32_t entries);

}  // namespace tally::members
