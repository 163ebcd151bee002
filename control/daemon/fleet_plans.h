#pragma once
// Plans of this box's jobs, as the fleet has them. A home says where the members of its jobs are; the planner, if it is
// this box, plans for all of them beside one another; and a home takes what was planned for its jobs as they are.
// Without the store, or without a planner, nothing new is planned: jobs go on, and plans at once are their home's. After
// some minutes a home that has the file of the cluster plans for its own jobs, as one without a fleet.
// Owner: the control thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/log.h"
#include "fleet/member.h"
#include "planning/desk.h"
#include "tally/time.h"

namespace tally::daemon {

// Of this box. What it reckons comes once, some turns later.
struct PlanFace {
  planning::Desk* desk = nullptr;  // nullptr: the box takes no part in plans
  std::function<void(planning::Work)> reckon{};
  std::function<std::optional<planning::WorkDone>()> reckoned{};
};

struct WhoPlans {
  bool in_fleet = false;  // that plans, or has planned
  std::string planner{};  // a box; empty: nobody at the moment
  TimeNs since = 0;       // as this box saw it
  bool here = false;      // it is this one
  std::string trouble{};  // why the fleet plans nothing anew; empty: it does
  bool alone = false;     // that has lasted: homes plan for themselves
};

class FleetPlans {
 public:
  // What it is given outlives it.
  FleetPlans(fleet::Member& member, PlanFace face, LogSink log);

  // After each tick of the member.
  void turn(TimeNs now);
  [[nodiscard]] const WhoPlans& who() const noexcept { return who_; }
  // What was set at this box, as its record says it.
  [[nodiscard]] std::map<std::string, double> rates_here() const;

 private:
  // Of rounds for the fleet: homes have plans of their own at once.
  static constexpr TimeNs kBetweenRounds = 250 * kMillisecond;
  // An order for a plan is certain after that, or given up.
  static constexpr TimeNs kOnItsWay = 15 * kSecond;
  static constexpr TimeNs kNoPlan = 60 * kSecond;
  // A planner that nobody has seen for so long does not come soon. Long enough that etcd may be moved to another place.
  static constexpr TimeNs kGoneForGood = 300 * kSecond;

  // What plans of the fleet rest on has been so for that long, before jobs that have a plan are planned anew for it.
  static constexpr TimeNs kSettled = kSecond;

  // What plans of the fleet rest on.
  struct Basis {
    std::uint64_t ground = 0;                      // of the desk
    std::map<std::string, std::uint64_t> facts{};  // number of each job's
    bool operator==(const Basis&) const = default;
  };
  // Facts for which there is nothing to do until then.
  struct Held {
    std::uint64_t facts = 0;
    std::uint64_t ground = 0;
    TimeNs until = 0;
  };
  struct Told {
    planning::JobFacts facts{};
    fleet::FactsRecord record{};
  };

  void look_at_planner(TimeNs now);
  void hear_rates(TimeNs now);
  void tell_facts(TimeNs now);
  void take_plans();
  void plan_for_all(TimeNs now);
  // True: there is a reason to plan for all jobs now.
  [[nodiscard]] bool is_due(TimeNs now);
  void publish(const planning::WorkDone& done, TimeNs now);
  [[nodiscard]] bool is_held(const std::string& job, std::uint64_t facts, TimeNs now) const;
  void complain_once(const std::string& job, const std::string& text);

  fleet::Member& member_;
  PlanFace face_;
  LogSink log_;
  WhoPlans who_{};
  std::optional<TimeNs> troubled_{};  // since
  bool reckoning_ = false;
  TimeNs next_round_ = 0;
  Basis basis_{};  // as it is
  TimeNs basis_since_ = 0;
  Basis asked_for_{};  // of the last round, or of the one under way
  std::map<std::string, Held> held_{};
  std::map<std::string, Told> told_{};
  std::map<std::string, std::string> complaint_{};  // of each job, the last one
};

}  // namespace tally::daemon
