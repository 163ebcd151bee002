#pragma once
// The highest rate without loss, by halving an interval with short trials, then confirmed by a long one.
// Pure.

#include <optional>

namespace tally::bench {

class RateSearch {
 public:
  // most: contributions per second that were reached without a limit; above it nothing is tried. resolution:
  // the search ends when the interval is this part of `most`, 0..1.
  RateSearch(double most, double resolution) noexcept : high_(most), step_(most * resolution) {}

  // The rate of the next short trial; nothing when the interval is small enough.
  [[nodiscard]] std::optional<double> trial() const noexcept;
  void trial_was(bool good) noexcept;
  // The rate of the next long run; nothing when none is left: every one lost something, or one did not.
  [[nodiscard]] std::optional<double> final_rate() const noexcept;
  void final_was(bool good) noexcept;
  // The highest rate that the long run carried.
  [[nodiscard]] std::optional<double> found() const noexcept { return found_; }

 private:
  // A long run sees what a short one is too short for, so its rate goes down so often, each time by so much.
  static constexpr int kFinalTries = 8;
  static constexpr double kBackOff = 0.95;

  double low_ = 0;  // carried
  double high_;     // not carried, or never tried
  double step_;
  bool tried_most_ = false;
  int finals_ = 0;
  std::optional<double> found_{};
};

}  // namespace tally::bench
