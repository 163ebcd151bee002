#include "stock_slice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tally/mix64.h"

namespace tally::stock {
namespace {

void put(std::span<std::byte> payload, std::size_t i, std::int32_t value) noexcept {
  const std::uint32_t wire = __builtin_bswap32(static_cast<std::uint32_t>(value));
  std::memcpy(payload.data() + i * sizeof wire, &wire, sizeof wire);
}

std::int32_t get(std::span<const std::byte> payload, std::size_t i) noexcept {
  std::uint32_t wire = 0;
  std::memcpy(&wire, payload.data() + i * sizeof wire, sizeof wire);
  return static_cast<std::int32_t>(__builtin_bswap32(wire));
}

// A function of its arguments, so that a packet that is made again is the same; all bits, so that sums wrap
// around.
void fill_garbage(std::span<std::byte> payload, std::uint64_t seed, std::uint32_t packet) noexcept {
  for (std::size_t i = 0; i < payload.size() / sizeof(std::int32_t); ++i)
    put(payload, i, static_cast<std::int32_t>(mix64(seed + (std::uint64_t{packet} << 20) + i)));
}

}  // namespace

StockTensor StockTensor::part(std::size_t first, std::size_t count) const noexcept {
  return floats.empty() ? StockTensor{.integers = integers.subspan(first, count)}
                        : StockTensor{.floats = floats.subspan(first, count)};
}

std::int8_t block_exponent(std::span<const float> values) noexcept {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  const std::uint32_t exponent_bits = (std::bit_cast<std::uint32_t>(largest) & 0x7f800000U) >> 23;
  return static_cast<std::int8_t>(static_cast<int>(exponent_bits) - 126);
}

double scale_of(std::uint32_t ranks, std::int8_t exponent) noexcept {
  return static_cast<double>(INT32_MAX) / (ranks * std::ldexp(1.0, exponent));
}

StockSlice::StockSlice(StockTensor tensor, std::size_t values, std::uint32_t window, std::uint32_t ranks,
                       std::uint64_t garbage)
    : tensor_(tensor),
      values_(values),
      blocks_(static_cast<std::uint32_t>((tensor.size() + values - 1) / values)),
      batch_(std::min(window, blocks_)),
      packets_(blocks_ + (floats() ? batch_ : 0)),
      ranks_(ranks),
      garbage_(garbage) {
  if (floats()) scales_.resize(blocks_);
}

StockTensor StockSlice::block(std::uint32_t number) const noexcept {
  const std::size_t first = number * values_;
  return tensor_.part(first, std::min(values_, tensor_.size() - first));
}

void StockSlice::load(std::uint32_t packet, std::span<std::byte> payload,
                      std::int8_t& exponent) const noexcept {
  if (packet >= packets_ || (floats() && packet < batch_)) {
    fill_garbage(payload, garbage_, packet);
    if (packet < blocks_) exponent = block_exponent(block(packet).floats);
    return;
  }
  const std::uint32_t number = floats() ? packet - batch_ : packet;
  const StockTensor from = block(number);
  for (std::size_t i = 0; i < from.integers.size(); ++i) put(payload, i, from.integers[i]);
  for (std::size_t i = 0; i < from.floats.size(); ++i)
    put(payload, i, static_cast<std::int32_t>(std::lround(from.floats[i] * scales_[number])));
  for (std::size_t i = from.size(); i < values_; ++i) put(payload, i, 0);
  if (floats() && packet < blocks_) exponent = block_exponent(block(packet).floats);
}

void StockSlice::store(std::uint32_t packet, std::span<const std::byte> payload,
                       std::int8_t exponent) noexcept {
  if (floats() && packet < blocks_) scales_[packet] = scale_of(ranks_, exponent);
  if (floats() && packet < batch_) return;
  const std::uint32_t number = floats() ? packet - batch_ : packet;
  const StockTensor to = block(number);
  for (std::size_t i = 0; i < to.integers.size(); ++i) to.integers[i] = get(payload, i);
  for (std::size_t i = 0; i < to.floats.size(); ++i)
    to.floats[i] = static_cast<float>(get(payload, i) / scales_[number]);
}

}  // namespace tally::stock
