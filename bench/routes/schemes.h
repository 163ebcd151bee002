#pragma once
// Who sums where: what is compared, each as tables of whole chunk groups which the production engines then follow.

#include <array>
#include <cstdint>
#include <string_view>

#include "planner/plan.h"

namespace tally::routes {

enum class Scheme : std::uint8_t {
  kLoadOnly,     // no aggregation, ways by load (LBMM)
  kOwnRack,      // ATP: every box for its own rack
  kServersRack,  // ATP: own rack's box or the one at the server's rack
  kEqualSplit,   // the model in equal parts to the servers, the rest as the planner has it
  kPlanned,      // servers by what they can merge, the rest as the planner has it (InArt)
};
inline constexpr std::size_t kSchemes = 5;
inline constexpr std::array<std::string_view, kSchemes> kSchemeNames{
    "no aggregation", "ATP, own rack", "ATP, own or server's rack", "equal split, planned ways", "planned"};

struct Laid {
  planner::Tables tables{};
  planner::Spread spread{};
  double rate = 0;     // Gbit/s of every worker, reckoned from the tables
  double at_best = 0;  // the linear program behind them, before it was rounded to groups
};

// All but kPlanned have the model in equal parts at the servers. The best mixture of what a scheme allows, by a linear program over all ways; of ATP's the better of that, rounded, and
// boxes as full as they get. Fails where nothing leads to a server.
[[nodiscard]] Result<Laid> lay(Scheme scheme, const planner::Network& network, const planner::Job& job);

}  // namespace tally::routes
