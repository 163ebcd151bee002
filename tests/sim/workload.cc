#include "workload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "rng.h"

namespace tally::sim {
namespace {

Rng stream(std::uint64_t seed, Generation generation, std::uint32_t k, std::uint64_t who) {
  return Rng(mix64(seed ^ mix64(raw(generation) ^ mix64(k * 0x10001ULL + who))));
}
constexpr std::uint64_t kPlan = 1000;  // no rank

// protocol.md, 10: s = floor(log2(floor((2^(bits - 1) - 1)/N))).
int scale_bits(std::uint32_t world, WireType wire) {
  const int bits = wire == WireType::kInt16 ? 16 : 32;
  int s = 0;
  while ((std::int64_t{1} << (s + 1)) <= ((std::int64_t{1} << (bits - 1)) - 1) / world) ++s;
  return s;
}

bool is_number(float x) { return std::isfinite(x) && std::fabs(x) <= 0x1p126F; }

// Zeros in most stretches of a size that fits no packet, so that packets are whole, in part or not zeros.
template <class T>
void thin_out(Rng& rng, std::vector<T>& values) {
  constexpr std::size_t kStretch = 120;
  for (std::size_t at = 0; at < values.size(); at += kStretch) {
    if (!rng.chance(0.9)) continue;
    for (std::size_t i = at; i < std::min(at + kStretch, values.size()); ++i) values[i] = 0;
  }
}

// Leaves a rank nothing, a row here and there, or all: ranks of one operation differ.
template <class T>
void thin_out_rows(Rng& rng, std::vector<T>& values, std::uint32_t width) {
  constexpr std::array kShares{0.0, 0.01, 0.05, 0.3, 1.0};
  const double share = kShares[rng.below(kShares.size())];
  for (std::size_t at = 0; at < values.size(); at += width)
    if (!rng.chance(share)) std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(at), width, T{});
}

// e = smallest integer with 2^e >= max|x|, clamped up to -96; all zero: -127.
int block_exponent(float largest) {
  if (largest == 0) return -127;
  int e = 0;
  const double mantissa =
      std::frexp(static_cast<double>(largest), &e);  // largest = mantissa * 2^e, mantissa in [0.5, 1)
  if (mantissa == 0.5) --e;
  return std::max(e, -96);
}

// Doubles whose exact sum is that of the floats: each is what the sum of two others had to leave out.
// (Shewchuk: no bit of one overlaps a bit of another, so the largest decides the sign.)
std::vector<double> expansion(const std::vector<double>& values) {
  std::vector<double> parts;
  for (double x : values) {
    std::vector<double> rest;
    for (const double y : parts) {
      const double sum = x + y;
      const double of_y = sum - x;
      const double left = (x - (sum - of_y)) + (y - of_y);
      if (left != 0) rest.push_back(left);
      x = sum;
    }
    if (x != 0) rest.push_back(x);
    parts = std::move(rest);
  }
  return parts;
}

// Of the floats around the sum the nearest; of two as near the one whose mantissa is even. What lies between
// the largest float and 2^128 is rounded as if 2^128 were one.
float nearest_sum(std::vector<double> values) {
  const std::vector<double> parts = expansion(values);
  if (parts.empty()) return 0;
  const double about = parts.back();
  float below = static_cast<float>(about);
  const auto beyond = [&](double point) {  // sign of sum - point
    std::vector<double> with = values;
    with.push_back(-point);
    const auto left = expansion(with);
    return left.empty() ? 0.0 : left.back();
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto real = [](float x) { return std::isinf(x) ? std::copysign(0x1p128, x) : double{x}; };
  while (below > -kInf && beyond(real(below)) < 0) below = std::nextafter(below, -kInf);
  while (below < kInf && beyond(real(std::nextafter(below, kInf))) >= 0) below = std::nextafter(below, kInf);
  const float above = std::nextafter(below, kInf);
  const double side = beyond((real(below) + real(above)) / 2);
  const bool even = (std::bit_cast<std::uint32_t>(below) & 1U) == 0;
  const float nearest = side < 0 || (side == 0 && even) ? below : above;
  return nearest == 0 ? 0.0F : nearest;
}

}  // namespace

std::uint32_t PlannedOperation::elements() const noexcept {
  std::uint32_t n = 0;
  for (const auto s : spans) n += s;
  return n;
}

engine::OperationOptions PlannedOperation::options() const noexcept {
  engine::OperationOptions o;
  if (kind != OperationKind::kFloat32) return o;
  o.wire = wire;
  o.non_finite = broken ? NonFinite::kPropagate : NonFinite::kFail;
  return o;
}

PlannedOperation Workload::operation(Generation generation, std::uint32_t k) const {
  Rng rng = stream(seed_, generation, k, kPlan);
  PlannedOperation op;
  const auto pick = rng.below(20);
  op.kind = pick == 0 ? OperationKind::kBarrier : pick < 10 ? OperationKind::kInt32 : OperationKind::kFloat32;
  op.in_place = rng.chance(0.5);
  op.extremes = rng.chance(0.2);
  if (op.kind == OperationKind::kBarrier) return op;
  const auto spans = rng.chance(0.6) ? 1 : rng.between(0, 4);
  for (std::uint64_t i = 0; i < spans; ++i)
    op.spans.push_back(
        static_cast<std::uint32_t>(rng.below(largest_ / std::max<std::uint64_t>(spans, 1) + 1)));
  op.sparse = !tables_ && rng.chance(0.3);
  if (tables_) {
    op.width = static_cast<std::uint32_t>(rng.chance(0.3) ? 16 : rng.between(1, 80));
    op.spans = {static_cast<std::uint32_t>(rng.below(largest_ / op.width + 1)) * op.width};
  }
  if (op.kind != OperationKind::kFloat32) return op;
  constexpr std::array kWires{WireType::kInt32, WireType::kInt16, WireType::kExact, WireType::kShortest};
  op.wire = kWires[rng.below(kWires.size())];
  if (op.wire == WireType::kExact)
    for (auto& span : op.spans)
      span = op.width != 0 ? span / op.width / 12 * op.width : (span + 11) / 12;  // as many packets
  op.broken = rng.chance(0.2);
  return op;
}

std::vector<std::int32_t> Workload::ints(Generation generation, std::uint32_t k, Rank rank) const {
  const PlannedOperation op = operation(generation, k);
  Rng rng = stream(seed_, generation, k, raw(rank));
  std::vector<std::int32_t> out(op.elements());
  for (auto& v : out) v = static_cast<std::int32_t>(rng.next() >> (op.extremes ? 32 : 42));
  if (op.sparse) thin_out(rng, out);
  if (op.width != 0) thin_out_rows(rng, out, op.width);
  return out;
}

std::vector<float> Workload::floats(Generation generation, std::uint32_t k, Rank rank) const {
  const PlannedOperation op = operation(generation, k);
  Rng rng = stream(seed_, generation, k, raw(rank));
  std::vector<float> out(op.elements());
  const bool zero = rng.chance(0.1);
  for (auto& v : out) {
    const double unit = 2 * rng.unit() - 1;
    const int exponent = op.extremes ? static_cast<int>(rng.between(0, 270)) - 149 : -3;
    v = zero ? 0.0F : static_cast<float>(std::ldexp(unit, exponent));
  }
  if (op.sparse) thin_out(rng, out);
  if (op.width != 0) thin_out_rows(rng, out, op.width);
  constexpr std::array kNoNumbers{std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(), 0x1.8p126F, -0x1p127F};
  if (op.broken)
    for (auto& v : out)
      if (rng.chance(0.002)) v = kNoNumbers[rng.below(kNoNumbers.size())];
  return out;
}

std::vector<std::int32_t> Workload::int_sum(Generation generation, std::uint32_t k,
                                            std::uint32_t world) const {
  std::vector<std::uint32_t> sum(operation(generation, k).elements());
  for (std::uint16_t r = 0; r < world; ++r) {
    const auto x = ints(generation, k, Rank{r});
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<std::uint32_t>(x[i]);
  }
  return {sum.begin(), sum.end()};
}

std::vector<std::int32_t> Workload::named_sum(Generation generation, std::uint32_t k, std::uint32_t world,
                                              const std::vector<PartialSum>& partial) const {
  std::vector<std::uint64_t> named(operation(generation, k).elements(), members_of(world));
  for (const PartialSum& p : partial)
    std::fill_n(named.begin() + static_cast<std::ptrdiff_t>(p.first), p.count, p.contributors);
  std::vector<std::uint32_t> sum(named.size());
  for (std::uint16_t r = 0; r < world; ++r) {
    const auto x = ints(generation, k, Rank{r});
    for (std::size_t i = 0; i < x.size(); ++i)
      if ((named[i] & bit_of(Rank{r})) != 0) sum[i] += static_cast<std::uint32_t>(x[i]);
  }
  return {sum.begin(), sum.end()};
}

namespace {

std::vector<float> exact_sum(const std::vector<std::vector<float>>& ranks) {
  std::vector<float> out(ranks.front().size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<double> values;
    for (const auto& rank : ranks) values.push_back(static_cast<double>(rank[i]));
    const bool numbers = std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
    out[i] = numbers ? nearest_sum(std::move(values)) : std::numeric_limits<float>::quiet_NaN();
  }
  return out;
}

}  // namespace

bool PlannedOperation::exact(std::uint32_t words) const noexcept {
  return wire == WireType::kExact || (wire == WireType::kShortest && 12 * elements() <= words);
}

std::vector<float> Workload::float_sum(Generation generation, std::uint32_t k, std::uint32_t world,
                                       std::uint32_t elements) const {
  std::vector<std::vector<float>> x;
  for (std::uint16_t r = 0; r < world; ++r) x.push_back(floats(generation, k, Rank{r}));
  const PlannedOperation op = operation(generation, k);
  if (op.exact(elements)) return exact_sum(x);
  const int s = scale_bits(world, op.wire);
  const std::size_t block = op.wire == WireType::kInt16 ? std::size_t{2} * elements : elements;
  std::vector<float> out(x.front().size());
  for (std::size_t begin = 0; begin < out.size(); begin += block) {
    const std::size_t end = std::min(begin + block, out.size());
    const auto numbers = [&](const std::vector<float>& rank) {
      return std::all_of(rank.begin() + static_cast<std::ptrdiff_t>(begin),
                         rank.begin() + static_cast<std::ptrdiff_t>(end), is_number);
    };
    if (!std::all_of(x.begin(), x.end(), numbers)) {
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(begin),
                out.begin() + static_cast<std::ptrdiff_t>(end), std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    int exponent = -127;
    for (const auto& rank : x) {
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(rank[i]));
      exponent = std::max(exponent, block_exponent(largest));
    }
    for (std::size_t i = begin; i < end; ++i) {
      std::int64_t q = 0;
      for (const auto& rank : x) q += std::llrint(std::ldexp(static_cast<double>(rank[i]), s - exponent));
      out[i] = exponent == -127
                   ? 0.0F
                   : static_cast<float>(std::ldexp(static_cast<double>(static_cast<float>(q)), exponent - s));
    }
  }
  return out;
}

bool Workload::overflow(Generation generation, std::uint32_t k, std::uint32_t world) const {
  if (operation(generation, k).kind != OperationKind::kInt32) return false;
  const std::int64_t limit = ((std::int64_t{1} << 31) - 1) / world;
  for (std::uint16_t r = 0; r < world; ++r) {
    for (const auto v : ints(generation, k, Rank{r})) {
      if (std::llabs(v) > limit) return true;
    }
  }
  return false;
}

}  // namespace tally::sim
