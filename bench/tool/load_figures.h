#pragma once
// What a run of the generator, or of the in-memory port, came to.

#include <cstdint>
#include <optional>
#include <string>

#include "tally/time.h"

namespace tally::bench {

struct LatencyFigures {
  std::uint64_t count = 0;
  TimeNs p50 = 0, p99 = 0, p999 = 0, max = 0;
};

struct LoadFigures {
  std::string name{};          // "max", "trial", "final", "50 % load"
  double asked = 0;            // contributions per second; 0: as many as the window allows
  double seconds = 0;          // measured
  std::uint64_t sent = 0;      // contributions taken by the ports in that time
  std::uint64_t received = 0;  // RESULT frames that came, repeated ones too
  std::uint64_t chunks = 0;    // finished everywhere
  std::uint64_t late = 0;      // chunks; until the last one sent in that time was finished
  std::uint64_t resent = 0;    // contributions, for these
  std::uint64_t corrupt = 0;   // results that arrived damaged, while warming up too
  std::uint64_t skipped = 0;   // contributions that were due and neither port nor window had room for
  std::uint64_t compared = 0;  // results compared value by value
  double full = 0;             // share of bursts of which a port took not all: the other end is the limit
  TimeNs longest_gap = 0;      // in which the generator did not run: others had its CPU
  TimeNs away = 0;             // all such gaps of more than a millisecond
  LatencyFigures latency{};    // last contribution of a chunk -> each of its results
  std::optional<double> box_cpu_s{};  // of the box's process, in that time
  std::optional<double> busy{};       // share of the time in which the data core had frames
  std::optional<double> cycles_per_packet{};

  [[nodiscard]] double sent_per_s() const noexcept { return static_cast<double>(sent) / seconds; }
  [[nodiscard]] double received_per_s() const noexcept { return static_cast<double>(received) / seconds; }
  // Nothing was late, and what was asked for was sent but for 1 %.
  [[nodiscard]] bool carried() const noexcept {
    return late == 0 && corrupt == 0 && sent_per_s() >= kEnough * asked;
  }
  // Not carried, and it says nothing of the box: had the generator had its CPU, enough would have been sent.
  [[nodiscard]] bool disturbed() const noexcept {
    if (carried() || late > 0 || corrupt > 0) return false;
    const double missed = asked * static_cast<double>(away) / 1e9;
    return static_cast<double>(sent) + missed >= kEnough * asked * seconds;
  }
  static constexpr double kEnough = 0.99;
};

}  // namespace tally::bench
