#pragma once
// The highest rate without loss, by halving an interval with short trials, then confirmed by a long one.
// Pure.

#include <cstdint>
#include <optional>

namespace tally::bench {

enum class TrialOutcome : std::uint8_t {
  kCarried,
  kNotCarried,
  kDisturbed,  // nothing is known of the rate: others had the generator's CPU
};

class RateSearch {
 public:
  // most: contributions per second that were reached without a limit; above it nothing is tried. resolution:
  // the search ends when the interval is this part of `most`, 0..1.
  RateSearch(double most, double resolution) noexcept : high_(most), step_(most * resolution) {}

  // The rate of the next short trial; nothing when the interval is small enough, or gave_up().
  [[nodiscard]] std::optional<double> trial() const noexcept;
  void trial_was(TrialOutcome outcome) noexcept;
  // The rate of the next long run; nothing when none is left: every one lost something, or one did not.
  [[nodiscard]] std::optional<double> final_rate() const noexcept;
  void final_was(TrialOutcome outcome) noexcept;
  // So many runs at one rate were disturbed, one after the other, that the search ended.
  [[nodiscard]] bool gave_up() const noexcept { return disturbed_ == kDisturbedTries; }
  // The highest rate that the long run carried.
  [[nodiscard]] std::optional<double> found() const noexcept { return found_; }

 private:
  // A long run sees what a short one is too short for, so its rate goes down so often, each time by so much.
  static constexpr int kFinalTries = 8;
  static constexpr double kBackOff = 0.95;
  static constexpr int kDisturbedTries = 5;

  // Whether the outcome says something of the rate.
  [[nodiscard]] bool tells(TrialOutcome outcome) noexcept;

  double low_ = 0;  // carried
  double high_;     // not carried, or never tried
  double step_;
  bool tried_most_ = false;
  int finals_ = 0;
  int disturbed_ = 0;  // in a row
  std::optional<double> found_{};
};

}  // namespace tally::bench
