#include "daemon/reload.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "config/impair_section.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr std::string_view kGone = "the job was withdrawn: it is gone from the box's configuration";

std::string of_job(const std::string& name) { return "job '" + name + "' "; }

std::vector<config::JobConfig>::iterator find_job(config::Config& config, const std::string& name) {
  return std::ranges::find_if(config.jobs, [&](const auto& j) { return members::common_of(j).name == name; });
}

std::string resized_text(const std::string& job, std::uint32_t before, std::uint32_t after) {
  return of_job(job) + "gets a window of " + std::to_string(after) + " instead of " + std::to_string(before);
}

// A sentence for each thing that there is to tell. is: as the job was.
std::vector<std::string> change_texts(const config::NativeConfig& is,
                                      const config::ReloadPlan::Change& change) {
  std::vector<std::string> texts;
  std::vector<std::string> keys = change.now;
  if (std::erase(keys, "window") != 0) texts.push_back(resized_text(is.name, is.window, change.job.window));
  if (!keys.empty()) texts.push_back(of_job(is.name) + "goes on with another " + text::listed(keys));
  if (!change.later.empty())
    texts.push_back(of_job(is.name) + "gets another value of " + text::listed(change.later) +
                    " with its next generation, when nobody is in it");
  return texts;
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
  const config::ReloadPlan plan = this->plan(read->config);
  Taking taking{engine, now, *config_};
  taking.report.diagnostics = read->warnings;
  for (const auto& name : plan.withdraw) withdraw(taking, name);
  for (const auto& wish : plan.change) change(taking, wish);
  declare_again(taking, plan);
  for (const auto& wish : plan.reset) reset(taking, wish);
  for (const auto& job : plan.declare) declare(taking, job);
  for (const auto& wish : plan.impair) change_faults(taking, wish);
  if (plan.planner) {
    taking.config.planner = *plan.planner;
    changed(taking, plan.planner->cluster ? "plans are made for the cluster of " + *plan.planner->cluster
                                          : "plans are made for no cluster: boxes of a job have equal parts");
  }
  if (plan.log_level) {
    taking.config.log.level = *plan.log_level;
    changed(taking, level_text(*plan.log_level));
    level_(*plan.log_level);
  }
  taking.report.restart = plan.restart;
  std::ranges::move(taking.restart, std::back_inserter(taking.report.restart));
  if (!taking.report.restart.empty()) {
    log_(LogLevel::kWarning, "reload: restart to apply: " + text::listed(taking.report.restart), kReloaded);
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

config::ReloadPlan Reload::plan(const config::Config& wanted) const {
  config::Config files = *config_;
  std::erase_if(files.jobs, [&](const auto& job) { return made(members::common_of(job).name); });
  return config::plan_reload(files, wanted);
}

Result<void> Reload::make(const config::JobConfig& job, members::MembershipEngine& engine) {
  if (auto id = engine.declare(job); !id) return tl::unexpected<Error>(std::move(id.error()));
  config::Config config = *config_;
  config.jobs.push_back(job);
  made_.insert(members::common_of(job).name);
  config_ = std::make_shared<const config::Config>(std::move(config));
  return {};
}

Result<void> Reload::set(const config::JobConfig& job, members::MembershipEngine& engine, TimeNs now,
                         std::vector<std::string>& changed) {
  config::Config config = *config_;
  const std::string& name = members::common_of(job).name;
  const auto at = find_job(config, name);
  if (at == config.jobs.end() || at->index() != job.index())
    return fail(ErrorCode::kInvalidArgument, "it is of another dialect: remove it and add it",
                "job '" + name + "'");
  config::Config wanted = config;
  *find_job(wanted, name) = job;
  const config::ReloadPlan plan = config::plan_reload(config, wanted);
  for (const auto& wish : plan.change) {
    if (auto done = engine.change(wish.job, now); !done) return done;
    changed = change_texts(std::get<config::NativeConfig>(*at), wish);
  }
  for (const auto& wish : plan.reset) {
    if (auto done = engine.reset_session(wish.session, now); !done) return done;
    changed.push_back(of_job(name) + "begins anew: run " + std::to_string(wish.run));
  }
  for (const auto& again : plan.again) {
    // What it held is free for it, so that it finds its place as it found one before.
    (void)engine.withdraw(name, "the session was changed: it begins anew");
    if (auto id = engine.declare(again.job); !id) {
      (void)engine.declare(*at);
      return tl::unexpected<Error>(std::move(id.error()));
    }
    changed.push_back(of_job(name) +
                      "is declared again, what it had begun is lost: " + text::listed(again.keys));
  }
  for (const std::string& text : changed) log_(LogLevel::kInfo, text, {.kind = "job.changed", .job = name});
  *at = job;
  config_ = std::make_shared<const config::Config>(std::move(config));
  return {};
}

Result<void> Reload::unmake(const std::string& job, members::MembershipEngine& engine) {
  if (auto done = engine.withdraw(job, "the job was removed from the box by an operator"); !done) return done;
  config::Config config = *config_;
  config.jobs.erase(find_job(config, job));
  made_.erase(job);
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

void Reload::change(Taking& taking, config::ReloadPlan::Change wish) const {
  const auto at = find_job(taking.config, wish.job.name);
  const auto is = std::get<config::NativeConfig>(*at);
  // The box as it runs could not serve the next generation: that is for the next start.
  if (!wish.later.empty() && !config::serves(taking.config, wish.job)) {
    for (const std::string& key : wish.later) taking.restart.push_back(wish.path + "." + key);
    wish.later.clear();
    wish.job = members::taken_at_once(is, wish.job);
    if (wish.now.empty()) return;
  }
  if (auto done = taking.engine.change(wish.job, taking.now); !done)
    return failed(taking,
                  done.error().text() + "; the job stays as it is, reload again when that has changed");
  for (std::string& text : change_texts(is, wish)) changed(taking, std::move(text));
  *at = wish.job;
}

void Reload::change_faults(Taking& taking, const config::ReloadPlan::Impair& wish) const {
  const impair::PortImpairment faults = config::impairment_of(wish.impair);
  impair_(PortIndex{static_cast<std::uint16_t>(wish.port)}, faults);
  taking.config.ports[wish.port].impair = wish.impair;
  const auto text = [](const impair::ImpairOptions& way) {
    std::string what = config::faults_text(way);
    return what.empty() ? std::string("nothing") : what;
  };
  changed(taking, "port " + wish.name + " has other faults on purpose: in " + text(faults.in) + "; out " +
                      text(faults.out));
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
  if (const std::string& name = members::common_of(job).name; made(name))
    return failed(taking, of_job(name) +
                              "of the file is not declared: a job of this name was made by job.add; "
                              "remove that one (tallyctl job remove " +
                              name + ") and reload, or choose another name");
  const auto id = config::serves(taking.config, job).and_then([&] { return taking.engine.declare(job); });
  if (!id) return failed(taking, id.error().text() + "; the job is not declared");
  taking.config.jobs.push_back(job);
  const bool session = !std::holds_alternative<config::NativeConfig>(job);
  changed(taking, of_job(members::common_of(job).name) +
                      (session ? "is declared: a session" : "is declared: its workers may come"));
}

}  // namespace tally::daemon
