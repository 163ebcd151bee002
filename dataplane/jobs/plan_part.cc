#include "jobs/plan_part.h"

#include <cstddef>

namespace tally::jobs {

PlanPart part_of(const Plan& plan, BoxIndex self) noexcept {
  PlanPart part{.server = plan.servers};
  // Rank by rank, so that its table is read in order.
  for (std::size_t rank = 0; rank < plan.table_of.size(); ++rank) {
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const RouteTable& table = plan.tables[plan.table_of[rank]];
    for (std::size_t group = 0; group < kPlanGroups; ++group) {
      if (table[group].box != self) continue;
      part.through[group] |= bit;
      if (!table[group].direct) part.here[group] |= bit;
    }
  }
  return part;
}

}  // namespace tally::jobs
