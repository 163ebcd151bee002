#pragma once
// Faults on purpose: `impair:` of a port (docs/impairment.md), for one direction of it. Plain data.

#include <cstdint>

#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally {

// Shares are frames of a million.
struct ImpairOptions {
  std::uint32_t loss_ppm = 0;
  std::uint32_t burst = 1;  // frames that are lost in a row, on average; 1: each frame by itself
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  TimeNs delay = 0;
  TimeNs jitter = 0;           // at most `delay`, to which it is added or from which it is taken
  std::uint32_t queue = 1024;  // frames that `delay` may keep
  std::uint64_t seed = 1;

  // Any of them; else the frames do not come past here.
  [[nodiscard]] constexpr bool on() const noexcept {
    return loss_ppm != 0 || duplicate_ppm != 0 || reorder_ppm != 0 || corrupt_ppm != 0 || delay != 0;
  }
  // Frames may leave later than they came.
  [[nodiscard]] constexpr bool timed() const noexcept { return reorder_ppm != 0 || delay != 0; }
  bool operator==(const ImpairOptions&) const = default;
};

// Both directions of a port, as the box sees them.
struct PortImpairment {
  ImpairOptions in{};
  ImpairOptions out{};
};

// Which frames: the same seed and number give the same faults to the same sequence of frames.
struct ImpairStream {
  ImpairOptions options{};
  std::uint64_t number = 0;  // tells ports, queues, cores and directions apart
};

// A frame is held back until so many later ones have come, at most ...
inline constexpr std::uint32_t kFarthest = 16;
// ... or for so long: the last frame of all must not wait for ever.
inline constexpr TimeNs kLongestHold = kMillisecond;
// What passes through without a delay finds room for this many: a burst, its copies, what was held back.
inline constexpr std::uint32_t kPassing = 128;

// Frames that one stream keeps at most: so many more the mempools must have.
[[nodiscard]] constexpr std::uint32_t most_kept(const ImpairOptions& o) noexcept {
  if (!o.timed() && o.duplicate_ppm == 0) return 0;
  return (o.delay != 0 ? o.queue : kPassing) + (o.reorder_ppm != 0 ? kFarthest : 0);
}

// Written by one core, read by anyone. Frames of one port and direction.
struct ImpairCounters {
  OneWriter<std::uint64_t> lost = 0;
  OneWriter<std::uint64_t> duplicated = 0;  // copies
  OneWriter<std::uint64_t> reordered = 0;   // held back
  OneWriter<std::uint64_t> corrupted = 0;
  OneWriter<std::uint64_t> delayed = 0;
  OneWriter<std::uint64_t> overflow = 0;  // lost, since `queue` frames were there already

  ImpairCounters& operator+=(const ImpairCounters& o) noexcept {
    lost += o.lost;
    duplicated += o.duplicated;
    reordered += o.reordered;
    corrupted += o.corrupted;
    delayed += o.delayed;
    overflow += o.overflow;
    return *this;
  }
};

}  // namespace tally
