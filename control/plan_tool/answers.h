#pragma once
// What tally-plan answers, as text for people and as JSON for programs (docs/fleet_planning.md). Pure.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan_tool/planned.h"
#include "plan_tool/purchase.h"

namespace tally::plan_tool {

using Json = nlohmann::ordered_json;

struct Shown {
  const std::string& file;
  const cluster::Cluster& cluster;
  const std::string& job;  // empty: all
  bool all_loads = false;
};

[[nodiscard]] std::string show_text(const Shown& shown, const PlannedCluster& planned);
[[nodiscard]] Json show_json(const Shown& shown, const PlannedCluster& planned);

// before and after: of the same jobs.
struct Loss {
  const std::vector<std::string>& lost;
  const PlannedCluster& before;
  const PlannedCluster& after;
};
[[nodiscard]] std::string what_if_text(const Shown& shown, const Loss& loss);
[[nodiscard]] Json what_if_json(const Shown& shown, const Loss& loss);

[[nodiscard]] std::string buy_text(const Shown& shown, const Purchase& purchase,
                                   const std::vector<Placement>& found);
[[nodiscard]] Json buy_json(const Shown& shown, const Purchase& purchase,
                            const std::vector<Placement>& found);

}  // namespace tally::plan_tool
