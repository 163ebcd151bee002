// How long plans take: one job of 512 workers on 64 racks under 8 spines, with wide and with narrow unlike links, ways
// as ECMP has them and chosen ones; and 64 jobs after a box is lost; CPU time of the one thread that does it, each from
// nothing: no way is known yet. And what a home's control thread waits for: one job of 64 workers in 64 racks, at once,
// beside seven like it, on a network where it has made plans before.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "harness.h"
#include "planner/jobs.h"
#include "planner_support.h"
#include "planning/running_plan.h"
#include "planning_support.h"

namespace tally::bench {
namespace {

using planner::Effort;
using planner::Index;
using planner::Routing;

constexpr int kRounds = 11;
constexpr double kWide = 50;  // Gbit/s of an uplink, to twice that
constexpr double kNarrow = 10;

std::pair<double, std::uint64_t> plan_one(const planner_test::Instance& instance, Routing routing) {
  const planner::Rates capacity = instance.topology.rates();
  const RoundTimer timer;
  planner::Ways ways(instance.topology);
  const auto plan = planner::make_plan({instance.topology, ways, routing}, instance.job, capacity);
  const Round round = timer.done(1);
  require(plan.has_value() && plan->rate > 0.8 * plan->promised, "no plan, or a bad one");
  return {round.seconds, 1};
}

// 64 jobs, each of 8 workers in two racks and a server in a third.
struct Fleet {
  Fleet() : instance(planner_test::large_instance(kWide, false)) {
    for (Index j = 0; j < 64; ++j) {
      planner::Job job{.name = "job" + std::to_string(j)};
      for (Index w = 0; w < 8; ++w) job.workers.push_back((j + 7 * (w / 4)) % 64 * 8 + w % 4 * 2 + w / 4);
      job.servers = {instance.topology.add_server("ps of " + job.name, (j + 20) % 64 * 8, 25)};
      jobs.push_back(job);
    }
    instance.topology.set_rate(instance.topology.box(3), 0);
  }

  std::pair<double, std::uint64_t> plan(Effort effort) const {
    const planner::Rates capacity = instance.topology.rates();
    const RoundTimer timer;
    planner::Ways ways(instance.topology);
    const auto plans = planner::make_plans({instance.topology, ways}, jobs, capacity, {.effort = effort});
    const Round round = timer.done(1);
    require(std::all_of(plans.begin(), plans.end(), [](const auto& plan) { return plan && plan->rate > 1; }),
            "a job has no plan");
    return {round.seconds, 1};
  }

  planner_test::Instance instance;
  std::vector<planner::Job> jobs;
};

class Home {
 public:
  Home() : ground_(planning::many_racks()), jobs_(planning::eight_wide_jobs()) { plan(); }

  std::pair<double, std::uint64_t> plan() {
    const RoundTimer timer;
    const auto plan = planning::plan_at_once(ground_, jobs_, {});
    const Round round = timer.done(1);
    require(plan.planned() && plan.plan.boxes.size() == 64, "no plan at once");
    return {round.seconds, 1};
  }

 private:
  planning::Ground ground_;
  std::vector<planning::JobFacts> jobs_;
};

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  print_environment();
  const auto wide = tally::planner_test::large_instance(kWide, true);
  const auto narrow = tally::planner_test::large_instance(kNarrow, true);
  const Fleet fleet;
  Home home;
  std::vector<Contender> contenders{
      {"one job, ECMP, wide links", [&] { return plan_one(wide, Routing::kEcmp); }},
      {"one job, ECMP, narrow links", [&] { return plan_one(narrow, Routing::kEcmp); }},
      {"one job, chosen ways, wide links", [&] { return plan_one(wide, Routing::kChosen); }},
      {"one job, chosen ways, narrow links", [&] { return plan_one(narrow, Routing::kChosen); }},
      {"one of 8 jobs at once", [&] { return home.plan(); }},
      {"64 jobs after a lost box, at once", [&] { return fleet.plan(Effort::kAtOnce); }},
      {"64 jobs after a lost box, programs", [&] { return fleet.plan(Effort::kFull); }},
  };
  report(file, contenders, kRounds, "ms", 1e-6);
  return 0;
}
