#include "load_rate.h"

namespace tally::bench {

// `most` itself first: where the generator is the limit nothing is lost at any rate.
std::optional<double> RateSearch::trial() const noexcept {
  if (high_ <= 0 || gave_up()) return std::nullopt;
  if (!tried_most_) return high_;
  if (high_ - low_ <= step_) return std::nullopt;
  return (low_ + high_) / 2;
}

bool RateSearch::tells(TrialOutcome outcome) noexcept {
  if (outcome != TrialOutcome::kDisturbed)
    disturbed_ = 0;
  else
    ++disturbed_;
  return disturbed_ == 0;
}

void RateSearch::trial_was(TrialOutcome outcome) noexcept {
  const auto rate = trial();
  if (!rate || !tells(outcome)) return;
  tried_most_ = true;
  (outcome == TrialOutcome::kCarried ? low_ : high_) = *rate;
}

std::optional<double> RateSearch::final_rate() const noexcept {
  if (found_ || low_ <= 0 || gave_up() || finals_ == kFinalTries) return std::nullopt;
  return low_;
}

void RateSearch::final_was(TrialOutcome outcome) noexcept {
  const auto rate = final_rate();
  if (!rate || !tells(outcome)) return;
  ++finals_;
  if (outcome == TrialOutcome::kCarried) {
    found_ = rate;
  } else {
    low_ *= kBackOff;
  }
}

}  // namespace tally::bench
