#include "reload_plan.h"

#include <algorithm>
#include <string_view>

#include "dialects.h"
#include "schemas.h"
#include "to_members.h"

namespace tally {
namespace {

const JobSection* find_job(const Config& config, const std::string& name) {
  const auto job = std::find_if(config.jobs.begin(), config.jobs.end(),
                                [&](const JobSection& j) { return j.name == name; });
  return job == config.jobs.end() ? nullptr : &*job;
}

// What a session has: defaults of other keys follow from elsewhere in the file. The order in which members
// stand says nothing.
SessionConfig by_rank(const JobSection& job) {
  SessionConfig session = member_session(job);
  std::ranges::sort(session.members, {}, &ConfiguredMember::rank);
  return session;
}

bool is_native(std::string_view key) {
  return std::ranges::find(kNativeKeys, key, &DialectKey::key) != kNativeKeys.end();
}

// Nothing of a session can change while it runs, and nobody has joined it: it begins again.
void compare_sessions(const JobSection& is, const JobSection& wanted, const std::string& path,
                      ReloadPlan& plan) {
  if (by_rank(is) == by_rank(wanted)) return;
  ReloadPlan::Again& again = plan.again.emplace_back(ReloadPlan::Again{wanted});
  for (const auto& key : job_schema()) {
    if (!key.compare || is_native(key.name)) continue;
    key.compare(is, wanted, member_path(path, key.name), again.keys);
  }
}

void compare_jobs(const JobSection& is, const JobSection& wanted, const std::string& path, ReloadPlan& plan) {
  if (is.dialect != wanted.dialect) return plan.restart.push_back(member_path(path, "dialect"));
  if (is_session(is)) return compare_sessions(is, wanted, path, plan);
  const bool pool = is.discipline == Discipline::kPool && wanted.discipline == Discipline::kPool;
  for (const auto& key : job_schema()) {
    if (!key.compare || (pool && key.name == "window")) continue;
    key.compare(is, wanted, member_path(path, key.name), plan.restart);
  }
  // No key, so that it is never printed.
  if (is.token_file == wanted.token_file && is.token != wanted.token)
    plan.restart.push_back(member_path(path, "token_file") + " (what it holds)");
  if (pool && is.window != wanted.window) plan.resize.push_back({wanted.name, wanted.window});
}

}  // namespace

ReloadPlan plan_reload(const Config& running, const Config& wanted) {
  ReloadPlan plan;
  for (const auto& key : config_schema()) {
    if (key.compare && key.name != "jobs") key.compare(running, wanted, key.name, plan.restart);
  }
  for (const JobSection& is : running.jobs) {
    if (find_job(wanted, is.name) == nullptr) plan.withdraw.push_back(is.name);
  }
  for (std::size_t i = 0; i < wanted.jobs.size(); ++i) {
    const JobSection& job = wanted.jobs[i];
    if (const JobSection* const is = find_job(running, job.name); is != nullptr) {
      compare_jobs(*is, job, "jobs[" + std::to_string(i) + "]", plan);
    } else {
      plan.declare.push_back(job);
    }
  }
  return plan;
}

}  // namespace tally
