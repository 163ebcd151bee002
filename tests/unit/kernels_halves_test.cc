// Each kernel for two values in a word against a definition of its own: halves are added without a carry.
#include <bit>
#include <cmath>

#include "kernels_support.h"
#include "tally/be.h"

namespace tally {
namespace {

using Halves = std::vector<std::int16_t>;

Halves some_halves(std::mt19937_64& random, std::size_t n) {
  Halves values(n);
  for (auto& v : values) {
    const std::uint64_t bits = random();
    constexpr std::int16_t kEdges[] = {INT16_MAX, INT16_MIN, -1, 1};
    v = bits % 4 == 0 ? kEdges[bits >> 8 & 3]
                      : static_cast<std::int16_t>(bits >> (bits % 4 == 1 ? 48 : 32) & 0xfff);
  }
  return values;
}

void put_halves(std::byte* wire, const Halves& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    wire_put(wire + 2 * i, Be{static_cast<std::uint16_t>(values[i])});
}
Halves halves_at(const std::byte* wire, std::size_t n) {
  Halves values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<std::int16_t>(wire_at<Be<std::uint16_t>>(wire + 2 * i).host());
  return values;
}

kernels::Sums sums_of(const Halves& values) { return naive_sums(Values(values.begin(), values.end())); }

// The sum in each half for itself; whether one left it.
bool add_to(Halves& entry, const Halves& in) {
  bool overflow = false;
  for (std::size_t i = 0; i < entry.size(); ++i) {
    const int exact = entry[i] + in[i];
    overflow |= exact < INT16_MIN || exact > INT16_MAX;
    entry[i] = static_cast<std::int16_t>(exact);
  }
  return overflow;
}

kernels::Ahead nobodys() {
  return {reinterpret_cast<const std::byte*>(std::uintptr_t{0x1000}),
          reinterpret_cast<const std::int32_t*>(std::uintptr_t{0x2000})};
}

class HalvesKernelsTest : public KernelsTest {
 protected:
  const kernels::HalvesKernels& halves_ = kernels_.halves;

  // What an entry holds, as a packet would carry it.
  Halves held(const std::int32_t* entry, std::uint32_t n) {
    std::vector<std::byte> wire(2 * n);
    kernels_.read(entry, wire.data(), n / 2);
    return halves_at(wire.data(), n);
  }

  void check(Halves entry, const Halves& packet, std::size_t offset) {
    const auto n = static_cast<std::uint32_t>(packet.size());
    Guarded slot(2 * n, 0);
    Guarded wire(2 * n, offset);
    const auto reset = [&] {
      put_halves(wire.data(), entry);
      kernels_.write(slot.as<std::int32_t>(), wire.data(), n / 2);
      put_halves(wire.data(), packet);
    };
    Halves sum = entry;
    const bool overflow = add_to(sum, packet);
    auto* const at = slot.as<std::int32_t>();

    reset();
    ASSERT_EQ(halves_.sums(wire.data(), n), sums_of(packet)) << n;
    ASSERT_EQ(halves_.add(at, wire.data(), n, nobodys()), overflow) << n;
    ASSERT_EQ(held(at, n), sum) << n;
    halves_.subtract(at, wire.data(), n);
    ASSERT_EQ(held(at, n), entry) << "it undoes the addition, also of what left its half";

    const kernels::Added added = halves_.add_sums(at, wire.data(), n, nobodys());
    ASSERT_EQ(added.sums, sums_of(packet)) << n;
    ASSERT_EQ(added.overflow != 0, overflow);
    ASSERT_EQ(held(at, n), sum);

    reset();
    const kernels::Added emitted = halves_.add_emit(at, wire.data(), n, nobodys());
    ASSERT_EQ(emitted.sums, sums_of(sum)) << n;
    ASSERT_EQ(emitted.overflow != 0, overflow);
    ASSERT_EQ(held(at, n), sum);
    ASSERT_EQ(halves_at(wire.data(), n), sum);

    Guarded copy(2 * n, 2);
    ASSERT_EQ(halves_.copy_sums(wire.data(), copy.data(), n), sums_of(sum));
    ASSERT_EQ(halves_at(copy.data(), n), sum);
    ASSERT_TRUE(slot.intact() && wire.intact() && copy.intact());
  }
};

TEST_P(HalvesKernelsTest, EverySizeAtSomeOffsets) {
  std::mt19937_64 random(1);
  for (std::uint32_t n = 0; n <= 2 * kMaxElements; n += 32)
    for (const std::size_t offset : {0U, 2U, 34U, 42U})
      ASSERT_NO_FATAL_FAILURE(check(some_halves(random, n), some_halves(random, n), offset));
}

TEST_P(HalvesKernelsTest, OneValueAtTheEdgeLeavesItsNeighbourAlone) {
  constexpr std::pair<std::int16_t, std::int16_t> kEdges[] = {{INT16_MAX, 0},         {INT16_MAX, 1},
                                                              {INT16_MIN, 0},         {INT16_MIN, -1},
                                                              {INT16_MIN, INT16_MIN}, {-1, INT16_MIN}};
  for (std::size_t i = 0; i < 64; ++i) {
    for (const auto& [old, in] : kEdges) {
      Halves entry(64, -1);
      Halves packet(64, 1);
      entry[i] = old;
      packet[i] = in;
      ASSERT_NO_FATAL_FAILURE(check(entry, packet, 34));
    }
  }
}

// A lane that wraps is no sum: the checks, over 32 bits, tell, where int32's are right modulo 2^32.
TEST_P(HalvesKernelsTest, SumsOfALaneThatWrapsDoNotAddUp) {
  std::vector<std::byte> wire(64);
  std::vector<std::int32_t> entry(16);
  put_halves(wire.data(), Halves(32, 20'000));
  kernels_.write(entry.data(), wire.data(), 16);
  const kernels::Sums one = halves_.sums(wire.data(), 32);
  const kernels::Added both = halves_.add_emit(entry.data(), wire.data(), 32, nobodys());
  EXPECT_NE(both.overflow, 0U);
  EXPECT_NE(both.sums.sum1, 2 * one.sum1);
}

TEST_P(HalvesKernelsTest, QuantiseAndDequantiseEverySize) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  for (std::uint32_t n = 0; n <= 300; ++n) {
    std::vector<float> in(n);
    for (auto& x : in) x = normal(random);
    constexpr float kScale = 0x1p10F;
    constexpr std::int32_t kLimit = 1 << 11;
    Guarded span(n * sizeof(float), 4 * (n % 16));
    Guarded wire(2 * n, n % 64);
    std::copy(in.begin(), in.end(), span.as<float>());
    const kernels::Packed packed = halves_.quantise(span.as<float>(), wire.data(), n, kScale, kLimit);
    Halves expected(n);
    std::uint32_t magnitude = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto rounded = static_cast<std::int32_t>(std::lrint(in[i] * kScale));
      magnitude = std::max(magnitude, static_cast<std::uint32_t>(std::abs(rounded)));
      expected[i] = static_cast<std::int16_t>(std::clamp(rounded, -kLimit, kLimit));
    }
    ASSERT_EQ(halves_at(wire.data(), n), expected) << n;
    ASSERT_EQ(packed.sums, sums_of(expected)) << n;
    ASSERT_EQ(packed.magnitude, magnitude) << n;
    halves_.dequantise(wire.data(), span.as<float>(), n, 0x1p-10F);
    for (std::uint32_t i = 0; i < n; ++i)
      ASSERT_EQ(span.as<float>()[i], static_cast<float>(expected[i]) * 0x1p-10F) << i << " of " << n;
    ASSERT_TRUE(span.intact() && wire.intact()) << n;
  }
}

TEST_P(HalvesKernelsTest, ReadsNothingOutside) {
  for (const auto fence : {Fenced::Fence::kBehind, Fenced::Fence::kBefore}) {
    for (std::uint32_t n = 0; n <= 130; ++n) {
      Fenced span(n * sizeof(float), fence);
      Fenced wire(2 * n, fence);
      halves_.quantise(span.as<float>(), wire.as<std::byte>(), n, 1.0F, 1 << 14);
      halves_.dequantise(wire.as<std::byte>(), span.as<float>(), n, 1.0F);
      if (n % 32 != 0) continue;
      Fenced slot(2 * n, fence);
      halves_.add(slot.as<std::int32_t>(), wire.as<std::byte>(), n, nobodys());
      halves_.add_emit(slot.as<std::int32_t>(), wire.as<std::byte>(), n, nobodys());
      halves_.subtract(slot.as<std::int32_t>(), wire.as<std::byte>(), n);
      halves_.copy_sums(wire.as<std::byte>(), slot.as<std::byte>(), n);
    }
  }
}

// The bound the protocol promises: |y - sum x| <= N * 2^(E-s-1) + 2^-24 |y|, here with the s of 16 bits.
TEST_P(HalvesKernelsTest, RoundTripKeepsTheErrorBound) {
  constexpr int kBits = 11;  // s of 8 members
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  for (const int exponent : {-96, -20, 0, 100}) {
    std::vector<std::int32_t> sum(128);
    std::vector<double> exact(256);
    std::vector<std::byte> wire(512);
    for (int member = 0; member < 8; ++member) {
      std::vector<float> in(256);
      for (auto& x : in) x = std::ldexp(std::clamp(normal(random) / 4, -1.0F, 1.0F), exponent);
      for (std::size_t i = 0; i < 256; ++i) exact[i] += double{in[i]};
      halves_.quantise(in.data(), wire.data(), 256, std::ldexp(1.0F, kBits - exponent), 1 << kBits);
      EXPECT_FALSE(halves_.add(sum.data(), wire.data(), 256, nobodys()));
    }
    kernels_.read(sum.data(), wire.data(), 128);
    std::vector<float> out(256);
    halves_.dequantise(wire.data(), out.data(), 256, std::ldexp(1.0F, exponent - kBits));
    for (std::size_t i = 0; i < 256; ++i) {
      const double bound =
          8 * std::ldexp(1.0, exponent - kBits - 1) + std::ldexp(std::abs(double{out[i]}), -24);
      EXPECT_LE(std::abs(double{out[i]} - exact[i]), bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HalvesKernelsTest, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
