#include "rate_search.h"

namespace tally::bench {

// `most` itself first: where the generator is the limit nothing is lost at any rate.
std::optional<double> RateSearch::trial() const noexcept {
  if (high_ <= 0) return std::nullopt;
  if (!tried_most_) return high_;
  if (high_ - low_ <= step_) return std::nullopt;
  return (low_ + high_) / 2;
}

void RateSearch::trial_was(bool good) noexcept {
  const auto rate = trial();
  if (!rate) return;
  tried_most_ = true;
  (good ? low_ : high_) = *rate;
}

std::optional<double> RateSearch::final_rate() const noexcept {
  if (found_ || low_ <= 0 || finals_ == kFinalTries) return std::nullopt;
  return low_;
}

void RateSearch::final_was(bool good) noexcept {
  const auto rate = final_rate();
  if (!rate) return;
  ++finals_;
  if (good) {
    found_ = rate;
  } else {
    low_ *= kBackOff;
  }
}

}  // namespace tally::bench
