#pragma once
// What may change while the box runs: by SIGHUP or the control interface, a configuration that was read again
// becomes what it can of the running one. Owner: the control thread.

#include <memory>
#include <string>

#include "api/api.h"
#include "config/config.h"
#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon/log.h"
#include "members/membership.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::daemon {

class Reload {
 public:
  // config: with which the box has started. level: how another log.level is put in force.
  Reload(config::Config config, LogSink log, void (*level)(LogLevel) = set_log_level)
      : config_(std::make_shared<const config::Config>(std::move(config))),
        log_(std::move(log)),
        level_(level) {}

  // A file with errors changes nothing. Every step, and what takes a restart, is a line of the log. The
  // caller's next turn publishes and sends.
  api::ReloadReport take(const config::ConfigResult& read, members::MembershipEngine& engine, TimeNs now);

  // One change by itself, until the file is taken again. window: of the key's range.
  Result<void> set_window(const std::string& job, std::uint32_t window, members::MembershipEngine& engine,
                          TimeNs now);
  void set_level(LogLevel level);

  // What is in force: what was read last, without what failed or takes a restart. So that is named again.
  [[nodiscard]] const config::Config& config() const noexcept { return *config_; }
  // The same, which does not change any more.
  [[nodiscard]] std::shared_ptr<const config::Config> shared_config() const noexcept { return config_; }

 private:
  // Of one take(): what it tells.
  struct Taking {
    members::MembershipEngine& engine;
    TimeNs now;
    config::Config config;  // becomes what is in force
    api::ReloadReport report{};
  };

  api::ReloadReport refuse(const config::Diagnostics& diagnostics);
  void changed(Taking& taking, std::string text, LogLevel level = LogLevel::kInfo) const;
  void failed(Taking& taking, std::string text) const;
  void withdraw(Taking& taking, const std::string& name) const;
  void resize(Taking& taking, const config::ReloadPlan::Resize& wish) const;
  void reset(Taking& taking, const config::ReloadPlan::Reset& wish) const;
  void declare_again(Taking& taking, const config::ReloadPlan& plan) const;
  void declare(Taking& taking, const config::JobConfig& job) const;

  std::shared_ptr<const config::Config> config_;
  LogSink log_;
  void (*level_)(LogLevel);
};

}  // namespace tally::daemon
