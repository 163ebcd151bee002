#pragma once
// What happens to the next frame of a stream. Pure. Each kind of fault has random numbers of its own: to
// switch one on or off changes nothing in what the others draw. But a frame that is lost draws no more, and a
// copy draws what its original does, so a kind that comes first moves the draws of those behind it to other
// frames.

#include <cstdint>

#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::impair {

// Faults on purpose: `impair:` of a port (docs/impairment.md), for one direction of it. Plain data.

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

// SplitMix64 (Steele, Lea, Flood, 2014): a counter with a strong mixing function.
class FaultRandom {
 public:
  // kind: tells the random numbers of one stream apart.
  FaultRandom(std::uint64_t seed, std::uint64_t stream, std::uint64_t kind) noexcept;
  [[nodiscard]] std::uint64_t next() noexcept;
  // 0..below - 1; below > 0. Uneven by less than below / 2^64.
  [[nodiscard]] std::uint64_t next(std::uint64_t below) noexcept;

 private:
  std::uint64_t state_;
};

// True with a probability. 0: never; 1 or more: always.
class Chance {
 public:
  Chance(double probability, FaultRandom random) noexcept;
  [[nodiscard]] bool next() noexcept {
    const std::uint64_t drawn = random_.next();
    return always_ || drawn < threshold_;
  }

 private:
  FaultRandom random_;
  std::uint64_t threshold_;  // of 2^64
  bool always_;
};

class Faults {
 public:
  explicit Faults(const ImpairStream& stream) noexcept;

  // One call of each for each frame, in this order; the last three also for each copy.
  // Loss in bursts is Gilbert's: a state in which every frame is lost, left with probability 1 / burst after
  // each, and entered so often that the share comes out.
  [[nodiscard]] bool lost() noexcept;
  [[nodiscard]] bool duplicated() noexcept { return duplicate_.next(); }
  [[nodiscard]] bool corrupted() noexcept { return corrupt_.next(); }
  // For how many later frames this one is held back, 1..kFarthest, all alike; 0: it is not.
  [[nodiscard]] std::uint32_t held_back() noexcept;
  // Anything between delay - jitter and delay + jitter, all alike.
  [[nodiscard]] TimeNs delay() noexcept;

  // Of a frame that is corrupted: which of its bits (more than 0) flips.
  [[nodiscard]] std::uint64_t bit(std::uint64_t bits) noexcept { return bit_.next(bits); }

 private:
  bool in_burst_ = false;
  bool bursts_;
  Chance lose_;   // this frame; with bursts: one begins
  Chance leave_;  // a burst ends
  Chance duplicate_;
  Chance corrupt_;
  Chance reorder_;
  FaultRandom bit_;
  FaultRandom distance_;
  FaultRandom time_;
  TimeNs shortest_;
  TimeNs spread_;  // 0: none
};

}  // namespace tally::impair
