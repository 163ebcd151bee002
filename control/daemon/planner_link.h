#pragma once
// The desk of plans (planning/desk.h) on the daemon's clock: what it is told of jobs, the thread that reckons for it,
// and the file of the cluster. Owner: the control thread.

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/plan_status.h"
#include "config/config.h"
#include "config/diagnostic.h"
#include "daemon/fleet_plans.h"
#include "daemon/log.h"
#include "daemon/member_loop.h"
#include "daemon/plane.h"
#include "planning/desk.h"

namespace tally::daemon {

using ClusterResult = tl::expected<std::shared_ptr<const cluster::Cluster>, config::Diagnostics>;
// Null: none is named. Mistakes of the file are told with its own name and lines.
[[nodiscard]] ClusterResult read_cluster(const config::PlannerSection& section);

// Where the box's engine gets its plans from: its home's jobs are on this desk. addresses: the box's own.
[[nodiscard]] planning::Desk make_desk(const config::Config& config);

class PlannerLink {
 public:
  // All outlive it. The thread keeps off the data cores. Throws std::system_error where there is none to be had.
  PlannerLink(planning::Desk& desk, Plane& plane, MemberLoop& members, const config::Config& config,
              LogSink log);
  PlannerLink(const PlannerLink&) = delete;
  PlannerLink& operator=(const PlannerLink&) = delete;
  ~PlannerLink();

  // In every turn of the loop, before membership's. True: a job was called back, and the next turn is due at once.
  bool turn(TimeNs now);
  void set_cluster(const config::PlannerSection& section, std::shared_ptr<const cluster::Cluster> cluster,
                   TimeNs now);
  [[nodiscard]] Result<void> set_rate(const std::string& resource, std::optional<double> gbps, TimeNs now) {
    return desk_.set_rate(resource, gbps, now);
  }
  [[nodiscard]] bool has_cluster() const noexcept { return desk_.ground() != nullptr; }
  void asked(const std::string& job) { desk_.asked(job); }
  // There is news of a box: it is in the fleet again.
  void box_seen(const Ipv6& address, TimeNs now) { desk_.box_seen(address, now); }
  // For the fleet, whose planner this box is: on the same thread, in its turn. One at a time.
  void reckon_for_fleet(planning::Work work) { give(std::move(work)); }
  [[nodiscard]] std::optional<planning::WorkDone> take_reckoned() { return std::exchange(for_fleet_, {}); }
  // Who plans for the fleet, as it is known by now.
  void set_fleet(WhoPlans who) { who_ = std::move(who); }
  // Of the last turns; null: no cluster is given, and nobody plans for it.
  [[nodiscard]] std::shared_ptr<const api::PlanStatus> status(TimeNs now);

 private:
  static constexpr TimeNs kBetweenMisses = kSecond;
  static constexpr TimeNs kStatusAge = 200 * kMillisecond;

  struct Taken {
    std::uint64_t claims = 0;
    std::uint64_t denied = 0;
  };

  void look_at_jobs(TimeNs now);
  void look_at_misses(TimeNs now);
  void tell();
  void exchange_work(TimeNs now);
  void give(planning::Work work);
  void reckon();

  planning::Desk& desk_;
  Plane& plane_;
  MemberLoop& members_;
  std::string file_;
  std::vector<Ipv6> own_;
  LogSink log_;
  LogLimit limit_{50, kSecond};
  TimeNs misses_at_ = 0;
  std::unordered_map<std::string, Taken> taken_{};
  std::shared_ptr<const api::PlanStatus> status_{};
  TimeNs status_at_ = 0;
  WhoPlans who_{};
  std::optional<planning::WorkDone> for_fleet_{};

  std::mutex mutex_{};  // of what follows
  std::condition_variable wake_{};
  std::vector<planning::Work> work_{};  // one of the desk and one of the fleet at most
  std::vector<planning::WorkDone> done_{};
  std::atomic<bool> over_ = false;
  std::thread thread_;  // the last: it begins at once
};

}  // namespace tally::daemon
