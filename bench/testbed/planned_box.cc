// tally_planned_box: tallyd whose jobs over several boxes have the plan in the file that TALLY_BENCH_PLAN names, as it
// travels (tally/plan.h). Takes tallyd's command line; it knows neither HTTP nor jobs of job.add.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/checks.h"
#include "config/load_config.h"
#include "daemon/box_start.h"
#include "daemon/claims.h"
#include "daemon/command_line.h"
#include "daemon/control_socket.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/planner_link.h"
#include "random/random.h"
#include "tally/plan.h"

namespace {

using namespace tally;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "tally_planned_box: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T or_give_up(Result<T> value) {
  if (!value) give_up(value.error().text());
  return std::move(*value);
}

Plan plan_in(const char* path) {
  std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  auto plan = read_plan(std::as_bytes(std::span{bytes}));
  if (!plan) give_up("TALLY_BENCH_PLAN names no plan");
  return *std::move(plan);
}

members::MembershipEngine planned_members(const config::Config& config, const Plan& plan) {
  members::MembershipOptions options = config::member_options(config);
  options.plans = [plan](const members::PlanRequest&) { return plan; };
  members::MembershipEngine engine(options, random::word);
  for (const config::JobConfig& job : config.jobs) or_give_up(engine.declare(job));
  return engine;
}

int run(const daemon::CommandLine& line) {
  const auto loaded = config::load_config(line.config);
  if (!loaded) give_up(config::to_text(loaded.error()));
  const config::Config& config = loaded->config;
  daemon::Daemon daemon;
  const auto claims = or_give_up(daemon::Claims::take(config));
  auto members = planned_members(config, plan_in(std::getenv("TALLY_BENCH_PLAN")));
  daemon::Daemon::Doors doors;
  doors.control.emplace(
      or_give_up(daemon::ControlSocket::listen(config::control_socket_path(config), config.control)));
  auto box = or_give_up(daemon::StartedBox::start(config, daemon::log_line));
  planning::Desk desk = daemon::make_desk(config);  // asked by nobody
  daemon::Daemon::Start start{desk, line.config, "", config, line.drain, &claims};
  const auto ended = daemon.run(start, box.plane(), std::move(members), box.hugepages(), std::move(doors));
  if (!ended) give_up(ended.error().text());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto line = daemon::parse_command_line(argc, argv);
  if (!line || line->action != daemon::CommandLine::Action::kRun)
    give_up("takes --config FILE, as tallyd does");
  return run(*line);
}
