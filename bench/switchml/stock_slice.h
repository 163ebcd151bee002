#pragma once
// A thread's part of an operation, as values of packets: what the original calls pre- and postprocessing.
// Pure.
//
// int32: big-endian in and out; the exponents mean nothing and stay as they are.
// float32: with batches of B packets, packet p carries the exponent of block p (e0) and the values of block p
// - B, which all ranks quantise by the exponent that came back with packet p - B. So there is one batch more
// than there are blocks: the first B packets carry exponents and garbage for values, the last B carry values
// and the exponent that was there. Block b is values b * N .. b * N + N - 1 of the slice, N values to a
// packet.
//
//   e0 = floor(log2(largest magnitude)) + 1, of float32's exponent bits alone, -126 for zeros
//   value = round(x * S), S = (2^31 - 1) / (ranks * 2^E), E = the largest e0 of all ranks: no sum leaves
//   int32

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::stock {

// Of a whole operation, in place: one of the two is empty.
struct StockTensor {
  std::span<std::int32_t> integers{};
  std::span<float> floats{};

  [[nodiscard]] std::size_t size() const noexcept { return integers.size() + floats.size(); }
  [[nodiscard]] StockTensor part(std::size_t first, std::size_t count) const noexcept;
};

// e0 of these values.
[[nodiscard]] std::int8_t block_exponent(std::span<const float> values) noexcept;
// S of the formula above.
[[nodiscard]] double scale_of(std::uint32_t ranks, std::int8_t exponent) noexcept;

class StockSlice {
 public:
  // Nothing to do.
  StockSlice() = default;
  // values: a packet holds so many. window: packets that may be under way. garbage: of this rank and
  // operation, for what a packet carries that is no value.
  StockSlice(StockTensor tensor, std::size_t values, std::uint32_t window, std::uint32_t ranks,
             std::uint64_t garbage);

  [[nodiscard]] std::uint32_t packets() const noexcept { return packets_; }
  [[nodiscard]] std::uint32_t batch() const noexcept {
    return batch_;
  }  // packets at once, and from one to its successor

  // The values of a packet, N * 4 bytes, and its exponent where the packet has one. What the packet has room
  // for beyond the slice's end becomes 0. A number beyond packets() (a stale timer's) makes garbage.
  void load(std::uint32_t packet, std::span<std::byte> payload, std::int8_t& exponent) const noexcept;
  // The reply to it, once; packet < packets().
  void store(std::uint32_t packet, std::span<const std::byte> payload, std::int8_t exponent) noexcept;

 private:
  [[nodiscard]] StockTensor block(std::uint32_t number) const noexcept;
  [[nodiscard]] bool floats() const noexcept { return !tensor_.floats.empty(); }

  StockTensor tensor_{};
  std::size_t values_ = 0;
  std::uint32_t blocks_ = 0;
  std::uint32_t batch_ = 0;
  std::uint32_t packets_ = 0;
  std::uint32_t ranks_ = 1;
  std::uint64_t garbage_ = 0;
  std::vector<double> scales_{};  // by block
};

// Different values for each rank, and whether the sums that came back are right. Pure.
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
