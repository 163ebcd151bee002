#pragma once
// Where the home of a job over several boxes has its plans from (docs/protocol_boxes.md, 17.1), and a plan with its
// name.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tally/net.h"
#include "tally/plan.h"
#include "tally/wire.h"

namespace tally::members {

// A new epoch is to be offered. What it points to lives as long as the call.
struct PlanRequest {
  std::string_view job{};
  std::uint16_t world = 1;            // 1..kMaxRanks
  std::uint8_t servers = 1;           // 1..kMaxServers
  std::span<const Ipv6> addresses{};  // the job's boxes, 1..kMaxPlanBoxes
  std::uint64_t usable = 0;           // a bit for each of them that the plan may have; at least one
  // Where its members' JOINs came from: by rank, and servers by index.
  std::span<const Ipv6> rank_addresses{};
  std::span<const Ipv6> server_addresses{};
};

// Called by the owner of the membership, in the middle of its work: it must not wait for anything, nor call
// membership. A plan that does not fit what was asked is not taken.
using PlanSource = std::function<Plan(const PlanRequest&)>;

// All boxes alike: each has 1,024 / n of the groups, the first of them one more where that leaves a remainder, in turn;
// a group is one box's for all ranks. Servers likewise.
[[nodiscard]] Plan even_plan(const PlanRequest& request);

// Of this world, these servers and usable boxes alone, and all of its parts in their range.
[[nodiscard]] bool fits(const Plan& plan, const PlanRequest& request);

struct NamedPlan {
  PlanId id{};
  std::vector<std::byte> bytes{};
  Plan plan{};

  // plan: within its limits.
  [[nodiscard]] static std::shared_ptr<const NamedPlan> of(Plan plan);
  // Which of its boxes has this address; PlannedText::kNoBox: none.
  [[nodiscard]] BoxIndex index_of(const Ipv6& address) const noexcept;
  // `page`: below plan_pages(bytes.size()).
  [[nodiscard]] std::span<const std::byte> page(std::uint32_t page) const noexcept;
};

}  // namespace tally::members
