// The choice of a table, CRC32C, and the joining of sums.
#include <array>
#include <numeric>
#include <string_view>

#include "kernels_support.h"

namespace tally {
namespace {

TEST(KernelChoice, ScalarIsFirstAndTheBestIsLast) {
  const auto usable = kernels::usable_kernels();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(usable.front()->name, "scalar");
  EXPECT_EQ(usable.back(), &kernels::best_kernels());
  EXPECT_EQ(usable.data(), kernels::usable_kernels().data());
}

TEST(JoinedSums, EqualThoseOfTheWhole) {
  std::mt19937_64 random(1);
  const Values whole = some_values(random, 300);
  for (std::uint32_t cut = 0; cut <= 300; ++cut) {
    const Values head(whole.begin(), whole.begin() + cut);
    const Values tail(whole.begin() + cut, whole.end());
    ASSERT_EQ(kernels::joined_sums(naive_sums(head), cut, naive_sums(tail)), naive_sums(whole));
  }
}

class ChecksumTest : public KernelsTest {
 protected:
  std::uint32_t crc(const std::vector<unsigned char>& bytes) {
    return kernels_.crc32c(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  }
};

// RFC 3720, B.4, and the customary check value.
TEST_P(ChecksumTest, PublishedVectors) {
  std::vector<unsigned char> up(32);
  std::iota(up.begin(), up.end(), static_cast<unsigned char>(0));
  const std::vector<unsigned char> down(up.rbegin(), up.rend());
  EXPECT_EQ(crc(std::vector<unsigned char>(32, 0)), 0x8a9136aau);
  EXPECT_EQ(crc(std::vector<unsigned char>(32, 0xff)), 0x62a8ab43u);
  EXPECT_EQ(crc(up), 0x46dd794eu);
  EXPECT_EQ(crc(down), 0x113fdb5cu);
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(crc({kDigits.begin(), kDigits.end()}), 0xe3069283u);
  EXPECT_EQ(crc({}), 0u);
}

// Division of the bits by the polynomial, most significant coefficient first, as the definition says.
std::uint32_t naive_crc32c(const std::byte* data, std::size_t bytes) {
  std::uint32_t remainder = ~0u;
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
    const std::uint32_t in = std::to_integer<std::uint32_t>(data[bit / 8]) >> bit % 8 & 1;
    const bool subtract = (remainder >> 31 ^ in) != 0;
    remainder = remainder << 1 ^ (subtract ? 0x1edc6f41u : 0);
  }
  std::uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= (remainder >> bit & 1) << (31 - bit);
  return ~reflected;
}

TEST_P(ChecksumTest, EveryLengthAtEveryOffset) {
  std::mt19937_64 random(2);
  for (std::size_t bytes = 0; bytes <= 130; ++bytes) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      std::vector<std::byte> data(offset + bytes);  // exact, so that AddressSanitizer sees a read behind it
      for (auto& byte : data) byte = static_cast<std::byte>(random() & 0xff);
      ASSERT_EQ(kernels_.crc32c(data.data() + offset, bytes), naive_crc32c(data.data() + offset, bytes))
          << bytes;
    }
  }
}

TEST_P(ChecksumTest, EveryFlippedBitOfAHeaderShows) {
  std::array<std::byte, 52> header{};
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(i * 37 & 0xff);
  const std::uint32_t good = kernels_.crc32c(header.data(), header.size());
  for (std::size_t bit = 0; bit < 8 * header.size(); ++bit) {
    auto flipped = header;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_NE(kernels_.crc32c(flipped.data(), flipped.size()), good);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChecksumTest, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
