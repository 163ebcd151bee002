#include "daemon/reload.h"

#include <algorithm>
#include <string>

#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr std::string_view kGone = "the job was withdrawn: it is gone from the box's configuration";

std::string of_job(const std::string& name) { return "reload: job '" + name + "' "; }

}  // namespace

void Reload::take(const config::ConfigResult& read, members::MembershipEngine& engine, TimeNs now) {
  if (!read) return refuse(read.error());
  for (const config::Diagnostic& warning : read->warnings)
    log_(LogLevel::kWarning, config::one_line(warning));
  const config::ReloadPlan plan = config::plan_reload(config_, read->config);
  const bool nothing = plan.withdraw.empty() && plan.resize.empty() && plan.declare.empty() &&
                       plan.again.empty() && plan.reset.empty();
  for (const auto& name : plan.withdraw) withdraw(name, engine);
  for (const auto& wish : plan.resize) resize(wish, engine, now);
  declare_again(plan, engine);
  for (const auto& wish : plan.reset) reset(wish, engine, now);
  for (const auto& job : plan.declare) declare(job, engine);
  if (!plan.restart.empty()) {
    log_(LogLevel::kWarning, "reload: restart to apply: " + text::listed(plan.restart));
  } else if (nothing) {
    log_(LogLevel::kInfo, "reload: nothing differs from what runs");
  }
}

void Reload::refuse(const config::Diagnostics& diagnostics) {
  for (const config::Diagnostic& d : diagnostics) {
    log_(d.severity == config::Severity::kError ? LogLevel::kError : LogLevel::kWarning, config::one_line(d));
  }
  log_(LogLevel::kError, "reload: the configuration has errors; nothing was changed");
}

void Reload::withdraw(const std::string& name, members::MembershipEngine& engine) {
  if (auto done = engine.withdraw(name, kGone); !done)
    return log_(LogLevel::kError, "reload: " + done.error().text());
  std::erase_if(config_.jobs, [&](const auto& job) { return members::common_of(job).name == name; });
  log_(LogLevel::kInfo, of_job(name) + "is gone from the configuration");
}

void Reload::resize(const config::ReloadPlan::Resize& wish, members::MembershipEngine& engine, TimeNs now) {
  const auto jobs = config::jobs_of<config::NativeConfig>(config_);
  config::NativeConfig& job =
      *std::ranges::find_if(jobs, [&](const auto& j) { return j.second->name == wish.job; })->second;
  if (auto done = engine.resize(wish.job, wish.window, now); !done) {
    return log_(LogLevel::kError, "reload: " + done.error().text() + "; the window stays " +
                                      std::to_string(job.window) + ", reload again when that has changed");
  }
  log_(LogLevel::kInfo, of_job(wish.job) + "gets a window of " + std::to_string(wish.window) +
                            " instead of " + std::to_string(job.window));
  job.window = wish.window;
}

void Reload::reset(const config::ReloadPlan::Reset& wish, members::MembershipEngine& engine, TimeNs now) {
  const auto sessions = config::jobs_of<config::SessionConfig>(config_);
  config::SessionConfig& session =
      *std::ranges::find_if(sessions, [&](const auto& j) { return j.second->name == wish.session; })->second;
  if (auto done = engine.reset_session(wish.session, now); !done)
    return log_(LogLevel::kError, "reload: " + done.error().text());
  log_(LogLevel::kInfo, of_job(wish.session) + "begins anew: run " + std::to_string(wish.run));
  session.run = wish.run;
}

// Those whose successor could not be declared stay. All others are withdrawn before the first is declared:
// one may have the addresses that another had.
void Reload::declare_again(const config::ReloadPlan& plan, members::MembershipEngine& engine) {
  const config::Replacements all = config::replacements(config_, plan.again);
  for (const Error& error : all.refused)
    log_(LogLevel::kError, "reload: " + error.text() + "; the session stays as it runs");
  if (all.good.empty()) return;
  std::vector<std::string> keys;
  for (const auto& again : all.good) keys.insert(keys.end(), again.keys.begin(), again.keys.end());
  log_(LogLevel::kWarning,
       "reload: sessions are declared again, what they had begun is lost: " + text::listed(keys));
  for (const auto& again : all.good) {
    const std::string& name = members::common_of(again.job).name;
    (void)engine.withdraw(name, kGone);
    std::erase_if(config_.jobs, [&](const auto& was) { return members::common_of(was).name == name; });
  }
  for (const auto& again : all.good) declare(again.job, engine);
}

void Reload::declare(const config::JobConfig& job, members::MembershipEngine& engine) {
  const auto id = config::serves(config_, job).and_then([&] { return engine.declare(job); });
  if (!id) return log_(LogLevel::kError, "reload: " + id.error().text() + "; the job is not declared");
  config_.jobs.push_back(job);
  const bool session = !std::holds_alternative<config::NativeConfig>(job);
  log_(LogLevel::kInfo, of_job(members::common_of(job).name) +
                            (session ? "is declared: a session" : "is declared: its workers may come"));
}

}  // namespace tally::daemon
