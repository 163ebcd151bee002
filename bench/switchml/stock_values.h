#pragma once
// Different values for each rank, and whether the sums that came back are right. Pure.

#include <cstdint>
#include <span>
#include <string_view>

#include "stock_slice.h"
#include "tally/error.h"

namespace tally::stock {

struct StockOperation {
  bool floats = false;
  std::uint64_t elements = 1;
};

// int32:4096 or float32:1000.
[[nodiscard]] Result<StockOperation> parse_operation(std::string_view text);

struct ValuesSetting {
  std::uint64_t seed = 1;
  std::uint32_t ranks = 2;
  std::uint16_t threads = 1;  // of each client: where slices begin
  std::size_t values = 256;   // of a packet
};

// Operation `number` of a rank.
void fill_values(StockTensor tensor, const ValuesSetting& setting, std::uint64_t number,
                 std::uint32_t rank) noexcept;

struct WrongSums {
  std::uint64_t wrong = 0;
  std::uint64_t first = 0;  // index of the first wrong one
  double got = 0, expected = 0;
  double largest_error = 0;  // float32: in parts of its bound
};

// int32: exact. float32: |y - sum of x| <= R * 1/2 * 1/S + 2^-24 |y|, R ranks, S the scale of the value's
// packet (stock_slice.h), the sum in double.
[[nodiscard]] WrongSums check_values(StockTensor tensor, const ValuesSetting& setting, std::uint64_t number);

}  // namespace tally::stock
