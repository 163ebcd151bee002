#include "stock_slice.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "perf/sum_check.h"
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

namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 30;

// |x| < 2^E, with the least E, from frexp and not from the bits, so that this checks block_exponent().
double scale_for(double largest, std::uint32_t ranks) {
  int exponent = -126;
  if (largest > 0) static_cast<void>(std::frexp(largest, &exponent));
  return INT32_MAX / (ranks * std::ldexp(1.0, std::max(exponent, -126)));
}

void check_block(std::span<const float> got, std::uint64_t first, float scale, const ValuesSetting& s,
                 std::uint64_t number, WrongSums& result) {
  std::vector<double> sums(got.size());
  double largest = 0;
  for (std::uint32_t rank = 0; rank < s.ranks; ++rank) {
    perf::ValueStream(s.seed, number, rank).each(first, got.size(), [&](std::size_t i, std::int32_t value) {
      const double x = perf::float_value(value, scale);
      sums[i] += x;
      largest = std::max(largest, std::fabs(x));
    });
  }
  const double rounding = s.ranks * 0.5 / scale_for(largest, s.ranks);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double bound = rounding + 0x1p-24 * std::fabs(static_cast<double>(got[i]));
    const double error = std::fabs(got[i] - sums[i]) / bound;
    result.largest_error = std::max(result.largest_error, error);
    if (error <= 1) continue;  // false for a NaN
    if (result.wrong++ == 0) {
      result.first = first + i;
      result.got = got[i];
      result.expected = sums[i];
    }
  }
}

WrongSums check_floats(std::span<const float> got, const ValuesSetting& s, std::uint64_t number) {
  WrongSums result;
  const float scale = perf::tensor_scale(s.seed, number);
  const std::size_t share = got.size() / s.threads;
  for (std::size_t t = 0; t < s.threads; ++t) {
    const std::size_t begin = t * share, end = t + 1 == s.threads ? got.size() : begin + share;
    for (std::size_t at = begin; at < end; at += s.values)
      check_block(got.subspan(at, std::min(s.values, end - at)), at, scale, s, number, result);
  }
  return result;
}

}  // namespace

Result<StockOperation> parse_operation(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view type = text.substr(0, colon), digits = text.substr(std::min(colon + 1, text.size()));
  std::uint64_t elements = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), elements);
  const bool number = bad == std::errc{} && end == digits.data() + digits.size();
  if ((type == "int32" || type == "float32") && number && elements > 0 && elements <= kMostElements)
    return StockOperation{type == "float32", elements};
  return fail(ErrorCode::kInvalidArgument,
              std::string(text) + ": must be int32:ELEMENTS or float32:ELEMENTS, with 1 to 2^30 elements");
}

void fill_values(StockTensor tensor, const ValuesSetting& setting, std::uint64_t number,
                 std::uint32_t rank) noexcept {
  const perf::ValueStream stream(setting.seed, number, rank);
  perf::fill(tensor.integers, stream, 0);
  perf::fill(tensor.floats, stream, 0, perf::tensor_scale(setting.seed, number));
}

WrongSums check_values(StockTensor tensor, const ValuesSetting& setting, std::uint64_t number) {
  if (!tensor.floats.empty()) return check_floats(tensor.floats, setting, number);
  const perf::SumCheckResult r = perf::check_sums(
      tensor.integers, 0, 1, {.seed = setting.seed, .iteration = number, .world = setting.ranks});
  return {.wrong = r.wrong, .first = r.first_wrong, .got = r.got, .expected = r.expected};
}

}  // namespace tally::stock
