#pragma once
// One state of the merge engine: a line of words, then its values in host order as in a slot entry.

#include <cstdint>

#include "region.h"
#include "shape.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally {

using StateIndex = std::uint32_t;
inline constexpr StateIndex kNoState = 0xFFFF'FFFF;

struct alignas(64) MergeState {
  Generation generation{};
  std::uint64_t contributors = 0;
  TimeNs touched = 0;  // last time that it took a Partial
  Epoch epoch{};       // none: complete, so it serves every epoch of its generation
  Chunk chunk{};
  Shape shape;
  std::uint32_t sum1 = 0;  // keyed
  std::uint32_t sum2 = 0;
  // Of StateStore. Free states are chained too; `older` and `newer` are the neighbours in the state's list.
  StateIndex chained = kNoState;
  StateIndex older = kNoState;
  StateIndex newer = kNoState;
  JobId job{};
  std::int8_t exponent = 0;
  std::uint8_t overflow = 0;

  [[nodiscard]] constexpr bool complete() const noexcept { return epoch == Epoch{}; }
};
static_assert(sizeof(MergeState) == sizeof(Line));

}  // namespace tally
