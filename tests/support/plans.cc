#include "plans.h"

namespace tally {
namespace {

Ipv6 address_of(std::uint32_t box) { return mapped({10, 254, 0, static_cast<std::uint8_t>(box + 1)}); }

}  // namespace

Plan random_plan(Rng& rng, const PlanSpec& spec) {
  Plan plan;
  for (std::uint32_t box = 0; box < spec.boxes; ++box) plan.boxes.push_back(address_of(box));
  plan.server_count = spec.servers;
  plan.tables.resize(rng.between(1, 4));
  for (std::uint32_t rank = 0; rank < spec.world; ++rank)
    plan.table_of.push_back(static_cast<std::uint8_t>(rng.below(plan.tables.size())));
  const auto any_box = [&] { return static_cast<BoxIndex>(rng.below(spec.boxes)); };
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    plan.servers[group] = static_cast<std::uint8_t>(rng.below(spec.servers));
    const bool together = rng.chance(spec.together);
    const Route common{.box = any_box()};
    for (RouteTable& table : plan.tables)
      table[group] = together ? common : Route{.box = any_box(), .direct = rng.chance(spec.direct)};
  }
  return plan;
}

Plan one_box_plan(std::uint8_t world, std::uint8_t servers) {
  Plan plan{.boxes = {address_of(0)}, .server_count = servers, .tables = {{}}};
  plan.table_of.assign(world, 0);
  for (std::uint32_t group = 0; group < kPlanGroups; ++group)
    plan.servers[group] = static_cast<std::uint8_t>(group % servers);
  return plan;
}

std::shared_ptr<const jobs::PlanPart> share_part(const Plan& plan, BoxIndex self) {
  return std::make_shared<const jobs::PlanPart>(jobs::part_of(plan, self));
}

}  // namespace tally
