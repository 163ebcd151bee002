#pragma once
// SIGHUP: a configuration that was read again becomes what it can of the running one. Owner: the control
// thread.

#include "config/config.h"
#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon/log.h"
#include "members/membership.h"
#include "tally/time.h"

namespace tally::daemon {

class Reload {
 public:
  // config: with which the box has started.
  Reload(config::Config config, LogSink log) : config_(std::move(config)), log_(std::move(log)) {}

  // A file with errors changes nothing. Every step, and what takes a restart, is a line of the log. The
  // caller's next turn publishes and sends.
  void take(const config::ConfigResult& read, members::MembershipEngine& engine, TimeNs now);

  // What is in force: what was read last, without what failed or takes a restart. So that is named again.
  [[nodiscard]] const config::Config& config() const noexcept { return config_; }

 private:
  void refuse(const config::Diagnostics& diagnostics);
  void withdraw(const std::string& name, members::MembershipEngine& engine);
  void resize(const config::ReloadPlan::Resize& wish, members::MembershipEngine& engine, TimeNs now);
  void reset(const config::ReloadPlan::Reset& wish, members::MembershipEngine& engine, TimeNs now);
  void declare_again(const config::ReloadPlan& plan, members::MembershipEngine& engine);
  void declare(const config::JobConfig& job, members::MembershipEngine& engine);

  config::Config config_;
  LogSink log_;
};

}  // namespace tally::daemon
