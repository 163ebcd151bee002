#pragma once
// Which keys are hot, reckoned from sums that all ranks have: in integers alone, so that all ranks choose the same
// on whatever machine. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hot/key_set.h"

namespace tally::hot {

// How often the workers' batches have a key. a_w: the share of the batches of worker w with it.
struct Weight {
  std::int32_t shares = 0;  // sum of a_w, in 2^-24
  std::int32_t misses = 0;  // sum of -log2(1 - a_w), in 2^-20
};
inline constexpr std::int32_t kOneShare = 1 << 24;
// Of one worker. share: 0..1; above 1 - 2^-16 it counts as that, so that 64 of them are an int32.
[[nodiscard]] Weight weight_of(double share) noexcept;

// The merge gain of a key: of its contributions in a round, how many the box spares, sum a_w - (1 - prod (1 - a_w)).
// In 2^-24, not negative.
[[nodiscard]] std::int64_t gain_of(const Weight& weight) noexcept;

struct Limits {
  std::uint32_t most = 0;         // keys that the box has room for
  std::uint32_t least_fill = 50;  // percent of the hot block that a worker's batch has on average, at least
};

struct Candidate {
  Key key = 0;
  Weight weight;
};

// The next set. The size: as many of the best candidates as limits allow. A key gets in with 1.2 times the gain of
// the last of those, or on a place that is left; one of `current` gets out with less than 0.8 times. Who stays keeps
// its dense number, unless the set shrinks below it; newcomers have the numbers that are free, the best ones first.
// candidates: each key once, those of `current` among them. If nothing changes the set is the same but for its number.
[[nodiscard]] KeySet choose(const KeySet& current, std::span<const Candidate> candidates, std::uint32_t world,
                            const Limits& limits);

}  // namespace tally::hot
