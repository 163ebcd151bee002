#include "config/reload_plan.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/impair_section.h"
#include "jobs/layout.h"
#include "tally/mtu.h"

namespace tally::config {
namespace {

const JobConfig* find_job(const Config& config, const std::string& name) {
  const auto job = std::ranges::find_if(
      config.jobs, [&](const JobConfig& j) { return members::common_of(j).name == name; });
  return job == config.jobs.end() ? nullptr : &*job;
}

void compare_jobs(const JobConfig& is, const JobConfig& wanted, const std::string& path, ReloadPlan& plan) {
  if (is.index() != wanted.index()) return plan.restart.push_back(member_path(path, "dialect"));
  jobs::with_dialect(wanted, [&](const auto& after) {
    plan_change(std::get<std::remove_cvref_t<decltype(after)>>(is), after, path, plan);
  });
}

// `replaced`: those that would be gone.
Result<void> fits(const Config& running, const JobConfig& job,
                  const std::vector<ReloadPlan::Again>& replaced) {
  if (auto good = serves(running, job); !good) return good;
  return jobs::with_dialect(job, [&](const auto& session) -> Result<void> {
    for (const auto& [i, other] : jobs_of<std::remove_cvref_t<decltype(session)>>(running)) {
      const bool gone = std::ranges::any_of(replaced, [name = other->name](const auto& again) {
        return members::common_of(again.job).name == name;
      });
      const std::string clash = gone ? std::string() : members::clash_text(session, *other);
      if (!clash.empty())
        return fail(ErrorCode::kInvalidArgument, clash + ", which runs on", "job '" + session.name + "'");
    }
    return {};
  });
}

// The frames that a fault keeps lie in mbufs that the start set aside.
bool keeps_more(const ImpairSection& is, const ImpairSection& wanted) noexcept {
  const impair::PortImpairment before = impairment_of(is);
  const impair::PortImpairment after = impairment_of(wanted);
  return most_kept(after.in) > most_kept(before.in) || most_kept(after.out) > most_kept(before.out);
}

// Of what was found to differ, that which a port can take as it runs.
void plan_impair(const Config& running, const Config& wanted, ReloadPlan& plan) {
  if (running.ports.size() != wanted.ports.size()) return;
  for (std::size_t i = 0; i < wanted.ports.size(); ++i) {
    const PortSection& port = wanted.ports[i];
    if (port.name != running.ports[i].name || keeps_more(running.ports[i].impair, port.impair)) continue;
    ReloadPlan::Impair change{.port = i, .name = port.name, .impair = port.impair};
    const std::string place = "ports[" + std::to_string(i) + "].impair.";
    std::erase_if(plan.restart, [&](const std::string& key) {
      if (!key.starts_with(place)) return false;
      change.keys.push_back(key);
      return true;
    });
    if (!change.keys.empty()) plan.impair.push_back(std::move(change));
  }
}

}  // namespace

void plan_change(const NativeConfig& before, const NativeConfig& after, const std::string& path,
                 ReloadPlan& plan) {
  const JobConfig is = before;
  const JobConfig next = members::taken_at_once(before, after);
  const JobConfig wanted = after;
  ReloadPlan::Change change{.job = after, .path = path};
  compare_sections(job_schema(), is, next, "", change.now);
  compare_sections(job_schema(), next, wanted, "", change.later);
  // No key, so that it is never printed.
  if (before.token_file == after.token_file && before.token != after.token)
    change.later.emplace_back("token_file (what it holds)");
  if (!change.now.empty() || !change.later.empty()) plan.change.push_back(std::move(change));
}

ReloadPlan plan_reload(const Config& running, const Config& wanted) {
  ReloadPlan plan;
  for (const auto& key : config_schema()) {
    if (key.compare && key.name != "jobs" && key.name != "log" && key.name != "planner")
      key.compare(running, wanted, key.name, plan.restart);
  }
  plan_impair(running, wanted, plan);
  if (running.planner != wanted.planner) plan.planner = wanted.planner;
  if (running.log.level != wanted.log.level) plan.log_level = wanted.log.level;
  for (const JobConfig& is : running.jobs) {
    const std::string& name = members::common_of(is).name;
    if (find_job(wanted, name) == nullptr) plan.withdraw.push_back(name);
  }
  for (std::size_t i = 0; i < wanted.jobs.size(); ++i) {
    const JobConfig& job = wanted.jobs[i];
    if (const JobConfig* const is = find_job(running, members::common_of(job).name); is != nullptr) {
      compare_jobs(*is, job, "jobs[" + std::to_string(i) + "]", plan);
    } else {
      plan.declare.push_back(job);
    }
  }
  return plan;
}

std::vector<Difference> differences(const ReloadPlan& plan) {
  std::vector<Difference> all;
  const auto add = [&all](std::string what, Applies applies) { all.push_back({std::move(what), applies}); };
  for (const std::string& name : plan.withdraw) add("job '" + name + "' is gone", Applies::kAtOnce);
  for (const ReloadPlan::Change& change : plan.change) {
    for (const std::string& key : change.now) add(member_path(change.path, key), Applies::kAtOnce);
    for (const std::string& key : change.later) add(member_path(change.path, key), Applies::kNextGeneration);
  }
  for (const ReloadPlan::Again& again : plan.again) {
    for (const std::string& key : again.keys) add(key, Applies::kAtOnce);
  }
  for (const ReloadPlan::Reset& reset : plan.reset) add(reset.path + ".run", Applies::kAtOnce);
  for (const JobConfig& job : plan.declare)
    add("job '" + members::common_of(job).name + "' is new", Applies::kAtOnce);
  for (const ReloadPlan::Impair& change : plan.impair) {
    for (const std::string& key : change.keys) add(key, Applies::kAtOnce);
  }
  if (plan.planner) add("planner.cluster", Applies::kAtOnce);
  if (plan.log_level) add("log.level", Applies::kAtOnce);
  for (const std::string& key : plan.restart) add(key, Applies::kRestart);
  return all;
}

std::string why_not_served(const Config& running, const NativeConfig& job) {
  std::uint16_t mtu = 0;
  for (const PortSection& port : running.ports) mtu = std::max(mtu, port.mtu);
  const std::uint16_t most =
      elements_that_fit(mtu, running.box.ipv4.has_value() || !running.box.ipv6.has_value());
  if (job.elements > most)
    return "its packets of " + std::to_string(job.elements) + " elements do not fit the ports' mtu of " +
           std::to_string(mtu) + " until tallyd is restarted";
  if (!shares_slots(job.discipline)) return {};
  const SharedSection& shared = running.dataplane.shared;
  if (shared.slots == 0) return kNoSharedSlots;
  return job.elements > shared.elements ? larger_than_shared(job, shared) : "";
}

Result<void> serves(const Config& running, const JobConfig& job) {
  const std::string why_not =
      jobs::with_dialect(job, [&](const auto& any) { return why_not_served(running, any); });
  if (why_not.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, why_not, "job '" + members::common_of(job).name + "'");
}

Replacements replacements(const Config& running, std::vector<ReloadPlan::Again> wanted) {
  Replacements all{.good = std::move(wanted)};
  for (auto next = all.good.begin(); next != all.good.end();) {
    auto good = fits(running, next->job, all.good);
    if (good) {
      ++next;
      continue;
    }
    all.refused.push_back(std::move(good.error()));
    all.good.erase(next);
    next = all.good.begin();  // it may be in the way of those before it
  }
  return all;
}

}  // namespace tally::config
