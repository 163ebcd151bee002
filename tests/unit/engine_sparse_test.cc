// Rows of zeros that are left out, and operands of rows (docs/sparse.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <vector>

#include "engine/sparse_rows.h"
#include "engine_testbed.h"
#include "tally/rows.h"

namespace tally::testbed {
namespace {

using Ints = std::vector<std::int32_t>;

// The form on the wire: every bitmap comes back as it was, and nothing else is believed.

std::vector<std::byte> block_of(std::uint32_t rows, const std::vector<bool>& present) {
  std::vector<std::byte> block(std::size_t{kRowBytes} * rows);
  for (std::uint32_t r = 0; r < rows; ++r)
    if (present[r]) block[kRowBytes * r + r % kRowBytes] = static_cast<std::byte>((r + 1) | 1);
  return block;
}

TEST(Rows, ComeBackAsTheyWereFromInPlaceAndFromElsewhere) {
  std::mt19937 random(1);
  for (std::uint32_t rows = 1; rows <= kMaxRows; ++rows) {
    for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      std::vector<bool> present(rows);
      for (std::uint32_t r = 0; r < rows; ++r) present[r] = std::bernoulli_distribution(share)(random);
      const auto n = static_cast<std::uint32_t>(std::count(present.begin(), present.end(), true));
      const std::vector<std::byte> block = block_of(rows, present);
      std::vector<std::byte> packed = block;
      const std::uint32_t bytes = pack_rows(packed.data(), rows);
      if (kRowBytes * n + bitmap_bytes(rows) >= kRowBytes * rows) {
        ASSERT_EQ(bytes, 0U);
        ASSERT_EQ(packed, block) << "not shorter, and untouched";
        continue;
      }
      ASSERT_EQ(bytes, kRowBytes * n + bitmap_bytes(rows));
      ASSERT_TRUE(are_rows(packed.data(), rows, bytes));
      std::vector<std::byte> elsewhere(block.size(), std::byte{0xAA});
      unpack_rows(packed.data(), elsewhere.data(), rows, bytes);
      ASSERT_EQ(elsewhere, block);
      unpack_rows(packed.data(), packed.data(), rows, bytes);
      ASSERT_EQ(packed, block);
    }
  }
}

TEST(Rows, AreNotBelievedWithAnotherLengthOrBitmap) {
  for (const std::uint32_t rows : {3U, 22U, 64U, 65U, 139U}) {
    std::vector<bool> present(rows);
    present[1] = present[rows - 1] = true;
    std::vector<std::byte> packed = block_of(rows, present);
    const std::uint32_t bytes = pack_rows(packed.data(), rows);
    ASSERT_EQ(bytes,
              2 * kRowBytes + bitmap_bytes(rows) < rows * kRowBytes ? 2 * kRowBytes + bitmap_bytes(rows) : 0);
    for (std::uint32_t other = 0; other <= packed.size(); ++other) {
      if (other != bytes) {
        ASSERT_FALSE(are_rows(packed.data(), rows, other)) << rows << " rows, " << other;
      }
    }
    for (std::uint32_t bit = 0; bit < 8 * bitmap_bytes(rows); ++bit) {
      std::vector<std::byte> flipped = packed;
      flipped[bytes - bitmap_bytes(rows) + bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_FALSE(are_rows(flipped.data(), rows, bytes)) << rows << " rows, bit " << bit;
    }
  }
  EXPECT_FALSE(are_rows(nullptr, 0, 0)) << "of no elements";
}

// Operands.

TEST(SparseRows, AreRefusedByTheIndexAtFault) {
  using engine::objection_to;
  const TableShape table{.rows = 10, .width = 3};
  const auto why = [&](const std::vector<std::uint32_t>& ids, std::size_t values) {
    return objection_to(table, ids, values);
  };
  EXPECT_EQ(why({}, 0), "");
  EXPECT_EQ(why({0, 4, 9}, 9), "");
  EXPECT_EQ(why({0, 4, 10}, 9), "ids[2] is 10, and the table has 10 rows");
  EXPECT_EQ(why({4, 4}, 6), "ids[1] is 4 once more: each row is given once, add what belongs together");
  EXPECT_EQ(why({1, 5, 4}, 9), "ids[2] is 4, behind 5: ids must increase");
  EXPECT_EQ(why({1, 5}, 5), "2 rows of width 3 have 6 values, not 5");
  EXPECT_EQ(objection_to({.rows = 1, .width = 0}, {}, 0), "width 0: a row has one value at least");
}

TEST(SparseRows, BecomeSegmentsWithoutMemoryBetween) {
  const std::vector<std::uint32_t> ids{1, 2, 5};
  const Ints values(6);
  Ints sums(16);
  const auto segments = engine::segments_of({.rows = 8, .width = 2}, ids, values.data(), sums.data());
  const auto expect = [&](std::size_t i, const void* in, std::size_t out, std::uint64_t length) {
    ASSERT_LT(i, segments.size());
    EXPECT_EQ(segments[i].in, in);
    EXPECT_EQ(segments[i].out, sums.data() + out);
    EXPECT_EQ(segments[i].length, length);
  };
  ASSERT_EQ(segments.size(), 5U);
  expect(0, nullptr, 0, 2);
  expect(1, values.data(), 2, 4);
  expect(2, nullptr, 6, 4);
  expect(3, values.data() + 4, 10, 2);
  expect(4, nullptr, 12, 4);
}

// What many ranks have, element by element.
struct SparseOperands {
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  std::vector<std::vector<std::uint32_t>> ids{};  // of each rank
  std::vector<Ints> values{};

  SparseOperands(std::uint32_t r, std::uint32_t w, std::uint16_t world, double share, unsigned seed)
      : rows(r), width(w) {
    std::mt19937 random(seed);
    for (std::uint16_t rank = 0; rank < world; ++rank) {
      auto& mine = ids.emplace_back();
      for (std::uint32_t row = 0; row < rows; ++row)
        if (std::bernoulli_distribution(share)(random)) mine.push_back(row);
      auto& of = values.emplace_back(mine.size() * width);
      for (auto& v : of) v = static_cast<std::int32_t>(random() % 2001) - 1000;
    }
  }
  [[nodiscard]] TableShape table() const { return {rows, width}; }
  [[nodiscard]] Ints sum() const {
    Ints all(std::size_t{rows} * width);
    for (std::size_t rank = 0; rank < ids.size(); ++rank)
      for (std::size_t i = 0; i < ids[rank].size(); ++i)
        for (std::uint32_t k = 0; k < width; ++k)
          all[std::size_t{ids[rank][i]} * width + k] += values[rank][i * width + k];
    return all;
  }
};

// The whole table and the rows that are not zero; by rank in turn, for what one gets has nothing to do with the others.
void expect_sum(Rig& rig, const SparseOperands& x, ElementType type = ElementType::kInt32) {
  const std::uint16_t world = rig.box.shape.world;
  std::vector<std::vector<float>> floats(world);
  std::vector<std::vector<std::uint32_t>> tables(
      world, std::vector<std::uint32_t>(std::size_t{x.rows} * x.width, 7));
  std::vector<engine::RowCollector> collectors(world);
  engine::OperationId id{};
  for (std::uint16_t r = 0; r < world; ++r) {
    floats[r].assign(x.values[r].begin(), x.values[r].end());
    const void* const in = is_float(type) ? static_cast<const void*>(floats[r].data()) : x.values[r].data();
    engine::OperationOptions options;
    options.wire = is_float(type) ? WireType::kInt32 : options.wire;
    const bool whole = r % 2 == 0;
    if (!whole) options.rows = &collectors[r];
    id = *rig[r].allreduce(type,
                           engine::segments_of(x.table(), x.ids[r], in, whole ? tables[r].data() : nullptr),
                           rig.now, options);
  }
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r) << r.error().text();
  const Ints sum = x.sum();
  for (std::uint16_t r = 0; r < world; ++r) {
    if (r % 2 == 0) {
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const auto got = is_float(type) ? static_cast<std::int32_t>(std::bit_cast<float>(tables[r][i]))
                                        : static_cast<std::int32_t>(tables[r][i]);
        ASSERT_EQ(got, sum[i]) << "rank " << r << ", element " << i;
      }
      continue;
    }
    SparseSums<std::int32_t> ints;
    SparseSums<float> of_floats;
    is_float(type) ? collectors[r].finish(x.table(), of_floats) : collectors[r].finish(x.table(), ints);
    if (is_float(type)) {
      ints.ids = of_floats.ids;
      ints.values.assign(of_floats.values.begin(), of_floats.values.end());
    }
    ASSERT_EQ(ints.values.size(), ints.ids.size() * x.width);
    Ints again(sum.size());
    for (std::size_t i = 0; i < ints.ids.size(); ++i) {
      const auto row = ints.values.begin() + static_cast<std::ptrdiff_t>(i * x.width);
      ASSERT_TRUE(i == 0 || ints.ids[i - 1] < ints.ids[i]);
      ASSERT_TRUE(std::any_of(row, row + x.width, [](std::int32_t v) { return v != 0; })) << ints.ids[i];
      std::copy(row, row + x.width,
                again.begin() + static_cast<std::ptrdiff_t>(std::size_t{ints.ids[i]} * x.width));
    }
    ASSERT_EQ(again, sum);
  }
}

struct SparseCase {
  const char* name;
  bool sparse;
  double share;
  std::uint16_t elements = 64;
  std::uint32_t window = 16;
  std::uint8_t shards = 1;
  bool lossy = false;
  ElementType type = ElementType::kInt32;
};
class SparseReduce : public testing::TestWithParam<SparseCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, SparseReduce,
    testing::Values(SparseCase{"not_granted", false, 0.05}, SparseCase{"few", true, 0.02},
                    SparseCase{"some", true, 0.3}, SparseCase{"most", true, 0.9}, SparseCase{"none", true, 0},
                    SparseCase{"all", true, 1}, SparseCase{"shards", true, 0.02, 64, 64, 4},
                    SparseCase{"odd_shards", true, 0.02, 64, 64, 3},
                    SparseCase{"large_window", true, 0.02, 48, 256, 1},
                    SparseCase{"lossy", true, 0.05, 64, 64, 1, true},
                    SparseCase{"lossy_shards", true, 0.1, 64, 64, 3, true},
                    SparseCase{"floats", true, 0.05, 64, 64, 1, false, ElementType::kFloat32},
                    SparseCase{"lossy_floats", true, 0.05, 64, 64, 2, true, ElementType::kFloat32}),
    [](const auto& p) { return p.param.name; });

TEST_P(SparseReduce, IsTheDenseSum) {
  const SparseCase& c = GetParam();
  for (const std::uint32_t width : {3U, 16U, 200U}) {
    Rig rig({.world = 3,
             .window = c.window,
             .largest_window = c.window,
             .elements = c.elements,
             .first_chunk = 0xFFFF'FFF0,
             .shards = c.shards,
             .sparse = c.sparse});
    ASSERT_TRUE(rig.run_until_running());
    std::mt19937 random(width);
    if (c.lossy) {
      rig.lose = [&](bool, std::uint16_t, const Header& h) {
        return !is_control(h.type) && random() % 10 == 0;
      };
      rig.delay = [&] { return TimeNs{random() % 20'000}; };
      rig.copies = [&] { return random() % 20 == 0 ? 2U : 1U; };
      rig.box.in_order = false;
    }
    expect_sum(rig, {8'000 / width, width, 3, c.share, width}, c.type);
    const EngineStatistics& s = rig[0].statistics();
    if (c.sparse && c.share <= 0.05 && width >= 16) {
      EXPECT_GT(s.runs, 0U) << width;
    }
    if (!c.sparse || c.share == 1) {
      EXPECT_EQ(s.runs + s.sparse, 0U) << width;
    }
    EXPECT_LE(s.zeros, s.contributions + s.retransmissions);
    if (!c.lossy) {
      EXPECT_EQ(s.retransmissions + s.queries, 0U) << "nothing was lost, and nothing was asked for";
      EXPECT_EQ(s.refused_total(), 0U);
    }
  }
}

// Whatever the order of rows is: after a few chunks all are looked at. Dense ones are left alone.
TEST(SparseRowsOnTheWire, AreFoundSoon) {
  for (const bool dense : {false, true}) {
    Rig rig({.elements = 352, .sparse = true});
    Ints a(352 * 100, dense ? 1 : 0);
    for (std::size_t chunk = 0; chunk < 100; ++chunk) a[352 * chunk + 16 * (chunk * 7 % 22) + 3] = 5;
    Ints b = a;
    const Ints before = a;
    const auto id = *rig[0].allreduce(std::span(a), rig.now);
    (void)rig[1].allreduce(std::span(b), rig.now);
    for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], 2 * before[i]);
    EXPECT_EQ(a, b);
    const std::uint64_t sparse = rig[0].statistics().sparse;
    EXPECT_TRUE(dense ? sparse == 0 : sparse >= 95) << sparse;
  }
}

// A box that says it, or a worker that does not want it.
TEST(SparseEpoch, IsUsedOnlyWhereBothSaySo) {
  for (const bool wants : {false, true}) {
    Box box(JobShape{.sparse = true});
    engine::EngineOptions options = options_of(box.shape, 0);
    options.sparse = wants;
    const auto engine = joined_engine(box, options);
    EXPECT_EQ(engine->membership()->sparse, wants);
    Ints zeros(32 * 16);
    (void)engine->allreduce(std::span(zeros), 0);
    EXPECT_EQ(drain(*engine, 1).size(), wants ? 1U : 16U);
  }
}

}  // namespace
}  // namespace tally::testbed
