#pragma once
// One run: a job whose workers, boxes and servers are the product's, over a fabric. They join, learn the plan and enlist
// as ever; a first operation warms timers up, the second is measured.

#include <cstdint>

#include "engine/engine_operation.h"
#include "fabric.h"
#include "schemes.h"

namespace tally::routes {

inline constexpr std::uint32_t kWarmUp =
    planner::kGroups / 4;  // chunks of the first operation: each box is met

struct Conditions {
  std::uint32_t chunks = 2'048;  // of the operation; a multiple of the groups
  std::uint32_t window = 256;    // the product's default, as the next
  TimeNs hop = 500;
  TimeNs rto_floor = engine::kAdaptiveRtoFloor;
  planner::Results results = planner::Results::kIgnored;
  Spreading spreading = Spreading::kInOrder;
  std::uint64_t seed = 1;
  TimeNs give_up = 100 * kSecond;
};

struct Measured {
  TimeNs time = 0;          // from the start at all workers to the last result at the last of them
  double rate = 0;          // Gbit/s of every worker, with all headers
  std::uint64_t wrong = 0;  // elements of sums
  std::uint64_t again = 0;  // contributions that were sent again, of both operations
  std::uint64_t early = 0;  // ... of them before a timer ran out
  std::uint64_t queries = 0;
  std::uint64_t flushes = 0;  // by servers, and RESENDs
  std::uint64_t denied = 0;   // contributions that found no slot
  double waited = 0;          // at one resource at most, us
  double fullest = 0;         // share of the time that the busiest resource carried something
  std::uint64_t events = 0;
};

// Fails if the plan cannot be told, if anything is broken, and if it does not end in time.
[[nodiscard]] Result<Measured> run(const planner::Topology& topology, planner::Ways& ways,
                                   const planner::Job& job, const Laid& laid, const Conditions& conditions);

}  // namespace tally::routes
