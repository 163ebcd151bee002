#pragma once
// Plans of jobs over several boxes, as a planner might make them, and worse ones.

#include <cstdint>
#include <memory>

#include "jobs/plan_part.h"
#include "rng.h"
#include "tally/plan.h"

namespace tally {

struct PlanSpec {
  std::uint8_t boxes = 2;
  std::uint8_t world = 4;
  std::uint8_t servers = 2;
  double together = 0.3;  // share of the groups that all ranks send to one box, which adds them up
  double direct = 0.1;    // of the other routes
};

// Up to four racks, and the routes of each group as the dice fall.
[[nodiscard]] Plan random_plan(Rng& rng, const PlanSpec& spec);
// One table: all ranks send all groups to box 0. Group g is finished by server g mod servers.
[[nodiscard]] Plan one_box_plan(std::uint8_t world, std::uint8_t servers);
[[nodiscard]] std::shared_ptr<const jobs::PlanPart> share_part(const Plan& plan, BoxIndex self);

}  // namespace tally
