#include "planner/replan.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tally::planner {

const char* name_of(Trigger trigger) noexcept {
  switch (trigger) {
    case Trigger::kNothing:
      return "none";
    case Trigger::kLost:
      return "a box or link is down";
    case Trigger::kDrift:
      return "a resource has more or less left than planned";
    case Trigger::kMisses:
      return "contributions find no slot";
    case Trigger::kGain:
      return "a better plan";
    case Trigger::kRefine:
      return "the last plan was made in haste";
  }
  return "?";
}

void ReplanRules::published(TimeNs now, TimeNs round_trip, Rates planned, bool in_haste) {
  planned_ = std::move(planned);
  off_since_.assign(planned_.size(), {});
  misses_ = 0;
  gain_ = false;
  in_haste_ = in_haste;
  settled_ = now + limits_.round_trips * round_trip;
}

void ReplanRules::saw_residual(TimeNs now, Resource resource, double has) {
  if (resource >= planned_.size() || !(planned_[resource] > 0)) return;
  std::optional<TimeNs>& since = off_since_[resource];
  const bool off = std::abs(has - planned_[resource]) > limits_.drift * planned_[resource];
  if (!off)
    since.reset();
  else if (!since)
    since = now;
}

void ReplanRules::saw_down(Resource resource) {
  if (resource >= planned_.size() || !(planned_[resource] > 0)) return;
  if (std::find(down_.begin(), down_.end(), resource) == down_.end()) down_.push_back(resource);
}

void ReplanRules::saw_candidate(double rate, double current) {
  gain_ = is_worth(Trigger::kGain, current, rate);
}

Decision ReplanRules::reason(TimeNs now) const {
  if (!down_.empty()) return {Trigger::kLost, down_.front(), Effort::kAtOnce};
  for (Resource r = 0; r < off_since_.size(); ++r) {
    const std::optional<TimeNs>& since = off_since_[r];
    if (since && now - *since >= limits_.drift_lasts) return {Trigger::kDrift, r};
  }
  if (misses_ > limits_.misses) return {Trigger::kMisses};
  if (gain_) return {Trigger::kGain};
  if (in_haste_) return {Trigger::kRefine};
  return {};
}

Decision ReplanRules::decide(TimeNs now) {
  if (now < settled_ || (decided_ && now < *decided_ + limits_.between)) return {};
  const Decision decision = reason(now);
  if (decision.why == Trigger::kNothing) return decision;
  decided_ = now;
  // All losses so far are in the plan that is made now; of the rest each reason has been heard.
  down_.clear();
  misses_ = 0;
  gain_ = false;
  if (decision.why == Trigger::kRefine) in_haste_ = false;
  for (std::optional<TimeNs>& since : off_since_) {
    if (since && now - *since >= limits_.drift_lasts) since = now;
  }
  return decision;
}

bool ReplanRules::is_worth(Trigger why, double current, double rate) const noexcept {
  if (why == Trigger::kNothing) return false;
  if (why == Trigger::kLost) return true;
  return rate >= (1 + limits_.gain) * current * (1 - 1e-12);
}

}  // namespace tally::planner
