#pragma once
// The desk of plans (planning/desk.h) on the daemon's clock: what it is told of jobs, the thread that reckons for it,
// and the file of the cluster. Owner: the control thread.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "api/plan_status.h"
#include "config/config.h"
#include "config/diagnostic.h"
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
  void asked(const std::string& job) { desk_.asked(job); }
  // There is news of a box: it is in the fleet again.
  void box_seen(const Ipv6& address, TimeNs now) { desk_.box_seen(address, now); }
  // Of the last turns; null: no cluster is given.
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

  std::mutex mutex_{};  // of what follows
  std::condition_variable wake_{};
  std::optional<planning::Work> work_{};
  std::optional<planning::WorkDone> done_{};
  bool over_ = false;
  std::thread thread_;  // the last: it begins at once
};

}  // namespace tally::daemon
