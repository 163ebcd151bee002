// Blocks of which rows of zeros are left out: the kernels for them do what those for all values do with the zeros. Each
// table against the scalar one's others, which have tests of their own.
#include "kernels_support.h"
#include "tally/rows.h"

namespace tally {
namespace {

constexpr std::uint32_t kWords = 16;  // of a row

// A block as a packet has it, with the bits of its rows.
struct Block {
  std::vector<std::byte> dense;
  std::vector<std::byte> packed;  // the rows that are there
  RowBitmap bits;
  std::uint32_t rows = 0;

  [[nodiscard]] kernels::SomeRows some() const { return {packed.data(), bits.words.data(), rows}; }
};

// present: of each row, in 1/256.
Block some_block(std::mt19937_64& random, std::uint32_t rows, unsigned present) {
  Block block;
  block.rows = rows;
  block.dense.resize(std::size_t{rows} * kRowBytes);
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (random() % 256 >= present) continue;
    block.bits.words[row / kRowsOfWord] |= std::uint64_t{1} << row % kRowsOfWord;
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
    sums.push_back(kernels_.rows.sums({at, block.bits.words.data(), block.rows}));
  EXPECT_EQ(sums[0], sums[1]);
}

INSTANTIATE_TEST_SUITE_P(Tables, RowsKernelsTest, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
