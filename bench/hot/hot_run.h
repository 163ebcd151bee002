#pragma once
// What the box would merge for such workers.

#include <cstddef>
#include <cstdint>

#include "hot_workers.h"
#include "zipf.h"

namespace tally::bench {

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
