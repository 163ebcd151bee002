#pragma once
// The running box as the control interface sees and changes it. Owner: the control thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api.h"
#include "api/snapshot.h"
#include "daemon/control_loop.h"
#include "daemon/log.h"
#include "daemon/made_jobs.h"
#include "daemon/plane.h"
#include "daemon/planner_link.h"
#include "daemon/reload.h"
#include "daemon/state_file.h"
#include "daemon/tracer.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::daemon {

class ControlBox final : public api::Box {
 public:
  // What it refers to outlives it.
  struct Parts {
    Plane& plane;
    ControlLoop& loop;
    Reload& reload;
    const api::TurnTimes& turns;
    LogSink log;
    std::string path;               // of the configuration
    std::string program;            // the file that restart() begins anew with
    Keeping keeping;                // of the jobs of job.add
    StateWriter::Post post;         // calls on this thread, from any
    std::function<void()> restart;  // the daemon is to begin anew, when answers have left
    std::function<TimeNs()> now;    // as the loop's
    std::function<void()> changed;  // something is to be published and sent: a turn is due
    // Of this moment, for snapshots; not null where the box is in a fleet.
    std::function<std::shared_ptr<const api::FleetStatus>(TimeNs now)> fleet{};
    PlannerLink* planner = nullptr;  // nullptr: none, and plans are even
  };
  explicit ControlBox(Parts parts);

  // Of this moment, for SIGUSR1 and the end.
  [[nodiscard]] api::Snapshot take();
  // In every turn of the loop.
  void turn(TimeNs now) { tracer_.turn(now); }

  // As api::Box says.
  std::shared_ptr<const api::Snapshot> snapshot() override;
  api::ReloadReport reload() override;
  std::uint64_t revision() const override { return made_.revision(); }
  api::DiffReport diff() override;
  api::ReloadReport restart() override;
  void add_job(const api::Json& job, api::IfRevision if_revision, api::ChangeDone done) override;
  void set_job(const std::string& name, const api::Json& keys, api::IfRevision if_revision,
               api::ChangeDone done) override;
  void remove_job(const std::string& name, bool abort, api::IfRevision if_revision,
                  api::ChangeDone done) override;
  Result<void> abort(const std::string& job, const std::string& reason) override;
  Result<void> replan(const std::string& job) override;
  Result<void> set_plan_rate(const std::string& resource, std::optional<double> gbps) override;
  std::vector<doctor::Finding> examine() override;
  Result<void> start_trace(const api::TraceWish& wish) override;
  api::TraceBatch read_trace() override;
  void stop_trace() override;
  api::TraceStatus trace() override;
  void set_log_level(LogLevel level) override;
  void note(const std::string& text) override;
  // reload(), as soon as nothing is being written.
  void reload_soon();
  // "job 'a'": of job.add, and kept nowhere, so that it is gone when this process ends. Empty: none.
  [[nodiscard]] std::string not_kept() const;

 private:
  // Many ask at once, and with a thousand jobs it costs milliseconds.
  static constexpr TimeNs kOldest = 20 * kMillisecond;

  void done();

  Parts parts_;
  Tracer tracer_;
  std::optional<StateWriter> writer_{};
  MadeJobs made_;
  TimeNs started_;
  std::uint64_t started_cycles_;
  api::Reloads reloads_{};
  std::shared_ptr<const api::Snapshot> newest_{};  // empty: out of date
};

}  // namespace tally::daemon
