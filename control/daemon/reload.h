#pragma once
// What may change while the box runs: by SIGHUP or the control interface, a configuration that was read again
// becomes what it can of the running one. Owner: the control thread.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/api.h"
#include "config/config.h"
#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon/log.h"
#include "impair/faults.h"
#include "members/membership.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::daemon {

class Reload {
 public:
  using Impair = std::function<void(PortIndex, const impair::PortImpairment&)>;

  // config: with which the box has started. level, impair: how another log.level and other faults on purpose
  // are put in force.
  Reload(
      config::Config config, LogSink log, void (*level)(LogLevel) = set_log_level,
      Impair impair = [](PortIndex, const impair::PortImpairment&) {})
      : config_(std::make_shared<const config::Config>(std::move(config))),
        log_(std::move(log)),
        level_(level),
        impair_(std::move(impair)) {}

  // A file with errors changes nothing. Every step, and what takes a restart, is a line of the log. The
  // caller's next turn publishes and sends. Jobs that were made here are not the file's: they stay, and one
  // of the same name in the file is not declared, which is told.
  api::ReloadReport take(const config::ConfigResult& read, members::MembershipEngine& engine, TimeNs now);
  // What take() would be about.
  [[nodiscard]] config::ReloadPlan plan(const config::Config& wanted) const;

  // One change by itself. Of the file's jobs and of the log's level: until the file is taken again.

  // job: a good one beside those in force (config::read_one_job).
  Result<void> make(const config::JobConfig& job, members::MembershipEngine& engine);
  // ... in the place of the one of its name. `changed`: what there is to tell of it.
  Result<void> set(const config::JobConfig& job, members::MembershipEngine& engine, TimeNs now,
                   std::vector<std::string>& changed);
  // One that was made here.
  Result<void> unmake(const std::string& job, members::MembershipEngine& engine);
  void set_level(LogLevel level);
  // Was made here, by make().
  [[nodiscard]] bool made(const std::string& job) const { return made_.contains(job); }

  // What is in force, jobs that were made here too: what was read last, without what failed or takes a
  // restart. So that is named again.
  [[nodiscard]] const config::Config& config() const noexcept { return *config_; }
  // The same, which does not change any more.
  [[nodiscard]] std::shared_ptr<const config::Config> shared_config() const noexcept { return config_; }

 private:
  // Of one take(): what it tells.
  struct Taking {
    members::MembershipEngine& engine;
    TimeNs now;
    config::Config config;               // becomes what is in force
    std::vector<std::string> restart{};  // keys of jobs that the box as it runs could not serve
    api::ReloadReport report{};
  };

  api::ReloadReport refuse(const config::Diagnostics& diagnostics);
  void changed(Taking& taking, std::string text, LogLevel level = LogLevel::kInfo) const;
  void failed(Taking& taking, std::string text) const;
  void withdraw(Taking& taking, const std::string& name) const;
  void change(Taking& taking, config::ReloadPlan::Change wish) const;
  void change_faults(Taking& taking, const config::ReloadPlan::Impair& wish) const;
  void reset(Taking& taking, const config::ReloadPlan::Reset& wish) const;
  void declare_again(Taking& taking, const config::ReloadPlan& plan) const;
  void declare(Taking& taking, const config::JobConfig& job) const;

  std::shared_ptr<const config::Config> config_;
  std::set<std::string> made_{};  // jobs of config_ that are not the file's
  LogSink log_;
  void (*level_)(LogLevel);
  Impair impair_;
};

}  // namespace tally::daemon
