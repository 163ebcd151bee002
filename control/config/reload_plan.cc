#include "config/reload_plan.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "jobs/layout.h"

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

}  // namespace

void plan_change(const NativeConfig& before, const NativeConfig& after, const std::string& path,
                 ReloadPlan& plan) {
  const JobConfig is = before;
  const JobConfig wanted = after;
  const bool pool = before.discipline == Discipline::kPool && after.discipline == Discipline::kPool;
  for (const auto& key : job_schema()) {
    if (!key.compare || (pool && key.name == "window")) continue;
    key.compare(is, wanted, member_path(path, key.name), plan.restart);
  }
  // No key, so that it is never printed.
  if (before.token_file == after.token_file && before.token != after.token)
    plan.restart.push_back(member_path(path, "token_file") + " (what it holds)");
  if (pool && before.window != after.window) plan.resize.push_back({after.name, after.window});
}

ReloadPlan plan_reload(const Config& running, const Config& wanted) {
  ReloadPlan plan;
  for (const auto& key : config_schema()) {
    if (key.compare && key.name != "jobs" && key.name != "log")
      key.compare(running, wanted, key.name, plan.restart);
  }
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

std::string why_not_served(const Config& running, const NativeConfig& job) {
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
