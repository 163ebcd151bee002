#pragma once
// Where a box's jobs have their plans from: what is answered at once when a plan is asked for, what is reckoned in
// the meantime, and when a better plan or a box that was lost is worth an epoch. Pure: time comes in, and what takes its
// time is handed out as work that any thread may do. One thread, that of membership.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "members/plan_source.h"
#include "planner/baselines.h"
#include "planner/replan.h"
#include "planning/comeback.h"
#include "planning/running_plan.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::planning {

// All jobs beside one another, and what each would have otherwise: milliseconds to seconds.
struct Work {
  std::uint64_t number = 0;
  std::shared_ptr<const cluster::Cluster> cluster{};
  SetRates rates{};
  std::vector<JobFacts> jobs{};
  std::vector<BoxLimit> limits{};
  bool fleet = false;  // for homes of a fleet, whose planner this box is: not for this desk
};
struct WorkDone {
  Work work{};
  std::vector<RunningPlan> plans{};  // of work.jobs
  std::vector<std::optional<planner::Baselines>> baselines{};
};
// Once `done` is called with what comes of it.
[[nodiscard]] WorkDone do_work(Work work);

// Why a plan was made, as people and programs are told.
enum class Cause : std::uint8_t {
  kFirst,
  kLost,
  kDrift,
  kMisses,
  kGain,
  kRefine,
  kAsked,
  kReturned,
  kRenewed,
  kFleet
};
inline constexpr std::array<std::string_view, 10> kCauses{"first",  "lost",  "drift",    "misses",  "gain",
                                                          "refine", "asked", "returned", "renewed", "fleet"};
[[nodiscard]] constexpr std::string_view word_of(Cause cause) noexcept {
  return kCauses[static_cast<std::size_t>(cause)];
}

class Desk {
 public:
  // own: addresses of this box.
  explicit Desk(std::vector<Ipv6> own, planner::ReplanLimits limits = {})
      : own_(std::move(own)), limits_(limits) {}

  // Of what plans are made from now on; nullptr: all are even. Rates that were set are forgotten.
  void set_cluster(std::shared_ptr<const cluster::Cluster> cluster, TimeNs now);
  // rate: Gbit/s, 0: it is down; empty: as the cluster says. Fails for a name that no resource has.
  [[nodiscard]] Result<void> set_rate(const std::string& resource, std::optional<double> rate, TimeNs now);

  // members::PlanSource. Takes no longer than closed forms do (docs/planner.md).
  [[nodiscard]] Plan plan(const members::PlanRequest& request, TimeNs now);

  // What membership says of a job over several boxes whose home this is, whenever it may have changed; jobs that are
  // gone are forgotten.
  struct Seen {
    bool running = false;
    bool over = false;  // nobody is in it
    Epoch epoch{};
    std::uint64_t left_out = 0;  // of its boxes
  };
  void saw(const std::string& job, const Seen& seen, TimeNs now);
  void gone(const std::string& job);
  // Since the last call, at this box: slots that were taken, each for a contribution of everybody who has this box for
  // its chunk, and contributions that found none.
  void saw_slots(const std::string& job, std::uint64_t taken, std::uint64_t denied, TimeNs now);
  // There is news of a box, be it that its record is in the fleet again: if jobs have lost it they try it at once.
  void box_seen(const Ipv6& address, TimeNs now);
  // An operator asks for another plan, and the next one of this job is that.
  void asked(const std::string& job);

  // A fleet.

  // Somebody plans for all homes: from now on this desk makes plans at once alone.
  void set_planned_by_fleet(bool planned) noexcept { by_fleet_ = planned; }
  // What the fleet's planner made of a job of this desk; nothing if the job is not so any more. number: of its plans,
  // not 0; the same one again is nothing new. The first plan for these facts is taken, later ones if they are worth it.
  void give(const JobFacts& facts, const Plan& plan, std::uint32_t number, const std::string& planner);
  // What it takes to plan for these; nothing without a cluster.
  // limits: what homes say of their boxes beside this desk's own.
  [[nodiscard]] std::optional<Work> work_for_fleet(std::vector<JobFacts> jobs,
                                                   std::vector<BoxLimit> limits = {});
  // Rates that were set here, and what was set at all the others, of which the least counts; the same again is nothing
  // new.
  [[nodiscard]] const SetRates& set_rates() const noexcept { return rates_; }
  void hear_rates(SetRates others, TimeNs now);
  [[nodiscard]] std::vector<BoxLimit> limits_of(const std::string& job) const;
  // Whether what came of it for its job `j` is worth an epoch more than `present`, or that is none on this ground. The work
  // is current.
  [[nodiscard]] bool is_better(const WorkDone& done, std::size_t j, const Plan& present);
  // Another one after each change of the cluster or its rates.
  [[nodiscard]] std::uint64_t ground_number() const noexcept { return stale_before_; }
  [[nodiscard]] bool is_current(const Work& work) const noexcept {
    return ground_ && work.number > stale_before_;
  }

  // To be done now, if anything; another one only after done().
  [[nodiscard]] std::optional<Work> work(TimeNs now);
  void done(WorkDone result);

  // Jobs for which membership is to be told to replan(), with these boxes back.
  struct Wish {
    std::string job{};
    std::uint64_t take_back = 0;
  };
  [[nodiscard]] std::vector<Wish> wishes(TimeNs now);
  // Membership would not.
  void refused(const std::string& job);

  struct Note {
    std::string job{};
    std::string text{};
    bool warning = false;
  };
  [[nodiscard]] std::vector<Note> take_notes() { return std::exchange(notes_, {}); }

  // What there is to show.

  struct Job {
    JobFacts facts{};
    RunningPlan plan{};     // in force, or about to be
    std::string planner{};  // of the fleet, who made it; empty: this box did
    bool in_haste = false;
    Cause cause = Cause::kFirst;
    std::string cause_text{};  // "lost: the box at 10.0.0.2"
    TimeNs planned = 0;
    std::optional<planner::Baselines> baselines{};
    Epoch epoch{};
    std::optional<TimeNs> pause{};  // from the call-back to the new epoch
    std::uint64_t left_out = 0;

    // The desk's own.
    planner::ReplanRules rules{};
    Comeback comeback{};
    std::optional<RunningPlan> hand{};  // a better one, for these facts
    std::string hand_planner{};         // as `planner`
    std::uint32_t fleet_number = 0;     // of the fleet's plan that came last; 0: none for these facts
    std::optional<Cause> next{};        // of the next plan
    std::string next_text{};
    std::optional<Cause> wants{};  // a plan with full effort is to be made, for this
    bool running = false;
    bool offered = false;                   // its plan was told, and no epoch has begun with it
    std::optional<TimeNs> paused{};         // since
    TimeNs deaf_until = 0;                  // misses for which there was no better plan
    std::optional<TimeNs> limited_until{};  // what its misses have taken from this box's part
    std::optional<TimeNs> triggered{};      // when a rule asked for the plan that is to come
  };
  [[nodiscard]] const std::map<std::string, Job>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const Ground* ground() const noexcept { return ground_ ? &*ground_ : nullptr; }
  [[nodiscard]] const std::array<std::uint64_t, kCauses.size()>& changes() const noexcept { return changes_; }
  [[nodiscard]] planner::Rates all_loads() const;
  // What its plan puts on the ground is known: not so of a fleet's plan for who is not in this cluster.
  [[nodiscard]] bool has_loads(const Job& job) const noexcept {
    return ground_ && job.plan.planned() && job.plan.made.loads.size() == ground_->topology().resources();
  }

 private:
  static constexpr const char* kNoCluster = "no file of a cluster is given: planner.cluster";
  static constexpr TimeNs kBetweenWork = kSecond;  // that nobody waits for
  static constexpr TimeNs kDeaf = 60 * kSecond;
  static constexpr TimeNs kLimited = 10 * kDeaf;
  // Of reckoning at once, for each rack, box and job (docs/planner.md), and at most at one time.
  static constexpr TimeNs kHaste = kMicrosecond;
  static constexpr TimeNs kMostInHaste = 50 * kMillisecond;

  void plan_even(Job& job, std::string why);
  void plan_in_haste(Job& job, TimeNs now);
  void unlimit(const std::string& job);
  // Ranks that this box adds up for a chunk of which it has any.
  [[nodiscard]] double meeting_here(const Job& job) const;
  [[nodiscard]] std::vector<JobFacts> beside_others(const Job& job) const;
  [[nodiscard]] RunningPlan of_fleet(const Job& job, const Plan& plan);
  static void drop_hand(Job& job);
  void begin_epoch(const std::string& name, Job& job, TimeNs now);
  void ask(const std::string& name, Job& job, Cause cause, std::string text);
  void decide(const std::string& name, Job& job, TimeNs now, std::vector<Wish>& out);

  // desk_ground.cc.
  void renew_ground(TimeNs now);
  [[nodiscard]] SetRates all_rates() const;
  [[nodiscard]] planner::Rates loads_of_others(const std::string& job) const;
  void compare_with_ground(Job& job, TimeNs now) const;  // what its plan counts on, and what there is
  void count_on_ground(Job& job, TimeNs now) const;

  std::vector<Ipv6> own_;
  planner::ReplanLimits limits_;
  std::shared_ptr<const cluster::Cluster> cluster_{};
  SetRates rates_{};
  SetRates rates_of_others_{};
  std::optional<Ground> ground_{};
  std::map<std::string, Job> jobs_{};
  std::vector<BoxLimit> box_limits_{};
  std::vector<Note> notes_{};
  std::array<std::uint64_t, kCauses.size()> changes_{};
  std::uint64_t numbers_ = 0;
  std::uint64_t stale_before_ = 0;  // work with a lower number was for another cluster
  bool working_ = false;
  bool by_fleet_ = false;
  bool dirty_ = false;  // something is otherwise than when work was last handed out
  TimeNs worked_ = 0;
  TimeNs haste_until_ = 0;  // plans at once will have taken until then
};

}  // namespace tally::planning
