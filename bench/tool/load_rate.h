#pragma once
// At what rate the generator sends: a pacer keeps one, a search looks for the highest that is carried. Pure.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tally/time.h"

namespace tally::bench {

// When the next frames of an open load are due. Frames that could not be sent in time are caught up with for
// a while; what is older is given up and counted, so that a stall does not become a burst without end.
class FramePacer {
 public:
  // rate: frames per second; 0: as many as anybody asks for.
  void start(double rate, TimeNs now) noexcept {
    *this = FramePacer();
    per_ns_ = rate / 1e9;
    start_ = now;
    most_behind_ = std::max(kLeastBehind, static_cast<std::uint64_t>(rate * kCatchUpSeconds));
  }
  // Frames that may leave at `now`, which does not go back.
  [[nodiscard]] std::uint64_t due(TimeNs now) noexcept {
    if (per_ns_ == 0) return UINT64_MAX;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(now - start_) * per_ns_) + 1;
    if (wanted > done_ + most_behind_) {
      skipped_ += wanted - most_behind_ - done_;
      done_ = wanted - most_behind_;
    }
    return wanted - done_;
  }
  void sent(std::uint64_t frames) noexcept { done_ += frames; }  // at most what was due
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }

  static constexpr std::uint64_t kLeastBehind = 64;
  static constexpr double kCatchUpSeconds = 0.002;

 private:
  double per_ns_ = 0;
  TimeNs start_ = 0;
  std::uint64_t done_ = 0;  // sent or skipped
  std::uint64_t skipped_ = 0;
  std::uint64_t most_behind_ = 0;
};

// The highest rate without loss, by halving an interval with short trials, then confirmed by a long one.
// Pure.
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
