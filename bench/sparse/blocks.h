#pragma once
// Arrays of which most blocks are zeros, as benches have them: drawn, so that each rank knows what all have; and what
// must travel of them.

#include <cstddef>
#include <cstdint>

namespace tally::bench {

struct Blocks {
  std::uint32_t zeros = 0;    // percent of the blocks of a rank
  std::uint32_t block = 256;  // values in one
  bool alike = false;         // all ranks have the same ones
};

[[nodiscard]] bool has_values(const Blocks& blocks, std::uint64_t block, std::uint32_t rank);

// What a link cannot do without of what `ranks`, a bitmap, have together in `values` values, in packets of `chunk`: whole
// ones, those of some rows, and a 64th of a header for each packet's worth of nothing. headers: bytes of a packet beside
// its values. exponents: with the values of one block goes the exponent of another one (docs/protocol.md, 10), and where
// there are none it is a byte of a run.
struct Sum {
  std::size_t values = 0;
  std::uint32_t chunk = 352;
  std::uint32_t headers = 0;
  bool exponents = false;
};
[[nodiscard]] double least_bytes(const Blocks& blocks, const Sum& sum, std::uint64_t ranks);

}  // namespace tally::bench
