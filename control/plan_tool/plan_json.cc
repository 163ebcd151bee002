#include "plan_report/report_json.h"
#include "plan_tool/answers.h"

namespace tally::plan_tool {
namespace {

// Of what is written here; a key may be added without another number.
constexpr int kFormat = 1;

Json head(const Shown& shown) {
  const cluster::Cluster& c = shown.cluster;
  std::size_t racks = 0;
  for (const cluster::Cluster::Switch& one : c.switches) racks += one.rack ? 1 : 0;
  return {{"format", kFormat},
          {"file", shown.file},
          {"cluster",
           {{"racks", racks},
            {"switches", c.switches.size()},
            {"hosts", c.hosts.size()},
            {"boxes", c.boxes.size()},
            {"servers", c.servers.size()},
            {"routing", c.routing == planner::Routing::kEcmp ? "ecmp" : "chosen"},
            {"results", c.results == planner::Results::kCounted ? "counted" : "ignored"}}}};
}

Json rate_or_null(double rate) { return rate > 0 ? Json(rate) : Json(nullptr); }

Json jobs_json(const Shown& shown, const PlannedCluster& planned) {
  Json out = Json::array();
  for (const PlannedJob& job : planned.jobs) {
    if (shown.job.empty() || job.job->plan.name == shown.job)
      out.push_back(plan_report::to_json(planned.report(job), true));
  }
  return out;
}

}  // namespace

Json show_json(const Shown& shown, const PlannedCluster& planned) {
  Json out = head(shown);
  out["total_gbps"] = planned.total();
  out["jobs"] = jobs_json(shown, planned);
  out["loads"] = plan_report::loads_json(planned.all_loads());
  return out;
}

Json what_if_json(const Shown& shown, const Loss& loss) {
  Json out = head(shown);
  out["lost"] = loss.lost;
  out["before"] = {{"total_gbps", loss.before.total()}, {"jobs", jobs_json(shown, loss.before)}};
  out["after"] = {{"total_gbps", loss.after.total()}, {"jobs", jobs_json(shown, loss.after)}};
  return out;
}

Json buy_json(const Shown& shown, const Purchase& purchase, const std::vector<Placement>& found) {
  Json out = head(shown);
  out["box_gbps"] = purchase.rate;
  out["places"] = Json::array();
  for (const Index place : purchase.places) out["places"].push_back(shown.cluster.switches[place].name);
  out["placements"] = Json::array();
  for (const Placement& one : found) {
    Json row{{"boxes", one.at.size()}, {"at", Json::array()}};
    for (const Index at : one.at) row["at"].push_back(shown.cluster.switches[at].name);
    row["total_gbps"] = one.total;
    row["bound_gbps"] = one.bound;
    row["all_tried"] = one.all_tried;
    row["tried"] = one.tried;
    row["jobs"] = Json::array();
    for (std::size_t j = 0; j < one.rates.size(); ++j)
      row["jobs"].push_back(
          {{"name", shown.cluster.jobs[j].plan.name}, {"rate_gbps", rate_or_null(one.rates[j])}});
    out["placements"].push_back(std::move(row));
  }
  return out;
}

}  // namespace tally::plan_tool
