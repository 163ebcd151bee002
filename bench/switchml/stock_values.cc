#include "stock_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "perf/sum_check.h"

namespace tally::stock {
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
      tensor.integers, 0, {.seed = setting.seed, .iteration = number, .world = setting.ranks});
  return {.wrong = r.wrong, .first = r.first_wrong, .got = r.got, .expected = r.expected};
}

}  // namespace tally::stock
