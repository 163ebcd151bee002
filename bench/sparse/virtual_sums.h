#pragma once
// Sums of which most blocks are zeros, in virtual time: the product's workers and box behind links that have a rate. Beside
// them the same sum of an array without zeros, and what links alone would take.

#include <cstdint>

#include "blocks.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::sparse {

// The box, which is a program, is made so fast that it is never what is waited for; or it takes what it takes.
enum class Box : std::uint8_t { kAsLinks, kProduct };

struct Conditions {
  std::uint32_t workers = 2;
  double gbps = 10;
  bool floats = false;
  bench::Blocks blocks{};
  std::size_t values = 1 << 20;
  std::uint32_t window = 256;
  std::uint16_t elements = 352;
  TimeNs hop = 500;
  std::uint8_t cores = 4;
  Box box = Box::kAsLinks;
  std::uint64_t seed = 1;
};

struct Measured {
  TimeNs time = 0;        // from the start at all workers to the last sum at the last of them
  TimeNs round_trip = 0;  // of a header, with nothing else on the links
  // ns: of the bytes that the fuller direction of the busiest link cannot do without, and a round trip.
  double ideal = 0;
  // The same of floats as they travel, with the exponents of blocks, which are a round trip ahead.
  double of_format = 0;
  double up = 0;  // bytes on the links of the worker that had most, with headers, preamble and gap
  double down = 0;
  double box = 0;           // share of the time that the busiest core had something
  std::uint64_t wrong = 0;  // values
  std::uint64_t again = 0;  // contributions
};

// Fails if anything is broken or does not end.
[[nodiscard]] Result<Measured> run(const Conditions& conditions);

}  // namespace tally::sparse
