// tally_virtual_jct [--seed N] [--slots SHARE] [--workers N] [--u-us US] [--scale N]: the plan that
// tools/bench-jct has daemons do, as JSON, and what each row of it takes in virtual time, where links, server
// and timers are as there.

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chance.h"
#include "command_line.h"
#include "job_plan.h"
#include "packets.h"
#include "setting.h"
#include "training_run.h"

namespace tally::experiment {
namespace {

// Rows that are the product alone, without a front of the bench. pool has no slots here: what it would be
// given is less than its smallest window.
constexpr std::array<RowIndex, 5> kRows{kFcfsRow, kPreemptiveNoneRow, kPreemptiveSilenceRow,
                                        kPreemptiveDenialRow, kSharedRow};

const char* decay_name(Decay decay) {
  return decay == Decay::kSilence ? "silence" : decay == Decay::kDenial ? "denial" : "none";
}
const char* discipline_name(Discipline discipline) {
  return discipline == Discipline::kFcfs     ? "fcfs"
         : discipline == Discipline::kShared ? "shared"
                                             : "preemptive";
}

nlohmann::json plan_json(const Setting& s) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const JobPlan& plan : plans_of(s, Chance(s.seed))) {
    nlohmann::json buckets = nlohmann::json::array();
    for (const Bucket& bucket : plan.buckets)
      buckets.push_back(
          {{"chunks", bucket.chunks}, {"backward", bucket.backward}, {"forward", bucket.forward}});
    jobs.push_back({{"name", "job" + std::to_string(jobs.size() + 1)},
                    {"model", plan.model},
                    {"iterations", plan.iterations},
                    {"arrival", plan.arrival},
                    {"buckets", buckets}});
  }
  return {{"jobs", jobs},     {"seed", s.seed},     {"skew", s.skew},
          {"world", s.world}, {"window", s.window}, {"slots", slots_of(s)}};
}

int print_plan(int argc, const char* const* argv) {
  double u_us = 1500;
  Setting s;
  s.slots_share = 0.1;
  s.jobs = 4;
  s.world = 4;
  s.iterations = 2;
  s.arrivals = 300;
  // Cables between namespaces.
  s.delay = 0.1;
  s.jitter = 0.2;
  s.stall = 0;
  bench::CommandLine line("the plan of tools/bench-jct, and what it takes in virtual time");
  line.option("--seed", s.seed, "of everything drawn by lot").shows_default();
  line.option("--slots", s.slots_share, "share of the demand, jobs x window").shows_default();
  line.option("--window", s.window, "of each job, chunks").shows_default();
  line.option("--workers", s.world, "of each job").shows_default();
  line.option("--u-us", u_us, "what a full packet takes on a link there").shows_default();
  line.option("--scale", s.scale, "models are smaller by this factor").shows_default();
  line.parse(argc, argv);
  s.ns_per_byte = u_us * 1e3 / kFullPacketBytes;
  s.server_rate = s.world / 8.0;  // r = 1/8
  nlohmann::json out = plan_json(s);
  out["u_ns"] = u_us * 1e3;
  out["server_rate"] = s.server_rate;
  out["rows"] = nlohmann::json::array();
  for (const RowIndex index : kRows) {
    s.row = row_at(index);
    const Outcomes outcomes = tally::experiment::run(s);
    if (outcomes.wrong != 0) broken("wrong sums");
    nlohmann::json times = nlohmann::json::array();
    for (const JobOutcome& job : outcomes.jobs) times.push_back(job.time);
    out["rows"].push_back({{"name", s.row.name},
                           {"discipline", discipline_name(s.row.discipline)},
                           {"decay", decay_name(s.row.decay)},
                           {"times", times},
                           {"mean", outcomes.mean_time()},
                           {"again", outcomes.retransmissions}});
  }
  std::puts(out.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace tally::experiment

int main(int argc, char** argv) { return tally::experiment::print_plan(argc, argv); }
