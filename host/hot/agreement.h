#pragma once
// How all ranks of a job come to the same hot set without anybody in the middle: two exact sums of int32.
//
// 1. Names. Each rank names keys in words of the sum that the others leave zero: the most frequent ones of its own
//    sketch that are not hot yet. Keys are divided into as many classes as there are ranks, by hash, and a rank
//    begins with its own; if it has words left it goes on with the next class. Classes move on by one rank with each
//    agreement, so what only some ranks have is named as well.
// 2. Weights. All ranks have the same list now, the current set and the names, and add up how often each key is in
//    their batches; from these sums everybody reckons the next set (choice.h).
//
// For H keys of room that is at most 16 H + 16 H bytes the first time, and 4 H + 12 H once the set is full. All sketches,
// side by side, would be ranks x 48 H. Pure. Both sums begin with the stamp of the current set.

#include <cstdint>
#include <span>
#include <vector>

#include "hot/choice.h"
#include "hot/key_set.h"
#include "hot/sketch.h"
#include "tally/error.h"

namespace tally::hot {

// Who takes part; the same everywhere but for the rank.
struct Seat {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;  // 1..64
  Limits limits;
};

// Words of the first sum of this rank.
[[nodiscard]] std::vector<std::int32_t> names(const Seat& seat, const KeySet& current, const Sketch& sketch);
// Those of the current set by their dense numbers, then what was named, rank by rank, each once. Errors: other ranks
// use another set; a rank named keys that are hot, or more than it may.
[[nodiscard]] Result<std::vector<Key>> candidates(const Seat& seat, const KeySet& current,
                                                  std::span<const std::int32_t> sum_of_names);
// Words of the second sum of this rank.
[[nodiscard]] std::vector<std::int32_t> weights(const KeySet& current, std::span<const Key> candidates,
                                                const Sketch& sketch);
// Errors: another set, or a sum of another length or of weights that cannot be.
[[nodiscard]] Result<KeySet> next_set(const Seat& seat, const KeySet& current,
                                      std::span<const Key> candidates,
                                      std::span<const std::int32_t> sum_of_weights);

}  // namespace tally::hot
