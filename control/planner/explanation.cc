#include "planner/explanation.h"

#include <algorithm>

#include "text/text.h"

namespace tally::planner {

Explanation explain(const Topology& topology, const Plan& plan, const Rates& capacity,
                    const Baselines& baselines) {
  Explanation told{.job = plan.job, .form = name_of(plan.form), .rate = plan.rate, .promised = plan.promised};
  told.binding = plan.binding == kNone ? "the job's demand" : topology.name_of(plan.binding);
  told.baselines = baselines;
  for (Resource r = 0; r < plan.loads.size(); ++r) {
    if (plan.loads[r] > 0) told.loads.push_back({r, topology.name_of(r), plan.loads[r], capacity[r]});
  }
  std::stable_sort(told.loads.begin(), told.loads.end(),
                   [](const ResourceLoad& a, const ResourceLoad& b) { return a.share() > b.share(); });
  if (baselines.ring > plan.rate)
    told.advice = "a ring would be faster: " + text::fixed(baselines.ring, 1) + " against " +
                  text::fixed(plan.rate, 1) + " Gbit/s";
  return told;
}

}  // namespace tally::planner
