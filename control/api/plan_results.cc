#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "api/results.h"
#include "members/texts.h"
#include "plan_report/report_json.h"

namespace tally::api {
namespace {

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// 0: never.
Json ns_ago(const Snapshot& box, TimeNs then) {
  if (then == 0) return nullptr;
  return box.now > then ? box.now - then : 0;
}

// Of a job that the planner does not have.
PlannedJob unplanned(const Snapshot& box, const JobCounts& job) {
  PlannedJob out{.report = {.name = job.status.name,
                            .workers = job.status.world,
                            .parameter_servers = job.status.servers.size()}};
  if (!job.status.boxes) {
    out.report.why_not = "this box alone sums it";
    return out;
  }
  const members::BoxesStatus& boxes = *job.status.boxes;
  out.here = boxes.home == boxes.here;
  if (boxes.home < boxes.boxes.size()) out.home = members::address_text(boxes.boxes[boxes.home].address);
  if (!out.here)
    out.report.why_not = "its plan is known to its home, box " + out.home + ": ask there";
  else if (!box.plans || box.plans->cluster.empty())
    out.report.why_not = "all its boxes have the same part of it: planner.cluster is not configured";
  else
    out.report.why_not = "nobody is in it yet";
  return out;
}

const PlannedJob* planned(const Snapshot& box, const std::string& name) {
  if (!box.plans) return nullptr;
  const auto found =
      std::ranges::find(box.plans->jobs, name, [](const PlannedJob& one) { return one.report.name; });
  return found == box.plans->jobs.end() ? nullptr : &*found;
}

Json job_json(const Snapshot& box, const PlannedJob& job, bool every_load) {
  const bool has_plan = job.report.why_not.empty();
  Json out{{"name", job.report.name},
           {"planned", has_plan},
           {"home", or_null(job.home)},
           {"here", job.here},
           {"planner", or_null(job.planner)},
           {"planned_ns_ago", ns_ago(box, job.planned)},
           {"why", or_null(job.why)},
           {"effort", or_null(job.effort)},
           {"epoch", job.epoch == 0 ? Json(nullptr) : Json(job.epoch)},
           {"pause_ns", job.pause ? Json(*job.pause) : Json(nullptr)},
           {"next", or_null(job.better)}};
  out.update(plan_report::to_json(job.report, every_load));
  return out;
}

void add_job_row(const Snapshot& box, std::size_t row, bool every_load, Json& list) {
  const std::size_t known = box.plans ? box.plans->jobs.size() : 0;
  if (row < known) return list.push_back(job_json(box, box.plans->jobs[row], every_load));
  const JobCounts& job = box.jobs[row - known];
  if (!job.declared || planned(box, job.status.name) != nullptr) return;
  list.push_back(job_json(box, unplanned(box, job), every_load));
}

std::string_view name_of(PlaceState state) noexcept {
  constexpr std::array<std::string_view, 3> kWords{"up", "lost", "unknown"};
  return kWords[static_cast<std::size_t>(state)];
}

// Of a switch that may not be there, whoever filled the snapshot.
Json switch_name(const PlanTopology& cluster, std::uint32_t at) {
  return at < cluster.switches.size() ? Json(cluster.switches[at].name) : Json(nullptr);
}

}  // namespace

Json plan_head(const Snapshot& box) {
  Json changes = Json::object();
  if (!box.plans)
    return {{"planning", false},
            {"cluster", nullptr},
            {"trouble", nullptr},
            {"planner", nullptr},
            {"planner_since_ns_ago", nullptr},
            {"is_planner", false},
            {"changes", std::move(changes)}};
  const PlanStatus& plans = *box.plans;
  for (const PlanStatus::Changes& one : plans.changes) changes[one.why] = one.count;
  return {{"planning", !plans.cluster.empty() || !plans.planner.empty()},
          {"cluster", or_null(plans.cluster)},
          {"trouble", or_null(plans.trouble)},
          {"planner", or_null(plans.planner)},
          {"planner_since_ns_ago", ns_ago(box, plans.planner_since)},
          {"is_planner", plans.is_planner},
          {"changes", std::move(changes)}};
}

std::size_t plan_jobs(const Snapshot& box) {
  return (box.plans ? box.plans->jobs.size() : 0) + box.jobs.size();
}

void add_plan_job(const Snapshot& box, std::size_t row, Json& list) { add_job_row(box, row, false, list); }

void add_plan_job_with_loads(const Snapshot& box, std::size_t row, Json& list) {
  add_job_row(box, row, true, list);
}

void add_plan_switch(const Snapshot& box, std::size_t row, Json& list) {
  const PlanTopology::Switch& one = box.plans->topology.switches[row];
  list.push_back({{"name", one.name},
                  {"rack", one.rack},
                  {"hosts", one.hosts},
                  {"workers", one.workers},
                  {"host_link_gbps", one.nic_rate > 0 ? Json(one.nic_rate) : Json(nullptr)},
                  {"host_link_load_gbps", one.nic_load}});
}

void add_plan_link(const Snapshot& box, std::size_t row, Json& list) {
  const PlanTopology::Link& one = box.plans->topology.links[row];
  list.push_back({{"from", switch_name(box.plans->topology, one.from)},
                  {"to", switch_name(box.plans->topology, one.to)},
                  {"capacity_gbps", one.rate},
                  {"load_gbps", one.load}});
}

void add_plan_box(const Snapshot& box, std::size_t row, Json& list) {
  const PlanTopology::Box& one = box.plans->topology.boxes[row];
  list.push_back({{"name", one.name},
                  {"address", or_null(one.address)},
                  {"at", switch_name(box.plans->topology, one.at)},
                  {"capacity_gbps", one.rate},
                  {"load_gbps", one.load},
                  {"state", name_of(one.state)},
                  {"here", one.here}});
}

void add_plan_server(const Snapshot& box, std::size_t row, Json& list) {
  const PlanTopology::Server& one = box.plans->topology.servers[row];
  list.push_back({{"name", one.name},
                  {"at", switch_name(box.plans->topology, one.at)},
                  {"capacity_gbps", one.rate},
                  {"load_gbps", one.load},
                  {"state", name_of(one.state)}});
}

Json plan_of_job(const Snapshot& box, const std::string& name, bool every_load) {
  Json out = plan_head(box);
  out["jobs"] = Json::array();
  const JobCounts* const here = find_job(box, name);
  if (const PlannedJob* const job = planned(box, name))
    out["jobs"].push_back(job_json(box, *job, every_load));
  else if (here != nullptr && here->declared)
    out["jobs"].push_back(job_json(box, unplanned(box, *here), every_load));
  else
    return nullptr;
  return out;
}

}  // namespace tally::api
