#pragma once
// Workers that draw batches, count them and agree on a hot set as in production (host/hot), one after the other;
// and what the box would then merge.

#include <cstddef>
#include <cstdint>

#include "hot/choice.h"
#include "zipf.h"

namespace tally::bench {

struct HotRunOptions {
  Workload load;
  hot::Limits limits;
  std::uint32_t every = 32;     // rounds between agreements (HotOptions)
  std::uint32_t sampled = 32;   // rounds before those measured, which are under the last set agreed in them
  std::uint32_t measured = 16;  // rounds
  std::size_t counters = 0;     // 0: as HotOptions
  std::uint64_t seed = 1;
};

struct HotRun {
  Traffic traffic;             // of the measured rounds together
  std::size_t size = 0;        // of the last set
  std::size_t newcomers = 0;   // in it
  double gain_kept = 0;        // expected merge gain of the set over that of the best one within the limits
  double agreement_bytes = 0;  // of the last one, to and from each rank alike
  double counting_ns = 0;      // per key
};

[[nodiscard]] HotRun hot_run(const HotRunOptions& options);

}  // namespace tally::bench
