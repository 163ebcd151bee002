#pragma once
// The production loop with stamps of the TSC between its steps: the data core's own code, compiled for an
// execution that reads the clock. One thread and one loop at a time, so there is one profile.

#include <cstdint>
#include <memory>

#include "memory_port.h"
#include "step_profile.h"

#include <x86intrin.h>

namespace tally {

namespace io {
class DataCore;
struct CoreOptions;
struct CoreRings;
}  // namespace io

namespace bench {

// What the loop that runs now writes to. Whoever turns it starts and stops it.
inline StepProfile loop_profile;

[[nodiscard]] inline std::uint64_t read_tsc() noexcept { return __rdtsc(); }

// For DataPlaneOptions::make_core.
[[nodiscard]] std::unique_ptr<io::DataCore> make_profiled_core(io::CoreOptions options, io::CoreRings& rings);

// Stands in front of the burst functions of a MemoryPort, so that the port's time is a step of its own.
class ProfiledPort {
 public:
  // ethdev: with a MemoryPort in place, which outlives this; one queue.
  explicit ProfiledPort(std::uint16_t ethdev);

 private:
  BurstDetour detour_;
};

}  // namespace bench
}  // namespace tally
