#pragma once
// What the rings have in common: options, the measured loop, the check of every sum, figures as JSON. In
// place, float32, as tally-perf: the ranks start together, and a rank's time is from its call to its return.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tally {

struct RingOptions {
  std::uint32_t bytes = 16U << 20U;
  std::uint32_t iterations = 5;
  std::uint32_t warm_up = 1;
  std::string json{};  // rank 0 writes it
  // Only of rings without a launcher of their own.
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::string store{};
  std::string address{};
};

struct Ring {
  std::string name{};
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::function<void()> barrier{};
  std::function<void(std::span<float>)> sum{};  // in place; returns when this rank has all sums
  // The sum over all ranks, at all ranks; where it is missing each rank's exit code tells its own.
  std::function<std::uint64_t(std::uint64_t)> everywhere{};
};

// Prints what is wrong and ends the process with 2 if it is the command line.
RingOptions parse_ring_options(int argc, const char* const* argv, bool launched);

// Returns how many values were wrong, here or everywhere: 0, or the run proves nothing.
std::uint64_t run_ring(const Ring& ring, const RingOptions& options);

}  // namespace tally
