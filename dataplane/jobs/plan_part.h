#pragma once
// One box's part of a plan (docs/protocol_boxes.md, 17.4), as its data cores ask for it: of each group of chunks,
// whose contributions meet here, and which server finishes it.

#include <array>
#include <cstdint>

#include "tally/ids.h"
#include "tally/plan.h"

namespace tally::jobs {

// Arrays apart, so that a contribution, which only asks who is here, touches one line for eight groups in a row.
struct PlanPart {
  std::array<std::uint64_t, kPlanGroups> here{};  // ranks whose contributions the box adds up
  std::array<std::uint64_t, kPlanGroups>
      through{};  // these, and whose it passes on: who has the result from it
  std::array<std::uint8_t, kPlanGroups> server{};  // by server_index()
};
static_assert(sizeof(PlanPart) == 17 * kPlanGroups);

// self: the box's place among the plan's. One that is none of them, such as a home may be: nobody sends to it.
[[nodiscard]] PlanPart part_of(const Plan& plan, BoxIndex self) noexcept;

}  // namespace tally::jobs
