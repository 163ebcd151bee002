#include "planning/published.h"

#include <algorithm>
#include <optional>
#include <string>

namespace tally::planning {
namespace {

using planner::Entry;
using planner::Index;
using planner::kGroups;
using planner::kNone;

static_assert(kGroups == kPlanGroups);

tl::unexpected<Error> not_to_be_told(const std::string& why) {
  return fail(ErrorCode::kInvalidArgument, why);
}

// Boxes of the plan as they come to be used.
class Boxes {
 public:
  explicit Boxes(const Places& places) : places_(places) {}

  BoxIndex index_of(Index box) {
    const auto at = static_cast<std::size_t>(std::find(used_.begin(), used_.end(), box) - used_.begin());
    if (at == used_.size()) used_.push_back(box);
    return static_cast<BoxIndex>(std::min<std::size_t>(at, kMaxPlanBoxes));
  }
  [[nodiscard]] std::size_t count() const noexcept { return used_.size(); }
  [[nodiscard]] std::vector<Ipv6> addresses() const {
    std::vector<Ipv6> out;
    for (const Index box : used_) out.push_back(places_.boxes[box]);
    return out;
  }

 private:
  const Places& places_;
  std::vector<Index> used_;
};

}  // namespace

Result<Plan> published(const planner::Topology& topology, const planner::Tables& tables,
                       const Places& places) {
  if (places.racks.empty() || places.racks.size() > kMaxRanks)
    return not_to_be_told("a plan is for 1 to " + std::to_string(kMaxRanks) + " ranks");
  Boxes boxes(places);
  for (const Index box : tables.boxes) boxes.index_of(box);
  Plan plan;
  plan.server_count = places.servers;
  std::vector<std::optional<std::uint8_t>> told(tables.racks.size());  // tables, by rack
  for (const Index rack : places.racks) {
    const auto at = std::find(tables.racks.begin(), tables.racks.end(), rack);
    if (at == tables.racks.end()) return not_to_be_told("a rank is in a rack that the plan does not have");
    const auto r = static_cast<std::size_t>(at - tables.racks.begin());
    if (!told[r]) {
      const auto& entries = tables.of_rack[r];
      const bool direct = std::any_of(entries.begin(), entries.end(),
                                      [](const Entry& entry) { return entry.box == Entry::kNoBox; });
      const Index own = topology.box_at(rack);
      const BoxIndex passes = direct && own != kNone ? boxes.index_of(own) : BoxIndex{0};
      RouteTable table;
      for (std::size_t g = 0; g < kGroups; ++g) {
        const Entry& entry = entries[g];
        const bool here = entry.box != Entry::kNoBox;
        table[g] = {
            .box = here ? static_cast<BoxIndex>(std::min<std::size_t>(entry.box, kMaxPlanBoxes)) : passes,
            .direct = !here};
        plan.servers[g] = entry.server;
      }
      const auto same = std::find(plan.tables.begin(), plan.tables.end(), table);
      told[r] = static_cast<std::uint8_t>(same - plan.tables.begin());
      if (same == plan.tables.end()) plan.tables.push_back(table);
    }
    plan.table_of.push_back(*told[r]);
  }
  if (boxes.count() == 0)
    return not_to_be_told("nobody has a box that could pass on what goes to the servers");
  if (boxes.count() > kMaxPlanBoxes || plan.tables.size() > kMaxPlanTables)
    return not_to_be_told("a plan names at most " + std::to_string(kMaxPlanBoxes) + " boxes and " +
                          std::to_string(kMaxPlanTables) + " tables");
  plan.boxes = boxes.addresses();
  return plan;
}

}  // namespace tally::planning
