#pragma once
// What happens to the next frame of a stream. Pure. Each kind of fault has random numbers of its own: to
// switch one on or off changes nothing in what the others draw. But a frame that is lost draws no more, and a
// copy draws what its original does, so a kind that comes first moves the draws of those behind it to other
// frames.

#include <cstdint>

#include "impair_options.h"

namespace tally {

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

}  // namespace tally
