// Each worker kernel of each table against a definition of its own.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels_support.h"

namespace tally {
namespace {

using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kNoLimit = INT32_MAX;

// Nearest integer of the product rounded to float, the even one of two equally near; saturated.
std::int32_t naive_rounded(float x, float scale) {
  const double product = static_cast<float>(double{x} * double{scale});  // the double product is exact
  if (std::isnan(product) || product < INT32_MIN) return INT32_MIN;
  if (product > INT32_MAX) return INT32_MAX;
  const double below = std::floor(product);
  const double part = product - below;
  const bool up = part > 0.5 || (part == 0.5 && std::fmod(below, 2.0) != 0.0);
  return static_cast<std::int32_t>(up ? below + 1 : below);
}

std::uint32_t naive_magnitude(const Values& values) {
  std::int64_t largest = 0;
  for (const std::int32_t value : values) largest = std::max(largest, std::abs(std::int64_t{value}));
  return static_cast<std::uint32_t>(largest);
}

Values naive_clipped(Values values, std::int32_t limit) {
  for (auto& value : values) value = value > limit ? limit : value < -limit ? -limit : value;
  return values;
}

// Any finite bits, ordinary gradients, and halves that end in ties.
Floats some_floats(std::mt19937_64& random, std::size_t n) {
  Floats floats(n);
  for (auto& x : floats) {
    const std::uint64_t bits = random();
    const auto any = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
    if (bits % 3 == 0) x = std::isfinite(any) ? any : 0.0f;
    if (bits % 3 == 1) x = std::ldexp(static_cast<float>(bits >> 40), -24) - 0.5f;
    if (bits % 3 == 2) x = static_cast<float>(static_cast<std::int64_t>(bits >> 54) - 512) * 0.5f;
  }
  return floats;
}

class WorkerKernelsTest : public KernelsTest {
 protected:
  void check_quantise(const Floats& in, float scale, std::int32_t limit, std::size_t offset) {
    const auto n = static_cast<std::uint32_t>(in.size());
    Guarded span(n * sizeof(float), offset % 16 * sizeof(float));
    Guarded wire(n * sizeof(float), offset);
    std::copy(in.begin(), in.end(), span.as<float>());

    const kernels::Packed got = kernels_.quantise(span.as<float>(), wire.data(), n, scale, limit);

    Values rounded(n);
    std::transform(in.begin(), in.end(), rounded.begin(), [&](float x) { return naive_rounded(x, scale); });
    const Values expected = naive_clipped(rounded, limit);
    const std::string where =
        "n " + std::to_string(n) + ", scale " + std::to_string(scale) + ", limit " + std::to_string(limit);
    ASSERT_EQ(wire_values(wire.data(), n), expected) << where;
    ASSERT_EQ(got.sums, naive_sums(expected)) << where;
    ASSERT_EQ(got.magnitude, naive_magnitude(rounded)) << where;
    ASSERT_TRUE(span.intact() && wire.intact()) << where;
  }

  std::int32_t quantised(float x, float scale = 1.0f, std::int32_t limit = kNoLimit) {
    std::array<std::byte, 4> wire{};
    kernels_.quantise(&x, wire.data(), 1, scale, limit);
    return wire_values(wire.data(), 1)[0];
  }
};

TEST_P(WorkerKernelsTest, QuantiseEverySize) {
  std::mt19937_64 random(1);
  const Floats in = some_floats(random, kMaxElements);
  for (std::uint32_t n = 0; n <= kMaxElements; ++n)
    ASSERT_NO_FATAL_FAILURE(check_quantise({in.begin(), in.begin() + n}, 0x1p20f, 1 << 28, n % 64));
}

TEST_P(WorkerKernelsTest, QuantiseEveryScaleOfTheProtocol) {
  std::mt19937_64 random(2);
  const Floats in = some_floats(random, 83);
  for (int exponent = -104; exponent <= 126; ++exponent)
    for (const std::int32_t limit : {0, 1, 1 << 24, 1 << 30, kNoLimit})
      ASSERT_NO_FATAL_FAILURE(check_quantise(in, std::ldexp(1.0f, exponent), limit, 34));
  for (const float scale : {0.0f, 0.1f, -3.7f, 1e9f, 1e-30f})
    ASSERT_NO_FATAL_FAILURE(check_quantise(in, scale, kNoLimit, 34));
}

TEST_P(WorkerKernelsTest, QuantiseTiesGoToEven) {
  EXPECT_EQ(quantised(0.5f), 0);
  EXPECT_EQ(quantised(1.5f), 2);
  EXPECT_EQ(quantised(2.5f), 2);
  EXPECT_EQ(quantised(-0.5f), 0);
  EXPECT_EQ(quantised(-1.5f), -2);
  EXPECT_EQ(quantised(-2.5f), -2);
  EXPECT_EQ(quantised(0.49999997f), 0);
  EXPECT_EQ(quantised(8388607.5f), 8388608);
}

TEST_P(WorkerKernelsTest, QuantiseZerosAndDenormals) {
  EXPECT_EQ(quantised(-0.0f), 0);
  const float smallest = std::numeric_limits<float>::denorm_min();  // 2^-149
  EXPECT_EQ(quantised(smallest, 0x1p126f), 0);
  EXPECT_EQ(quantised(0x1p-127f, 0x1p126f), 0);  // a tie
  EXPECT_EQ(quantised(0x1.8p-127f, 0x1p126f), 1);
  EXPECT_EQ(quantised(-0x1.fffffcp-127f, 0x1p126f), -1);
}

TEST_P(WorkerKernelsTest, QuantiseSaturatesAndClips) {
  EXPECT_EQ(quantised(0x1p31f), INT32_MAX);
  EXPECT_EQ(quantised(0x1.fffffep30f), 2147483520);  // the largest float below 2^31
  EXPECT_EQ(quantised(-0x1p31f), -INT32_MAX);        // INT32_MIN, clipped
  EXPECT_EQ(quantised(1e38f, 1e38f), INT32_MAX);
  EXPECT_EQ(quantised(kInfinity, 1.0f, 1 << 24), 1 << 24);
  EXPECT_EQ(quantised(-kInfinity, 1.0f, 1 << 24), -(1 << 24));
  EXPECT_EQ(quantised(100.0f, 1.0f, 99), 99);
  EXPECT_EQ(quantised(-100.0f, 1.0f, 100), -100);

  std::array<std::byte, 8> wire{};
  const float in[] = {3.0f, -200.0f};
  const kernels::Packed clipped = kernels_.quantise(in, wire.data(), 2, 1.0f, 100);
  EXPECT_EQ(clipped.magnitude, 200u) << "magnitude is that before the clip";
  EXPECT_EQ(clipped.sums, naive_sums({3, -100}));
}

TEST_P(WorkerKernelsTest, QuantiseCountsNanAsSmallestInteger) {
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
    Floats in(37, 1.0f);
    in[20] = std::bit_cast<float>(bits);
    ASSERT_NO_FATAL_FAILURE(check_quantise(in, 2.0f, 1 << 24, 34));
  }
}

TEST_P(WorkerKernelsTest, MaxAbsBitsEverySizeAndPlace) {
  std::mt19937_64 random(3);
  for (std::size_t n = 0; n <= 130; ++n) {
    Guarded span(n * sizeof(float), n % 16 * sizeof(float));
    std::uint32_t expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      std::memcpy(span.data() + i * sizeof(float), &bits, sizeof bits);
      expected = std::max(expected, bits & 0x7fffffff);
    }
    ASSERT_EQ(kernels_.max_abs_bits(span.as<float>(), n), expected);
    for (std::size_t i = 0; i < n; ++i) {
      const float nan = -std::numeric_limits<float>::quiet_NaN();
      Floats in(n, kInfinity);
      ASSERT_EQ(kernels_.max_abs_bits(in.data(), n), 0x7f800000u);
      in[i] = nan;
      ASSERT_EQ(kernels_.max_abs_bits(in.data(), n), 0x7fc00000u);
    }
  }
}

TEST_P(WorkerKernelsTest, MaxAbsBitsOfZerosAndDenormals) {
  const Floats zeros = {0.0f, -0.0f, -0.0f};
  EXPECT_EQ(kernels_.max_abs_bits(zeros.data(), zeros.size()), 0u);
  const Floats tiny = {0.0f, -std::numeric_limits<float>::denorm_min(), 0.0f};
  EXPECT_EQ(kernels_.max_abs_bits(tiny.data(), tiny.size()), 1u);
}

TEST_P(WorkerKernelsTest, DequantiseEverySize) {
  std::mt19937_64 random(4);
  const Values values = some_values(random, kMaxElements);
  for (std::uint32_t n = 0; n <= kMaxElements; ++n) {
    Guarded wire(n * sizeof(float), n % 64);
    Guarded out(n * sizeof(float), n % 16 * sizeof(float));
    put_wire(wire.data(), {values.begin(), values.begin() + n});
    const float scale = std::ldexp(1.0f, static_cast<int>(n % 253) - 126);
    kernels_.dequantise(wire.data(), out.as<float>(), n, scale);
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto as_float = static_cast<float>(double{static_cast<double>(values[i])});
      const auto expected = static_cast<float>(double{as_float} * double{scale});
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out.as<float>()[i]), std::bit_cast<std::uint32_t>(expected));
    }
    ASSERT_TRUE(wire.intact() && out.intact());
  }
}

TEST_P(WorkerKernelsTest, PackAndUnpackEverySize) {
  std::mt19937_64 random(5);
  const Values values = some_values(random, kMaxElements);
  for (std::uint32_t n = 0; n <= kMaxElements; ++n) {
    const Values in(values.begin(), values.begin() + n);
    Guarded span(n * sizeof(std::int32_t), n % 16 * sizeof(float));
    Guarded wire(n * sizeof(std::int32_t), n % 64);
    std::copy(in.begin(), in.end(), span.as<std::int32_t>());
    const kernels::Packed got = kernels_.pack(span.as<std::int32_t>(), wire.data(), n);
    ASSERT_EQ(wire_values(wire.data(), n), in);
    ASSERT_EQ(got.sums, naive_sums(in));
    ASSERT_EQ(got.magnitude, naive_magnitude(in));
    std::fill_n(span.as<std::int32_t>(), n, 7);
    kernels_.unpack(wire.data(), span.as<std::int32_t>(), n);
    ASSERT_TRUE(std::equal(in.begin(), in.end(), span.as<std::int32_t>()));
    ASSERT_TRUE(span.intact() && wire.intact());
  }
}

TEST_P(WorkerKernelsTest, CopySumsEverySize) {
  std::mt19937_64 random(6);
  const Values values = some_values(random, kMaxElements);
  for (std::uint32_t n = 0; n <= kMaxElements; ++n) {
    const Values in(values.begin(), values.begin() + n);
    Guarded wire(n * sizeof(std::int32_t), n % 64);
    Guarded to(n * sizeof(std::int32_t), n % 16);
    put_wire(wire.data(), in);
    ASSERT_EQ(kernels_.copy_sums(wire.data(), to.data(), n), naive_sums(in));
    ASSERT_EQ(wire_values(wire.data(), n), in);
    ASSERT_EQ(wire_values(to.data(), n), in);
    ASSERT_TRUE(wire.intact() && to.intact());
  }
}

TEST_P(WorkerKernelsTest, MagnitudeOfTheSmallestInteger) {
  const Values in = {5, INT32_MIN, INT32_MAX};
  std::array<std::byte, 12> wire{};
  EXPECT_EQ(kernels_.pack(in.data(), wire.data(), 3).magnitude, 1u << 31);
  EXPECT_EQ(kernels_.pack(in.data(), wire.data(), 0).magnitude, 0u);
}

TEST_P(WorkerKernelsTest, ReadsNothingOutside) {
  for (const auto fence : {Fenced::Fence::kBehind, Fenced::Fence::kBefore}) {
    for (std::uint32_t n = 0; n <= 130; ++n) {
      Fenced span(n * sizeof(float), fence);
      Fenced wire(n * sizeof(float), fence);
      kernels_.max_abs_bits(span.as<float>(), n);
      kernels_.quantise(span.as<float>(), wire.as<std::byte>(), n, 1.0f, kNoLimit);
      kernels_.dequantise(wire.as<std::byte>(), span.as<float>(), n, 1.0f);
      kernels_.pack(span.as<std::int32_t>(), wire.as<std::byte>(), n);
      kernels_.unpack(wire.as<std::byte>(), span.as<std::int32_t>(), n);
      kernels_.copy_sums(wire.as<std::byte>(), span.as<std::byte>(), n);
    }
  }
}

// The bound the protocol promises: |y - sum x| <= N * 2^(E-s-1) + 2^-24 |y|.
TEST_P(WorkerKernelsTest, RoundTripKeepsTheErrorBound) {
  constexpr int kMembers = 8;
  constexpr int kBits = 27;  // s of 8 members
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  for (const int exponent : {-96, -20, 0, 100}) {
    Values sum(256);
    std::vector<double> exact(256);
    std::vector<std::byte> wire(256 * sizeof(float));
    for (int member = 0; member < kMembers; ++member) {
      Floats in(256);
      for (auto& x : in) x = std::ldexp(std::clamp(normal(random) / 4, -1.0f, 1.0f), exponent);
      for (std::size_t i = 0; i < 256; ++i) exact[i] += double{in[i]};
      const auto packed =
          kernels_.quantise(in.data(), wire.data(), 256, std::ldexp(1.0f, kBits - exponent), 1 << kBits);
      EXPECT_LE(packed.magnitude, 1u << kBits);
      EXPECT_FALSE(kernels_.add(sum.data(), wire.data(), 256));
    }
    kernels_.read(sum.data(), wire.data(), 256);
    Floats out(256);
    kernels_.dequantise(wire.data(), out.data(), 256, std::ldexp(1.0f, exponent - kBits));
    for (std::size_t i = 0; i < 256; ++i) {
      const double bound =
          kMembers * std::ldexp(1.0, exponent - kBits - 1) + std::ldexp(std::abs(double{out[i]}), -24);
      EXPECT_LE(std::abs(double{out[i]} - exact[i]), bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WorkerKernelsTest, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
