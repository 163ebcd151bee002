// Values of packets: quantisation, the batch in front, what no sum may leave.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "stock_slice.h"
#include "tally/be.h"

namespace tally::stock {
namespace {

using Payload = std::array<std::byte, 128>;

std::int32_t value_at(const Payload& payload, std::size_t i) {
  Be<std::int32_t> value;
  std::memcpy(&value, payload.data() + 4 * i, 4);
  return value.host();
}

TEST(StockSlice, ExponentIsThePowerOfTwoAboveTheLargest) {
  EXPECT_EQ(block_exponent(std::array{0.75F, -0.5F}), 0);
  EXPECT_EQ(block_exponent(std::array{1.0F}), 1);
  EXPECT_EQ(block_exponent(std::array{-3.0F, 2.0F}), 2);
  EXPECT_EQ(block_exponent(std::array{0.0F}), -126);
}

// The largest float below 2^E, by all ranks, at every count of ranks and many exponents.
TEST(StockSlice, NoSumLeavesInt32) {
  for (std::uint32_t ranks = 1; ranks <= 64; ++ranks) {
    for (int exponent = -60; exponent <= 60; ++exponent) {
      const float largest = std::nextafter(std::ldexp(1.0F, exponent), 0.0F);
      ASSERT_EQ(block_exponent(std::span{&largest, 1}), exponent);
      const auto value = std::lround(largest * scale_of(ranks, static_cast<std::int8_t>(exponent)));
      EXPECT_LE(static_cast<std::int64_t>(value) * ranks, INT32_MAX);
      EXPECT_GT(static_cast<std::int64_t>(value) * ranks, INT32_MAX / 2);  // and no bit is given away
    }
  }
}

TEST(StockSlice, IntegersAreBigEndianAndWhatIsBehindThemZero) {
  std::array<std::int32_t, 33> values;
  std::iota(values.begin(), values.end(), -16);
  StockSlice slice({.integers = values}, 32, 4, 2, 1);
  EXPECT_EQ(slice.packets(), 2U);
  EXPECT_EQ(slice.batch(), 2U);
  Payload payload;
  std::int8_t exponent = 42;
  slice.load(0, payload, exponent);
  EXPECT_EQ(value_at(payload, 0), -16);
  EXPECT_EQ(value_at(payload, 31), 15);
  EXPECT_EQ(exponent, 42);  // not ours to write
  slice.load(1, payload, exponent);
  EXPECT_EQ(value_at(payload, 0), 16);
  EXPECT_EQ(value_at(payload, 1), 0);
  slice.store(0, payload, 0);
  EXPECT_EQ(values[0], 16);
}

TEST(StockSlice, FloatsAreOneBatchBehindTheirExponents) {
  std::vector<float> values(5 * 32, 0.5F);
  values[32] = -6.0F;  // of block 1
  StockSlice slice({.floats = values}, 32, 2, 2, 7);
  EXPECT_EQ(slice.batch(), 2U);
  EXPECT_EQ(slice.packets(), 7U);  // 5 blocks and a batch
  Payload garbage, payload;
  std::int8_t exponent = 0;
  slice.load(1, garbage, exponent);
  EXPECT_EQ(exponent, 3);
  slice.load(1, payload, exponent);
  EXPECT_EQ(garbage, payload);  // made again, it is the same
  slice.store(1, payload, 4);   // another rank had the larger one
  slice.load(3, payload, exponent);
  const double scale = scale_of(2, 4);
  EXPECT_EQ(value_at(payload, 0), std::lround(-6.0 * scale));
  EXPECT_EQ(value_at(payload, 1), std::lround(0.5 * scale));
  EXPECT_EQ(exponent, 0);  // of block 3
  slice.store(3, payload, 0);
  EXPECT_EQ(values[32], -6.0F);
  exponent = 99;
  slice.load(6, payload, exponent);
  EXPECT_EQ(exponent, 99);  // no block is left to announce
}

}  // namespace
}  // namespace tally::stock
