// Sums of rows of a table, by both faces (docs/sparse.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "api_loopback.h"
#include "tally/tally.h"

namespace tally::api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TableShape kTable{.rows = 1'000, .width = 24};
constexpr std::size_t kWhole = 1'000 * 24;

// Each rank has rows of its own and some that others have, too.
std::vector<std::uint32_t> ids_of(std::size_t rank) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t row = 0; row < kTable.rows; ++row)
    if (row % 97 == 10 * rank || row % 331 == 7) ids.push_back(row);
  return ids;
}
template <class T>
std::vector<T> values_of(std::size_t rank) {
  std::vector<T> values(ids_of(rank).size() * kTable.width);
  std::iota(values.begin(), values.end(), static_cast<T>(1 + 1'000 * rank));
  return values;
}
template <class T>
std::vector<T> sum_of(std::size_t world) {
  std::vector<T> sum(kWhole);
  for (std::size_t rank = 0; rank < world; ++rank) {
    const auto ids = ids_of(rank);
    const auto values = values_of<T>(rank);
    for (std::size_t i = 0; i < values.size(); ++i)
      sum[std::size_t{ids[i / kTable.width]} * kTable.width + i % kTable.width] += values[i];
  }
  return sum;
}
template <class T>
std::vector<T> spread(std::span<const std::uint32_t> ids, std::span<const T> values) {
  std::vector<T> table(kWhole);
  for (std::size_t i = 0; i < values.size(); ++i)
    table[std::size_t{ids[i / kTable.width]} * kTable.width + i % kTable.width] = values[i];
  return table;
}

template <class T>
void expect_both_forms(const BoxOptions& options) {
  LoopbackBox box(options);
  auto workers = join_all(box, options.workers);
  ASSERT_EQ(workers.size(), options.workers);
  const std::vector<T> sum = sum_of<T>(options.workers);
  on_all(options.workers, [&](std::size_t rank) {
    const auto ids = ids_of(rank);
    const auto values = values_of<T>(rank);
    std::vector<T> table(kWhole, T{7});
    SparseSums<T> rows;
    const auto whole =
        workers[rank].allreduce_sparse_async(kTable, SparseRows<T>{ids, values}, std::span(table));
    const auto some = workers[rank].allreduce_sparse_async(kTable, SparseRows<T>{ids, values}, rows);
    ASSERT_TRUE(whole.wait(kPatience)) << whole.wait().error().text();
    const auto done = some.wait(kPatience);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->elements, kWhole);
    EXPECT_EQ(table, sum);
    EXPECT_TRUE(std::is_sorted(rows.ids.begin(), rows.ids.end()));
    EXPECT_LT(rows.ids.size(), kTable.rows / 10);
    EXPECT_EQ(spread<T>(rows.ids, rows.values), sum);
    EXPECT_EQ(values, values_of<T>(rank)) << "the input changed";
  });
}

TEST(ApiSparse, TheTableAndItsRowsAreTheSum) {
  expect_both_forms<std::int32_t>({.workers = 3});
  expect_both_forms<std::int32_t>({.workers = 3, .loss = 0.02, .seed = 4, .cores = 2});
  expect_both_forms<float>({.workers = 2, .loss = 0.01, .seed = 8});
}

// Nobody has anything, or one everything: ranks need not be alike.
TEST(ApiSparse, NoRowsAndAllRows) {
  LoopbackBox box({.workers = 2});
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  on_all(2, [&](std::size_t rank) {
    SparseSums<std::int32_t> none{{1}, {2}};
    ASSERT_TRUE(
        workers[rank].allreduce_sparse_async(kTable, SparseRows<std::int32_t>{}, none).wait(kPatience));
    EXPECT_TRUE(none.ids.empty());
    EXPECT_TRUE(none.values.empty());
    std::vector<std::uint32_t> ids(rank == 0 ? kTable.rows : 0);
    std::iota(ids.begin(), ids.end(), 0U);
    const std::vector<std::int32_t> ones(ids.size() * kTable.width, 1);
    SparseSums<std::int32_t> all;
    ASSERT_TRUE(workers[rank]
                    .allreduce_sparse_async(kTable, SparseRows<std::int32_t>{ids, ones}, all)
                    .wait(kPatience));
    EXPECT_EQ(all.ids.size(), kTable.rows);
    EXPECT_EQ(all.values, std::vector<std::int32_t>(kWhole, 1));
  });
}

TEST(ApiSparse, RowsThatAreNoneAreRefusedAndNothingIsSent) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  const auto why = [&](const std::vector<std::uint32_t>& ids, std::size_t values, std::size_t room) {
    const std::vector<float> of(values);
    std::vector<float> sums(room);
    const auto refused = workers[0]
                             .allreduce_sparse_async(kTable, SparseRows<float>{ids, of}, std::span(sums))
                             .wait(kPatience);
    if (refused) return std::string("taken");
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    return refused.error().what;
  };
  EXPECT_EQ(why({3, 1'000}, 48, kWhole), "allreduce_sparse: ids[1] is 1000, and the table has 1000 rows");
  EXPECT_EQ(why({3, 3}, 48, kWhole),
            "allreduce_sparse: ids[1] is 3 once more: each row is given once, add what belongs together");
  EXPECT_EQ(why({3, 2}, 48, kWhole), "allreduce_sparse: ids[1] is 2, behind 3: ids must increase");
  EXPECT_EQ(why({3}, 23, kWhole), "allreduce_sparse: 1 rows of width 24 have 24 values, not 23");
  EXPECT_EQ(why({3}, 24, kWhole - 1),
            "allreduce_sparse: the table has 1000 x 24 values, and there is room for 23999 sums");
  EXPECT_EQ(workers[0].statistics().contributions, 0U);
  EXPECT_EQ(why({3}, 24, kWhole), "taken");
}

TEST(ApiSparse, InC) {
  LoopbackBox box({.workers = 1});
  tally_worker* const worker = join_in_c(box.worker(0));
  ASSERT_NE(worker, nullptr);
  const std::array<std::uint32_t, 2> ids{5, 900};
  const std::array<float, 4> values{1, 2, 3, 4};
  const tally_sparse_rows rows{1'000, 2, ids.data(), values.data(), 2};
  tally_operation* operation = nullptr;

  std::vector<float> table(2'000, 7.0F);
  ASSERT_EQ(tally_allreduce_sparse_async(worker, TALLY_FLOAT32, &rows, table.data(), nullptr, &operation),
            TALLY_OK);
  ASSERT_EQ(tally_wait(operation, TALLY_FOREVER, nullptr), TALLY_OK) << tally_last_error();
  EXPECT_EQ(table[11], 2.0F);
  EXPECT_EQ(table[1'800], 3.0F);
  EXPECT_EQ(std::accumulate(table.begin(), table.end(), 0.0F), 10.0F);
  tally_sparse_rows sums{};
  EXPECT_EQ(tally_get_sparse_sums(operation, &sums), TALLY_INVALID_ARGUMENT) << "it has the whole table";
  tally_operation_free(operation);

  ASSERT_EQ(tally_allreduce_sparse_async(worker, TALLY_FLOAT32, &rows, nullptr, nullptr, &operation),
            TALLY_OK);
  ASSERT_EQ(tally_wait(operation, TALLY_FOREVER, nullptr), TALLY_OK) << tally_last_error();
  ASSERT_EQ(tally_get_sparse_sums(operation, &sums), TALLY_OK) << tally_last_error();
  EXPECT_EQ(sums.table_rows, 1'000U);
  EXPECT_EQ(sums.width, 2U);
  EXPECT_THAT(std::vector(sums.ids, sums.ids + sums.count), ElementsAre(5, 900));
  const auto* const got = static_cast<const float*>(sums.values);
  EXPECT_THAT(std::vector(got, got + 4), ElementsAre(1, 2, 3, 4));
  tally_operation_free(operation);

  // Freed before it is done: it goes on, and what it collects has a place.
  ASSERT_EQ(tally_allreduce_sparse_async(worker, TALLY_FLOAT32, &rows, nullptr, nullptr, &operation),
            TALLY_OK);
  tally_operation_free(operation);
  EXPECT_EQ(tally_barrier(worker), TALLY_OK);

  const std::array<std::uint32_t, 2> turned{900, 5};
  const tally_sparse_rows wrong{1'000, 2, turned.data(), values.data(), 2};
  ASSERT_EQ(tally_allreduce_sparse_async(worker, TALLY_INT32, &wrong, nullptr, nullptr, &operation),
            TALLY_OK);
  EXPECT_EQ(tally_wait(operation, TALLY_FOREVER, nullptr), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(tally_last_error(), HasSubstr("ids[1] is 5, behind 900: ids must increase"));
  tally_operation_free(operation);
  EXPECT_EQ(tally_allreduce_sparse_async(worker, TALLY_FLOAT16, &rows, nullptr, nullptr, &operation),
            TALLY_INVALID_ARGUMENT);
  EXPECT_EQ(tally_allreduce_sparse_async(worker, TALLY_FLOAT32, nullptr, nullptr, nullptr, &operation),
            TALLY_INVALID_ARGUMENT);
  tally_worker_free(worker);
}

}  // namespace
}  // namespace tally::api_test
