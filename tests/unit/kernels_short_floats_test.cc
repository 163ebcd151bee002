// Floats of 16 bits: every one of them widened, and rounding by its definition, the nearest of two neighbours.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels_support.h"

namespace tally {
namespace {

struct Format {
  const char* name;
  kernels::ShortFloatKernels kernels::Kernels::*kernels;
  int fraction_bits;
  int bias;

  [[nodiscard]] std::uint32_t infinity() const { return 0x8000U - (1U << fraction_bits); }
  // Of the pattern without a sign, infinity as the number that would follow the largest.
  [[nodiscard]] double value(std::uint32_t pattern) const {
    const auto exponent = static_cast<int>(pattern >> fraction_bits);
    const auto fraction = static_cast<double>(pattern & ((1U << fraction_bits) - 1));
    const double one = std::ldexp(1.0, fraction_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                         : std::ldexp(one + fraction, exponent - bias - fraction_bits);
  }
  [[nodiscard]] std::uint16_t nearest(float x) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const double magnitude = std::abs(static_cast<double>(x));
    std::uint32_t below = 0;
    for (std::uint32_t step = 0x4000; step != 0; step /= 2)
      if (below + step < infinity() && value(below + step) <= magnitude) below += step;
    const double down = magnitude - value(below);
    const double up = value(below + 1) - magnitude;
    const bool goes_up = up < down || (up == down && below % 2 == 1);
    return static_cast<std::uint16_t>(sign | (below + (goes_up ? 1 : 0)));
  }
};

constexpr Format kFormats[] = {{"float16", &kernels::Kernels::float16, 10, 15},
                               {"bfloat16", &kernels::Kernels::bfloat16, 7, 127}};

class ShortFloats : public KernelsTest {};

TEST_P(ShortFloats, EveryOneIsWidenedExactlyAndNarrowedBack) {
  for (const Format& format : kFormats) {
    const kernels::ShortFloatKernels& k = kernels_.*format.kernels;
    std::vector<std::uint16_t> all(0x10000);
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(all.size());
    std::vector<std::uint16_t> back(all.size());
    k.widen(all.data(), wide.data(), 0x10000);
    k.narrow(wide.data(), back.data(), 0x10000);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      const std::uint32_t pattern = i & 0x7FFFU;
      ASSERT_EQ(std::signbit(wide[i]), i >= 0x8000) << format.name << ' ' << i;
      if (pattern > format.infinity()) {
        const std::uint32_t quiet = 1U << (format.fraction_bits - 1);
        ASSERT_TRUE(std::isnan(wide[i])) << format.name << ' ' << i;
        ASSERT_EQ(back[i], i | quiet) << format.name;
        ASSERT_NE(std::bit_cast<std::uint32_t>(wide[i]) & 0x40'0000U, 0U) << "a NaN that is not quiet";
      } else {
        const double expected =
            pattern == format.infinity() ? std::numeric_limits<double>::infinity() : format.value(pattern);
        ASSERT_EQ(std::abs(static_cast<double>(wide[i])), expected) << format.name << ' ' << i;
        ASSERT_EQ(back[i], i) << format.name;
      }
    }
  }
}

// Every pair of neighbours, the middle between them and what lies just beside it; and whatever bits there are.
TEST_P(ShortFloats, AreRoundedToTheNearestTiesToEven) {
  for (const Format& format : kFormats) {
    const kernels::ShortFloatKernels& k = kernels_.*format.kernels;
    std::vector<float> in{0.0F, -0.0F, std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::infinity(), std::numeric_limits<float>::denorm_min()};
    for (std::uint32_t pattern = 0; pattern < format.infinity(); ++pattern) {
      const auto middle = static_cast<float>((format.value(pattern) + format.value(pattern + 1)) / 2);
      for (const float x : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e38F)})
        in.insert(in.end(), {x, -x});
    }
    std::mt19937_64 random(2);
    for (int i = 0; i < 20'000; ++i) {
      const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (!std::isnan(x)) in.push_back(x);
    }
    std::vector<std::uint16_t> out(in.size());
    k.narrow(in.data(), out.data(), static_cast<std::uint32_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i], format.nearest(in[i])) << format.name << ' ' << in[i];
  }
}

TEST_P(ShortFloats, OfAnyNumberAndPlaceTouchNothingElse) {
  std::mt19937_64 random(3);
  for (const Format& format : kFormats) {
    const kernels::ShortFloatKernels& k = kernels_.*format.kernels;
    for (std::uint32_t n = 0; n <= 70; ++n) {
      Guarded shorts(2 * n, 2 * (n % 7));
      Guarded floats(4 * n, 4 * (n % 5));
      std::vector<std::uint16_t> in(n);
      for (std::uint32_t i = 0; i < n; ++i) in[i] = static_cast<std::uint16_t>(random() % format.infinity());
      std::copy(in.begin(), in.end(), shorts.as<std::uint16_t>());
      k.widen(shorts.as<std::uint16_t>(), floats.as<float>(), n);
      for (std::uint32_t i = 0; i < n; ++i)
        ASSERT_EQ(static_cast<double>(floats.as<float>()[i]), format.value(in[i])) << format.name;
      std::fill_n(shorts.as<std::uint16_t>(), n, std::uint16_t{7});
      k.narrow(floats.as<float>(), shorts.as<std::uint16_t>(), n);
      ASSERT_TRUE(std::equal(in.begin(), in.end(), shorts.as<std::uint16_t>())) << format.name;
      ASSERT_TRUE(shorts.intact() && floats.intact()) << format.name << ' ' << n;
    }
  }
}

// A NaN stays one, with its sign, however few of its bits are left.
TEST_P(ShortFloats, ANaNStaysOne) {
  for (const Format& format : kFormats) {
    for (const std::uint32_t bits : {0x7F80'0001U, 0xFF80'0001U, 0x7FC0'0000U, 0xFFFF'FFFFU}) {
      const auto in = std::bit_cast<float>(bits);
      std::uint16_t out = 0;
      (kernels_.*format.kernels).narrow(&in, &out, 1);
      EXPECT_GT(out & 0x7FFFU, format.infinity()) << format.name;
      EXPECT_EQ(out >> 15, bits >> 31) << format.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShortFloats, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
