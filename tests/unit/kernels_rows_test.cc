// Blocks of which rows of zeros are left out: the kernels for them do what those for all values do with the zeros, and
// packing is undone by unpacking. Each table against the scalar one, whose other kernels have tests of their own.
#include "kernels_support.h"
#include "tally/rows.h"

namespace tally {
namespace {

constexpr std::uint32_t kWords = 16;  // of a row

// A block as a packet has it, with the bits of its rows.
struct Block {
  std::vector<std::byte> dense;
  std::vector<std::byte> packed;  // the rows that are there
  RowBits bits{};
  std::uint32_t rows = 0;

  [[nodiscard]] kernels::SomeRows some() const { return {packed.data(), bits.data(), rows}; }
};

// present: of each row, in 1/256.
Block some_block(std::mt19937_64& random, std::uint32_t rows, unsigned present) {
  Block block;
  block.rows = rows;
  block.dense.resize(std::size_t{rows} * kRowBytes);
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (random() % 256 >= present) continue;
    block.bits[row / kRowsPerWord] |= std::uint64_t{1} << row % kRowsPerWord;
    std::byte* const at = block.dense.data() + std::size_t{row} * kRowBytes;
    put_wire(at, some_values(random, kWords));
    block.packed.insert(block.packed.end(), at, at + kRowBytes);
  }
  return block;
}

class RowsKernelsTest : public KernelsTest {
 protected:
  const kernels::Kernels& scalar_ = *kernels::usable_kernels().front();

  // Memory of an entry, and what the kernels do to it beside what the dense ones of the reference do.
  void check(const kernels::RowsKernels& rows, const Block& block, const Values& before, bool halves) {
    const std::uint32_t words = block.rows * kWords;
    const std::uint32_t n = halves ? 2 * words : words;
    const std::byte* const dense = block.dense.data();
    const auto add = halves ? scalar_.halves.add_sums : scalar_.fetching.add_sums;
    Guarded entry(std::size_t{4} * words, 0);
    Guarded expected(std::size_t{4} * words, 0);
    const auto reset = [&] {
      std::copy(before.begin(), before.end(), entry.as<std::int32_t>());
      std::copy(before.begin(), before.end(), expected.as<std::int32_t>());
    };
    const auto same = [&] {
      return std::memcmp(entry.data(), expected.data(), std::size_t{4} * words) == 0 && entry.intact();
    };
    reset();
    const kernels::Added wanted = add(expected.as<std::int32_t>(), dense, n, {});
    ASSERT_EQ(rows.sums(block.some()), wanted.sums) << block.rows;
    ASSERT_EQ(rows.add(entry.as<std::int32_t>(), block.some()), wanted.overflow != 0) << block.rows;
    ASSERT_TRUE(same()) << block.rows;

    rows.subtract(entry.as<std::int32_t>(), block.some());
    std::copy(before.begin(), before.end(), expected.as<std::int32_t>());
    ASSERT_TRUE(same()) << "it undoes the addition, of " << block.rows;

    reset();
    const kernels::Added added = rows.add_sums(entry.as<std::int32_t>(), block.some());
    add(expected.as<std::int32_t>(), dense, n, {});
    ASSERT_EQ(added.sums, wanted.sums) << block.rows;
    ASSERT_EQ(added.overflow != 0, wanted.overflow != 0) << block.rows;
    ASSERT_TRUE(same()) << block.rows;

    rows.write(entry.as<std::int32_t>(), block.some());
    scalar_.write(expected.as<std::int32_t>(), dense, words);
    ASSERT_TRUE(same()) << "zeros where nothing is, of " << block.rows;
  }
};

TEST_P(RowsKernelsTest, EveryCountAndAnyRowsOfIt) {
  std::mt19937_64 random(21);
  for (std::uint32_t rows = 0; rows <= kMaxRows; ++rows) {
    for (const unsigned present : {0U, 3U, 128U, 250U, 256U}) {
      const Block block = some_block(random, rows, present);
      const Values before = some_values(random, std::size_t{rows} * kWords);
      ASSERT_NO_FATAL_FAILURE(check(kernels_.rows, block, before, false));
      ASSERT_NO_FATAL_FAILURE(check(kernels_.half_rows, block, before, true));
    }
  }
}

TEST_P(RowsKernelsTest, NothingIsReadBehindTheLastRow) {
  std::mt19937_64 random(22);
  const Block block = some_block(random, kMaxRows, 40);
  Fenced wire(block.packed.size(), Fenced::Fence::kBehind);
  std::copy(block.packed.begin(), block.packed.end(), wire.as<std::byte>());
  std::vector<kernels::Sums> sums;
  for (const std::byte* const at : {block.packed.data(), static_cast<const std::byte*>(wire.as<std::byte>())})
    sums.push_back(kernels_.rows.sums({at, block.bits.data(), block.rows}));
  EXPECT_EQ(sums[0], sums[1]);
}

INSTANTIATE_TEST_SUITE_P(Tables, RowsKernelsTest, all_kernels(), kernels_name);

TEST(Rows, PackingIsUndoneByUnpackingAndNeverLonger) {
  std::mt19937_64 random(23);
  for (std::uint32_t rows = 0; rows <= kMaxRows; ++rows) {
    for (const unsigned present : {0U, 3U, 128U, 250U, 256U}) {
      const Block block = some_block(random, rows, present);
      std::vector<std::byte> wire = block.dense;
      const std::uint32_t bytes = pack_rows(wire.data(), rows);
      const std::size_t packed = block.packed.size() + bitmap_bytes(rows);
      if (packed >= block.dense.size()) {
        ASSERT_EQ(bytes, 0U) << rows;
        ASSERT_EQ(wire, block.dense) << "left as it is";
        continue;
      }
      ASSERT_EQ(bytes, packed) << rows;
      ASSERT_TRUE(are_rows(wire.data(), rows, bytes));
      ASSERT_EQ(row_bits(wire.data(), rows, bytes), block.bits);
      std::vector<std::byte> apart(block.dense.size());
      unpack_rows(wire.data(), rows, bytes, apart.data());
      ASSERT_EQ(apart, block.dense);
      unpack_rows(wire.data(), rows, bytes, wire.data());
      ASSERT_EQ(wire, block.dense) << "where they lie";
    }
  }
}

TEST(Rows, LengthAndBitmapMustAgree) {
  std::mt19937_64 random(24);
  for (const std::uint32_t rows : {1U, 22U, 63U, 64U, 65U, 139U}) {
    std::vector<std::byte> wire = some_block(random, rows, 100).dense;
    const std::uint32_t bytes = pack_rows(wire.data(), rows);
    if (bytes == 0) continue;
    wire.resize(std::size_t{kMaxRows + 2} * kRowBytes);
    // What is shorter or longer by whole rows has its bitmap elsewhere, and may be another packet.
    for (std::uint32_t other = 0; other <= (rows + 2) * kRowBytes; ++other)
      if (other % kRowBytes != bytes % kRowBytes || other >= rows * kRowBytes) {
        EXPECT_FALSE(are_rows(wire.data(), rows, other)) << rows << ", " << other;
      }
    EXPECT_TRUE(are_rows(wire.data(), rows, bytes));
    for (std::uint32_t bit = 0; bit < 8 * bitmap_bytes(rows); ++bit) {
      std::byte& changed = wire[bytes - 1 - bit / 8];
      changed ^= std::byte{1} << bit % 8;
      EXPECT_FALSE(are_rows(wire.data(), rows, bytes)) << rows << ", bit " << bit;
      changed ^= std::byte{1} << bit % 8;
    }
  }
  EXPECT_FALSE(are_rows(nullptr, 0, 0)) << "of nothing nothing is left out";
}

}  // namespace
}  // namespace tally
