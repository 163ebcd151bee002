#include <cmath>

#include "plan_tool/answers.h"

namespace tally::plan_tool {
namespace {

using planner::kNone;
using planner::Resource;

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

Json loads_json(const PlannedCluster& planned, const planner::Rates& loads) {
  Json out = Json::array();
  for (Resource r = 0; r < loads.size(); ++r) {
    if (loads[r] > 0)
      out.push_back({{"resource", planned.topology.name_of(r)},
                     {"load_gbps", loads[r]},
                     {"capacity_gbps", planned.capacity[r]}});
  }
  return out;
}

Json rate_or_null(double rate) { return rate > 0 ? Json(rate) : Json(nullptr); }

Json job_json(const PlannedCluster& planned, const PlannedJob& job) {
  const planner::Job& asked = job.job->plan;
  Json out{{"name", asked.name},
           {"workers", asked.workers.size()},
           {"racks", job.racks},
           {"servers", asked.servers.size()},
           {"gradient_bytes", job.job->gradient > 0 ? Json(job.job->gradient) : Json(nullptr)},
           {"rate_gbps", rate_or_null(job.rate())}};
  if (!job.plan) {
    out["error"] = job.plan.error().what;
    return out;
  }
  const planner::Plan& plan = *job.plan;
  out["step_seconds"] =
      job.job->gradient > 0 ? Json(static_cast<double>(job.job->gradient) * 8e-9 / plan.rate) : Json(nullptr);
  out["full"] = plan.binding == kNone ? Json(nullptr) : Json(planned.topology.name_of(planned.full(job)));
  out["bound_gbps"] = plan.bound;
  out["form"] = planner::name_of(plan.form);
  if (!job.compared.empty()) {
    out["without_gbps"] = Json::object();
    for (const Compared& one : job.compared)
      out["without_gbps"][one.name] = one.rate ? Json(*one.rate) : Json(nullptr);
  }
  if (job.ring > 0) {
    out["ring_gbps"] = job.ring;
    out["ring_is_faster"] = job.ring_is_faster();
  }
  out["loads"] = loads_json(planned, plan.loads);
  return out;
}

Json jobs_json(const Shown& shown, const PlannedCluster& planned) {
  Json out = Json::array();
  for (const PlannedJob& job : planned.jobs) {
    if (shown.job.empty() || job.job->plan.name == shown.job) out.push_back(job_json(planned, job));
  }
  return out;
}

}  // namespace

Json show_json(const Shown& shown, const PlannedCluster& planned) {
  Json out = head(shown);
  out["total_gbps"] = planned.total();
  out["jobs"] = jobs_json(shown, planned);
  out["loads"] = loads_json(planned, planned.loads);
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
