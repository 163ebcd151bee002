#pragma once
// Plans of a small cluster, for tests of those who show them: two racks under a spine, a box and a server in each.

#include <memory>

#include "api/plan_status.h"
#include "control_api_scene.h"

namespace tally::control_api_test {

// resnet has a plan in which the box at rack1 is full; bert has none, and says why; box rack2 is lost.
inline api::PlanStatus make_plans() {
  using plan_report::Kind;
  api::PlanStatus plans;
  plans.cluster = "/etc/tally/cluster.yaml";
  plans.changes = {{"first", 1}, {"lost", 2}};
  api::PlannedJob resnet;
  resnet.home = "rack1";
  resnet.planned = kNow - 12 * kSecond;
  resnet.why = "lost box rack2";
  resnet.effort = "full";
  resnet.epoch = 7;
  resnet.pause = 1'200'000;
  resnet.report = {.name = "resnet",
                   .workers = 8,
                   .racks = 2,
                   .parameter_servers = 2,
                   .rate = 12.5,
                   .promised = 12.6,
                   .bound = 25,
                   .form = "any box",
                   .full = "box rack1",
                   .as_full = 1,
                   .loads = {{"box rack1", Kind::kBox, 100, 100, 100, false},
                             {"server ps1", Kind::kServer, 6.25, 6.25, 25, false},
                             {"link rack2 to spine", Kind::kLink, 10, 10, 50, false},
                             {"link rack1-1 to rack1", Kind::kHostLink, 12.5, 12.5, 100, false},
                             {"link rack1-2 to rack1", Kind::kHostLink, 12.5, 12.5, 100, false}},
                   .compared = {{"no_aggregation", 6.25}, {"own_rack", 14}, {"equal_split", std::nullopt}},
                   .ring = 12.9,
                   .boxes = {{"rack1", 768, 0.75}},
                   .servers = {{"ps1", 512, 0.5}, {"ps2", 512, 0.5}}};
  api::PlannedJob bert;
  bert.report = {.name = "bert", .workers = 2, .why_not = "rank 1 at 10.9.0.4 is in no rack of the cluster"};
  plans.jobs = {std::move(bert), std::move(resnet)};
  plans.topology.switches = {{"rack1", true, 4, 4, 100, 12.5}, {"rack2", true, 4, 4, 100, 12.5}, {"spine"}};
  plans.topology.links = {{0, 2, 50, 0}, {2, 0, 50, 10}, {1, 2, 50, 10}, {2, 1, 0, 0}};
  plans.topology.boxes = {
      {.name = "rack1", .address = "10.0.0.1", .at = 0, .rate = 100, .load = 100, .here = true},
      {.name = "rack2", .at = 1, .rate = 100, .state = api::PlaceState::kLost}};
  plans.topology.servers = {{"ps1", 0, 25, 6.25}, {"ps2", 1, 25, 6.25}};
  return plans;
}

inline api::Snapshot make_planned_snapshot() {
  api::Snapshot box = make_snapshot();
  box.plans = std::make_shared<const api::PlanStatus>(make_plans());
  return box;
}

}  // namespace tally::control_api_test
