#include "daemon/reload.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr std::string_view kGone = "the job was withdrawn: it is gone from the box's configuration";

std::string of_job(const std::string& name) { return "job '" + name + "' "; }

// nullptr: no native job of this name is in force.
config::NativeConfig* find_native(config::Config& config, const std::string& name) {
  const auto jobs = config::jobs_of<config::NativeConfig>(config);
  const auto job = std::ranges::find_if(jobs, [&](const auto& j) { return j.second->name == name; });
  return job == jobs.end() ? nullptr : job->second;
}

std::string resized_text(const std::string& job, std::uint32_t before, std::uint32_t after) {
  return of_job(job) + "gets a window of " + std::to_string(after) + " instead of " + std::to_string(before);
}

std::string level_text(LogLevel level) {
  constexpr std::array<std::string_view, 5> kWords{"trace", "debug", "info", "warning", "error"};
  return "log.level is " + std::string(kWords.at(static_cast<std::size_t>(level)));
}

constexpr About kReloaded{.kind = "config.reloaded"};

}  // namespace

void Reload::changed(Taking& taking, std::string text, LogLevel level) const {
  log_(level, "reload: " + text, kReloaded);
  taking.report.changed.push_back(std::move(text));
}

void Reload::failed(Taking& taking, std::string text) const {
  log_(LogLevel::kError, "reload: " + text, kReloaded);
  taking.report.failed.push_back(std::move(text));
}

api::ReloadReport Reload::take(const config::ConfigResult& read, members::MembershipEngine& engine,
                               TimeNs now) {
  if (!read) return refuse(read.error());
  for (const config::Diagnostic& warning : read->warnings)
    log_(LogLevel::kWarning, config::one_line(warning));
  const config::ReloadPlan plan = config::plan_reload(*config_, read->config);
  Taking taking{engine, now, *config_};
  taking.report.diagnostics = read->warnings;
  for (const auto& name : plan.withdraw) withdraw(taking, name);
  for (const auto& wish : plan.resize) resize(taking, wish);
  declare_again(taking, plan);
  for (const auto& wish : plan.reset) reset(taking, wish);
  for (const auto& job : plan.declare) declare(taking, job);
  if (plan.log_level) {
    taking.config.log.level = *plan.log_level;
    changed(taking, level_text(*plan.log_level));
    level_(*plan.log_level);
  }
  if (!plan.restart.empty()) {
    log_(LogLevel::kWarning, "reload: restart to apply: " + text::listed(plan.restart), kReloaded);
    taking.report.restart = plan.restart;
  } else if (taking.report.changed.empty() && taking.report.failed.empty()) {
    log_(LogLevel::kInfo, "reload: nothing differs from what runs", kReloaded);
  }
  config_ = std::make_shared<const config::Config>(std::move(taking.config));
  return std::move(taking.report);
}

api::ReloadReport Reload::refuse(const config::Diagnostics& diagnostics) {
  for (const config::Diagnostic& d : diagnostics) {
    log_(d.severity == config::Severity::kError ? LogLevel::kError : LogLevel::kWarning, config::one_line(d));
  }
  log_(LogLevel::kError, "reload: the configuration has errors; nothing was changed", kReloaded);
  return {.refused = true, .diagnostics = diagnostics};
}

Result<void> Reload::set_window(const std::string& job, std::uint32_t window,
                                members::MembershipEngine& engine, TimeNs now) {
  if (auto done = engine.resize(job, window, now); !done) return done;
  config::Config config = *config_;
  config::NativeConfig* const native = find_native(config, job);
  if (native == nullptr) return {};  // it was declared by other means than the file
  log_(LogLevel::kInfo, resized_text(job, native->window, window));
  native->window = window;
  config_ = std::make_shared<const config::Config>(std::move(config));
  return {};
}

void Reload::set_level(LogLevel level) {
  config::Config config = *config_;
  config.log.level = level;
  const LogLevel before = config_->log.level;
  config_ = std::make_shared<const config::Config>(std::move(config));
  // While either level lets the line pass.
  if (level < before) level_(level);
  log_(LogLevel::kInfo, level_text(level));
  if (level >= before) level_(level);
}

void Reload::withdraw(Taking& taking, const std::string& name) const {
  if (auto done = taking.engine.withdraw(name, kGone); !done) return failed(taking, done.error().text());
  std::erase_if(taking.config.jobs, [&](const auto& job) { return members::common_of(job).name == name; });
  changed(taking, of_job(name) + "is gone from the configuration");
}

void Reload::resize(Taking& taking, const config::ReloadPlan::Resize& wish) const {
  config::NativeConfig& job = *find_native(taking.config, wish.job);
  if (auto done = taking.engine.resize(wish.job, wish.window, taking.now); !done) {
    return failed(taking, done.error().text() + "; the window stays " + std::to_string(job.window) +
                              ", reload again when that has changed");
  }
  changed(taking, resized_text(wish.job, job.window, wish.window));
  job.window = wish.window;
}

void Reload::reset(Taking& taking, const config::ReloadPlan::Reset& wish) const {
  const auto sessions = config::jobs_of<config::SessionConfig>(taking.config);
  config::SessionConfig& session =
      *std::ranges::find_if(sessions, [&](const auto& j) { return j.second->name == wish.session; })->second;
  if (auto done = taking.engine.reset_session(wish.session, taking.now); !done)
    return failed(taking, done.error().text());
  changed(taking, of_job(wish.session) + "begins anew: run " + std::to_string(wish.run));
  session.run = wish.run;
}

// Those whose successor could not be declared stay. All others are withdrawn before the first is declared:
// one may have the addresses that another had.
void Reload::declare_again(Taking& taking, const config::ReloadPlan& plan) const {
  const config::Replacements all = config::replacements(taking.config, plan.again);
  for (const Error& error : all.refused) failed(taking, error.text() + "; the session stays as it runs");
  if (all.good.empty()) return;
  std::vector<std::string> keys;
  for (const auto& again : all.good) keys.insert(keys.end(), again.keys.begin(), again.keys.end());
  changed(taking, "sessions are declared again, what they had begun is lost: " + text::listed(keys),
          LogLevel::kWarning);
  for (const auto& again : all.good) {
    const std::string& name = members::common_of(again.job).name;
    (void)taking.engine.withdraw(name, kGone);
    std::erase_if(taking.config.jobs, [&](const auto& was) { return members::common_of(was).name == name; });
  }
  for (const auto& again : all.good) declare(taking, again.job);
}

void Reload::declare(Taking& taking, const config::JobConfig& job) const {
  const auto id = config::serves(taking.config, job).and_then([&] { return taking.engine.declare(job); });
  if (!id) return failed(taking, id.error().text() + "; the job is not declared");
  taking.config.jobs.push_back(job);
  const bool session = !std::holds_alternative<config::NativeConfig>(job);
  changed(taking, of_job(members::common_of(job).name) +
                      (session ? "is declared: a session" : "is declared: its workers may come"));
}

}  // namespace tally::daemon
