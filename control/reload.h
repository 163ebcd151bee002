#pragma once
// SIGHUP: a configuration that was read again becomes what it can of the running one. Owner: the control
// thread.

#include "config.h"
#include "load_config.h"
#include "log.h"
#include "membership.h"
#include "reload_plan.h"
#include "tally/time.h"

namespace tally {

class Reload {
 public:
  // config: with which the box has started.
  Reload(Config config, LogSink log) : config_(std::move(config)), log_(std::move(log)) {}

  // A file with errors changes nothing. Every step, and what takes a restart, is a line of the log. The
  // caller's next turn publishes and sends.
  void take(const ConfigResult& read, MembershipEngine& engine, TimeNs now);

  // What is in force: what was read last, without what failed or takes a restart. So that is named again.
  [[nodiscard]] const Config& config() const noexcept { return config_; }

 private:
  void refuse(const Diagnostics& diagnostics);
  void withdraw(const std::string& name, MembershipEngine& engine);
  void resize(const ReloadPlan::Resize& wish, MembershipEngine& engine, TimeNs now);
  void declare_again(const ReloadPlan& plan, MembershipEngine& engine);
  void declare(const JobSection& job, MembershipEngine& engine);

  Config config_;
  LogSink log_;
};

}  // namespace tally
