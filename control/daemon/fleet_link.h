#pragma once
// The box's place in its fleet: a member on the daemon's clock, the store of etcd behind it, and what the box says of
// itself. Nothing of it is on the way of a packet or of a worker. Owner: the control thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "api/fleet_status.h"
#include "config/config.h"
#include "daemon/fleet_homes.h"
#include "daemon/fleet_plans.h"
#include "daemon/log.h"
#include "fleet/member.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::daemon {

// What changes of a box while it runs.
struct FleetRoom {
  std::uint64_t free_slots = 0;  // shared ones that are nobody's by reservation
  std::uint64_t free_bytes = 0;  // of slot memory for pools
  std::uint64_t rate = 0;        // bit/s of the ports whose link is up; 0: none says
};

// What the fleet needs of its box. Called on the control thread.
struct FleetFace {
  std::function<FleetRoom()> room;  // about once a second
  FleetHomes::Face homes;
  PlanFace plans{};
};

class FleetLink {
 public:
  // The store of etcd, as the configuration says, in threads that keep off the data cores.
  [[nodiscard]] static Result<std::unique_ptr<fleet::Store>> store_of(const config::Config& config);

  // What it is given outlives the link.
  FleetLink(const config::Config& config, std::unique_ptr<fleet::Store> store, FleetFace face, LogSink log,
            TimeNs now);

  // In every turn of the loop; does something at most every Member::kTurn.
  void turn(TimeNs now);
  // The fleet is told that the box leaves, once.
  void leave(TimeNs now);
  // It was, or the store does not answer.
  [[nodiscard]] bool left() const noexcept;
  // Whether it may be the planner of its fleet, which takes a cluster's file; from the configuration at first.
  void set_plans(bool plans, TimeNs now) { member_.set_plans(plans, now); }
  [[nodiscard]] const WhoPlans& who_plans() const noexcept { return plans_.who(); }
  // As of the last turns; not null.
  [[nodiscard]] std::shared_ptr<const api::FleetStatus> status(TimeNs now);

 private:
  static constexpr TimeNs kBetweenLooks = fleet::Member::kBetweenRecords;

  void tell(TimeNs now);

  config::FleetSection section_;
  fleet::BoxRecord self_;
  std::unique_ptr<fleet::Store> store_;
  std::function<FleetRoom()> room_;
  LogSink log_;
  LogLimit limit_{50, kSecond};  // a fleet whose boxes come and go together
  fleet::Member member_;
  FleetHomes homes_;
  FleetPlans plans_;
  bool leaving_ = false;
  TimeNs next_turn_ = 0;
  TimeNs next_look_ = 0;
  std::shared_ptr<const api::FleetStatus> status_{};
  TimeNs status_at_ = 0;
};

}  // namespace tally::daemon
