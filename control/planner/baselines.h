#pragma once
// What a job would get otherwise, on the same network and of the same capacities: what others do, as well as they could
// possibly do it, and the bound. All in Gbit/s of every worker.

#include <optional>

#include "planner/plan.h"

namespace tally::planner {

// Empty: it does not apply (no servers), or its program is too large to be solved beside a plan.
struct Baselines {
  std::optional<double> no_aggregation{};  // workers to servers directly, over the least loaded ways
  std::optional<double> own_rack{};  // ATP: boxes of own racks alone; the best mixture (a linear program)
  std::optional<double> own_rack_greedy{};     // the same, every box as full as it gets, ECMP
  std::optional<double> own_or_server_rack{};  // ATP: own rack or the server's rack; the best mixture
  std::optional<double> equal_split{};         // the model in equal parts to the servers, routes as planned
  std::optional<double> independent{};         // every worker draws a place for each group, as published
  double bound = 0;                            // no plan exceeds it
  double ring = 0;  // an allreduce along racks, 2 (N - 1) / N of the gradient over each link
};

// plan: of this job, for its bound and form.
[[nodiscard]] Result<Baselines> baselines_of(const Network& network, const Job& job, const Rates& capacity,
                                             const Plan& plan, const Options& options = {});

// Workers in the order of racks and hosts, results sent on as they come; ECMP. The demand for one worker.
[[nodiscard]] double ring_rate(const Network& network, const Job& job, const Rates& capacity);

}  // namespace tally::planner
