#include "blocks.h"

#include <algorithm>
#include <bit>

#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::uint32_t kRow = 16;  // values
constexpr std::uint32_t kRun = 64;  // chunks

}  // namespace

bool has_values(const Blocks& blocks, std::uint64_t block, std::uint32_t rank) {
  const std::uint32_t drawn = blocks.alike ? 0 : rank;
  return mix64(block * 64 + drawn + (std::uint64_t{blocks.zeros} << 40)) % 100 >= blocks.zeros;
}

double least_bytes(const Blocks& blocks, const Sum& sum, std::uint64_t ranks) {
  const double nothing = static_cast<double>(sum.headers) / kRun + (sum.exponents ? 1 : 0);
  double bytes = 0;
  for (std::size_t first = 0; first < sum.values; first += sum.chunk) {
    const std::size_t end = std::min(sum.values, first + sum.chunk);
    std::uint32_t rows = 0;
    for (std::size_t row = first; row < end; row += kRow) {
      bool any = false;
      const std::size_t last = (std::min(end, row + kRow) - 1) / blocks.block;
      for (std::size_t block = row / blocks.block; block <= last; ++block)
        for (std::uint64_t rest = ranks; rest != 0 && !any; rest &= rest - 1)
          any = has_values(blocks, block, static_cast<std::uint32_t>(std::countr_zero(rest)));
      rows += any ? 1 : 0;
    }
    const auto all = static_cast<std::uint32_t>((end - first + kRow - 1) / kRow);
    const double values = rows == all ? 64.0 * all : 64.0 * rows + 8;
    bytes += rows != 0 ? sum.headers + values : nothing;
  }
  return bytes;
}

}  // namespace tally::bench
