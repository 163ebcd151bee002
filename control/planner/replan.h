#pragma once
// When a plan is made anew. Time is what the caller says it is; nothing here looks at a clock. One thread.

#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "tally/time.h"

namespace tally::planner {

enum class Trigger : std::uint8_t {
  kNothing,
  kLost,    // a planned box or link is down
  kDrift,   // what is left of a planned resource has been something else for a while
  kMisses,  // contributions find no slot
  kGain,    // a plan that somebody has at hand is better
  kRefine,  // the last one was made in haste, after a loss
};
[[nodiscard]] const char* name_of(Trigger trigger) noexcept;

struct ReplanLimits {
  double drift = 0.10;             // of what the plan counts on
  TimeNs drift_lasts = kSecond;    // so long without a break
  double misses = 0.01;            // of contributions
  double gain = 0.05;              // of the rate; less is not worth an epoch
  TimeNs between = kSecond;        // at most one plan in this time, whatever happens
  std::uint64_t round_trips = 10;  // and none while the last epoch is younger
};

struct Decision {
  Trigger why = Trigger::kNothing;  // kNothing: leave everything as it is
  Resource resource = kNone;        // of kLost and kDrift
  Effort effort = Effort::kFull;
};

class ReplanRules {
 public:
  explicit ReplanRules(ReplanLimits limits = {}) : limits_(limits) {}

  // A plan is in force from now on. planned: of each resource what it counts on there, 0 where it uses nothing.
  // in_haste: it was made with Effort::kAtOnce, and a better one is to follow.
  void published(TimeNs now, TimeNs round_trip, Rates planned, bool in_haste = false);

  // What was seen. has: what is left there of a resource, others' loads taken off.
  void saw_residual(TimeNs now, Resource resource, double has);
  void saw_down(Resource resource);
  void saw_misses(double share) { misses_ = share; }
  // A plan that the caller has at hand would have this rate where the one in force has `current` by now.
  void saw_candidate(double rate, double current);

  // Asked as often as one likes. What it says is done at once: it will not say so again for the same reason. What it
  // may not say yet it says later.
  [[nodiscard]] Decision decide(TimeNs now);

  // Whether a new plan is worth its epoch. current: what the one in force has by now.
  [[nodiscard]] bool is_worth(Trigger why, double current, double rate) const noexcept;

 private:
  [[nodiscard]] Decision reason(TimeNs now) const;

  ReplanLimits limits_;
  Rates planned_{};
  std::vector<std::optional<TimeNs>> off_since_{};  // of resources
  std::vector<Resource> down_{};
  double misses_ = 0;
  bool gain_ = false;
  bool in_haste_ = false;
  std::optional<TimeNs> decided_{};
  TimeNs settled_ = 0;  // from then on the last epoch is old enough
};

}  // namespace tally::planner
