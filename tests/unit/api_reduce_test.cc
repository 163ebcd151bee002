// Sums: exact, in place, whatever is lost and whoever asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "api_loopback.h"

namespace tally::api_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

float value_of(std::size_t rank, std::size_t i) {
  Rng rng(rank * 1'000'003 + i);
  return static_cast<float>(rng.unit() * 2 - 1);
}

std::vector<float> floats(std::size_t rank, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = value_of(rank, i);
  return out;
}

// docs/protocol.md, 10, for magnitudes up to 1: each rank rounds to a multiple of 2^-s, and the sum
// is rounded to a float.
double bound(std::size_t world, double sum) {
  const int shift = static_cast<int>(std::floor(std::log2(2147483647.0 / static_cast<double>(world))));
  return static_cast<double>(world) * std::ldexp(0.5, -shift) + std::abs(sum) * 0x1p-23;
}

void expect_sums(const std::vector<std::vector<float>>& results) {
  const std::size_t world = results.size();
  for (std::size_t rank = 1; rank < world; ++rank) {
    ASSERT_EQ(results[rank].size(), results[0].size());
    EXPECT_EQ(std::memcmp(results[rank].data(), results[0].data(), results[0].size() * sizeof(float)), 0)
        << "rank " << rank << " has other bits than rank 0";
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    double sum = 0;
    for (std::size_t rank = 0; rank < world; ++rank) sum += static_cast<double>(value_of(rank, i));
    ASSERT_NEAR(static_cast<double>(results[0][i]), sum, bound(world, sum)) << "element " << i;
  }
}

void reduce_floats(const BoxOptions& options) {
  LoopbackBox box(options);
  auto workers = join_all(box, options.workers);
  ASSERT_EQ(workers.size(), options.workers);
  for (const std::size_t n : {1U, 15U, 16U, 64U, 65U, 4'001U}) {
    std::vector<std::vector<float>> values(options.workers);
    on_all(options.workers, [&](std::size_t rank) {
      values[rank] = floats(rank, n);
      const auto sum = workers[rank].allreduce_async(std::span(values[rank])).wait(kPatience);
      ASSERT_TRUE(sum) << sum.error().text();
      EXPECT_EQ(sum->elements, n);
      EXPECT_GE(sum->finished, sum->started);
      EXPECT_FALSE(sum->overflow);
    });
    expect_sums(values);
  }
}

TEST(ApiReduce, FloatsWithinTheBoundAndTheSameBitsEverywhere) { reduce_floats({.workers = 4}); }

TEST(ApiReduce, FloatsWhenThreePercentOfTheFramesAreLost) {
  reduce_floats({.workers = 3, .loss = 0.03, .seed = 7});
}

TEST(ApiReduce, FloatsThroughTwoCores) { reduce_floats({.workers = 2, .cores = 2, .window = 32}); }

TEST(ApiReduce, Int32SumsAreExact) {
  LoopbackBox box({.workers = 4, .loss = 0.01, .seed = 3});
  auto workers = join_all(box, 4);
  ASSERT_EQ(workers.size(), 4U);
  constexpr std::size_t kCount = 5'000;
  on_all(4, [&](std::size_t rank) {
    std::vector<std::int32_t> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      values[i] = static_cast<std::int32_t>(i * 1000 + rank) * (i % 2 == 0 ? 1 : -1);
    const auto sum = workers[rank].allreduce_async(std::span(values)).wait(kPatience);
    ASSERT_TRUE(sum) << sum.error().text();
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(values[i], static_cast<std::int32_t>(i * 4000 + 6) * (i % 2 == 0 ? 1 : -1));
  });
}

TEST(ApiReduce, AListOfSpansIsTheirConcatenation) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<std::vector<float>> all(2);
  on_all(2, [&](std::size_t rank) {
    all[rank] = floats(rank, 300);
    Operation operation = [&] {
      std::vector<std::span<float>> list;  // gone when the operation runs
      const std::span<float> values(all[rank]);
      // The cuts differ between the ranks: only the concatenation counts.
      if (rank == 0) {
        list = {values.subspan(0, 1), values.subspan(1, 0), values.subspan(1, 99), values.subspan(100)};
      } else {
        list = {values.subspan(0, 250), values.subspan(250)};
      }
      return workers[rank].allreduce_async(std::span<const std::span<float>>(list));
    }();
    const auto sum = operation.wait(kPatience);
    ASSERT_TRUE(sum) << sum.error().text();
    EXPECT_EQ(sum->elements, 300U);
    std::vector<std::int32_t> integers{1, 2, 3};
    const std::vector<std::span<std::int32_t>> list{std::span(integers).first(2),
                                                    std::span(integers).last(1)};
    ASSERT_TRUE(
        workers[rank].allreduce_async(std::span<const std::span<std::int32_t>>(list)).wait(kPatience));
    EXPECT_EQ(integers, (std::vector<std::int32_t>{2, 4, 6}));
  });
  expect_sums(all);
}

TEST(ApiReduce, ABarrierWaitsForEveryRank) {
  LoopbackBox box({.workers = 3});
  auto workers = join_all(box, 3);
  ASSERT_EQ(workers.size(), 3U);
  std::atomic<int> arrived = 0;
  on_all(3, [&](std::size_t rank) {
    ++arrived;
    const auto passed = workers[rank].barrier();
    ASSERT_TRUE(passed) << passed.error().text();
    EXPECT_EQ(arrived.load(), 3);
    EXPECT_EQ(passed->elements, 0U);
  });
}

TEST(ApiReduce, ManyInFlightFromSeveralThreads) {
  LoopbackBox box({.workers = 2, .loss = 0.01, .seed = 11, .window = 64});
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  // Every operation has the same size and the same values, so threads need not agree on an order.
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  on_all(2 * kThreads, [&](std::size_t i) {
    Worker& worker = workers[i % 2];
    std::vector<std::vector<std::int32_t>> buffers(kEach, std::vector<std::int32_t>(70, 21));
    std::vector<Operation> operations;
    for (auto& buffer : buffers) operations.push_back(worker.allreduce_async(std::span(buffer)));
    for (const Operation& operation : operations) {
      const auto sum = operation.wait(kPatience);
      ASSERT_TRUE(sum) << sum.error().text();
      EXPECT_TRUE(operation.done());
    }
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<std::int32_t>(70, 42));
    (void)worker.statistics();
  });
  // 70 values are two packets of at most 64.
  EXPECT_EQ(workers[0].statistics().results, 2U * kThreads * kEach);
}

TEST(ApiReduce, CallbacksRunOnTheProgressThreadBeforeTheOperationIsDone) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  on_all(2, [&](std::size_t rank) {
    std::vector<std::int32_t> values(10, 1);
    std::vector<std::int32_t> more(10, 5);
    std::atomic<int> calls = 0;
    std::thread::id thread;
    std::optional<Operation> second;
    Worker& worker = workers[rank];
    const auto first =
        worker.allreduce_async(std::span(values), {.done = [&](const Result<OperationStats>& result) {
                                 EXPECT_TRUE(result);
                                 thread = std::this_thread::get_id();
                                 second = worker.allreduce_async(std::span(more));  // allowed; waiting is not
                                 EXPECT_EQ(second->wait().error().code, ErrorCode::kInvalidArgument);
                                 EXPECT_EQ(worker.barrier().error().code, ErrorCode::kInvalidArgument);
                                 EXPECT_EQ(worker.leave().error().code, ErrorCode::kInvalidArgument);
                                 ++calls;
                               }});
    ASSERT_TRUE(first.wait(kPatience));
    EXPECT_EQ(calls.load(), 1);
    EXPECT_NE(thread, std::this_thread::get_id());
    ASSERT_TRUE(second->wait(kPatience));
    EXPECT_EQ(more, std::vector<std::int32_t>(10, 10));
  });
}

TEST(ApiReduce, AWaitThatTimesOutNamesTheMissingRankAndMayBeRepeated) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<std::int32_t> values{1};
  const Operation operation = workers[0].allreduce_async(std::span(values));
  std::string text;
  ASSERT_TRUE(eventually([&] {
    const auto early = operation.wait(milliseconds(5));
    if (early || early.error().code != ErrorCode::kTimeout) return true;
    text = early.error().what;
    return text.find("waiting for rank 1") != std::string::npos;
  }));
  EXPECT_THAT(text, HasSubstr("the operation is not done after 5 ms and goes on; waiting for rank 1"));
  EXPECT_FALSE(operation.done());
  std::vector<std::int32_t> others{2};
  ASSERT_TRUE(workers[1].allreduce_async(std::span(others)).wait(kPatience));
  ASSERT_TRUE(operation.wait(kPatience));
  EXPECT_EQ(values[0], 3);
}

TEST(ApiReduce, AnOperationsOwnTimeoutFailsTheJobEverywhere) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<std::int32_t> values{1};
  const auto late =
      workers[0].allreduce_async(std::span(values), {.timeout = milliseconds(300)}).wait(kPatience);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(late.error().what, HasSubstr("operation 1 timed out"));
  ASSERT_TRUE(eventually([&] { return workers[1].why_closed().has_value(); }));
  EXPECT_THAT(workers[1].why_closed()->what, HasSubstr("operation 1 timed out"));
}

TEST(ApiReduce, ANaNFailsTheOperationWithItsPlace) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  std::vector<float> values{1, std::nanf(""), 2};
  const auto bad = workers[0].allreduce_async(std::span(values)).wait(kPatience);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kQuantise);
  EXPECT_EQ(workers[0].why_closed()->code, ErrorCode::kQuantise);
}

TEST(ApiReduce, ImpossibleOptionsAreRefusedHereAndHarmNobody) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  std::vector<std::int32_t> values{4};
  const auto negative = workers[0].allreduce_async(std::span(values), {.timeout = milliseconds(-1)});
  EXPECT_TRUE(negative.done());
  EXPECT_EQ(negative.wait().error().code, ErrorCode::kInvalidArgument);
  const auto value = workers[0].allreduce_async(std::span(values), {.priority = Priority::exactly(255)});
  EXPECT_TRUE(value.done());
  EXPECT_EQ(value.wait().error().what, "priority: 255 is not in 0..254");
  const auto of_class = workers[0].barrier_async({.priority = Priority::in_class(4)}).wait();
  EXPECT_EQ(of_class.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(of_class.error().what, "priority: class 4 is not in 0..3");
  WorkerOptions options = box.worker(0);
  options.priority = 255;
  const auto joined = Worker::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().text(), "TALLY_PRIORITY: 255 is not in 0..254");
  ASSERT_TRUE(workers[0].allreduce_async(std::span(values)).wait(kPatience));
  EXPECT_EQ(values[0], 4);
}

TEST(ApiReduce, PriorityIsTheOperationsOrElseTheWorkers) {
  LoopbackBox box({.workers = 1});
  WorkerOptions options = box.worker(0);
  options.priority = 70;  // class 1
  auto worker = Worker::join(options);
  ASSERT_TRUE(worker) << worker.error().text();
  ASSERT_TRUE(worker->barrier());
  EXPECT_EQ(box.priorities(), std::set<unsigned>{127});
  ASSERT_TRUE(worker->barrier_async({Priority::in_class(2)}).wait(kPatience));
  EXPECT_EQ(box.priorities(), (std::set<unsigned>{127, 191}));
  ASSERT_TRUE(worker->barrier_async({Priority::exactly(5)}).wait(kPatience));
  EXPECT_EQ(box.priorities(), (std::set<unsigned>{5, 127, 191}));
}

TEST(ApiReduce, ABoxThatLosesItsStateIsNoticedByNobody) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<std::vector<float>> values{floats(0, 20'000), floats(1, 20'000)};
  std::vector<Operation> operations;
  for (std::size_t rank = 0; rank < 2; ++rank)
    operations.push_back(workers[rank].allreduce_async(std::span(values[rank])));
  ASSERT_TRUE(eventually([&] { return workers[0].statistics().results > 20; }));
  box.run([](sim::SwitchNode& node) { node.restart(); });
  for (const Operation& operation : operations) {
    const auto sum = operation.wait(kPatience);
    ASSERT_TRUE(sum) << sum.error().text();
  }
  expect_sums(values);
  EXPECT_EQ(workers[0].statistics().generations, 1U);
}

TEST(ApiReduce, PollingGivesTheSameSums) {
  LoopbackBox box({.workers = 1});
  WorkerOptions options = box.worker(0);
  options.poll = true;
  auto worker = Worker::join(options);
  ASSERT_TRUE(worker) << worker.error().text();
  std::vector<std::int32_t> values(500, 9);
  ASSERT_TRUE(worker->allreduce_async(std::span(values)).wait(kPatience));
  EXPECT_EQ(values, std::vector<std::int32_t>(500, 9));
}

TEST(ApiReduce, TheMeanOfAllRanks) {
  LoopbackBox box({.workers = 4});
  auto workers = join_all(box, 4);
  ASSERT_EQ(workers.size(), 4U);
  on_all(4, [&](std::size_t rank) {
    std::vector<float> values(200, static_cast<float>(rank + 1));
    const auto mean = workers[rank].allreduce_async(std::span(values), {.mean = true}).wait(kPatience);
    ASSERT_TRUE(mean) << mean.error().text();
    EXPECT_EQ(values, std::vector<float>(200, 2.5F));
    EXPECT_EQ(mean->contributors, 0b1111U);
    EXPECT_FALSE(mean->incomplete);
    std::vector<std::int32_t> integers(3, 1);
    const auto refused = workers[rank].allreduce_async(std::span(integers), {.mean = true}).wait(kPatience);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  });
}

// Rank 1 issues nothing before rank 0 has its sums: these can only be without it. The mean is of those who
// are in it; what comes late gets the same bits.
TEST(ApiReduce, SumsWithoutAStragglerNameWhoIsInThem) {
  LoopbackBox box({.workers = 2, .stragglers = {20 * kMillisecond, 1}});
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<float> mine(70, 3.0F);
  std::vector<std::int32_t> integers(5, 7);
  const auto mean = workers[0].allreduce_async(std::span(mine), {.mean = true}).wait(kPatience);
  ASSERT_TRUE(mean) << mean.error().text();
  const auto sum = workers[0].allreduce_async(std::span(integers)).wait(kPatience);
  ASSERT_TRUE(sum) << sum.error().text();
  EXPECT_EQ(mine, std::vector<float>(70, 3.0F));
  EXPECT_TRUE(mean->incomplete);
  EXPECT_EQ(mean->contributors, 0b01U);
  EXPECT_EQ(mean->incomplete_chunks, 2U);
  EXPECT_EQ(mean->partial, (std::vector<PartialSum>{{0, 70, 0b01}}));
  EXPECT_EQ(integers, std::vector<std::int32_t>(5, 7)) << "the partial sum";
  EXPECT_TRUE(sum->incomplete);

  std::vector<float> late(70, 1e9F);
  std::vector<std::int32_t> late_integers(5, 1);
  const auto late_mean = workers[1].allreduce_async(std::span(late), {.mean = true}).wait(kPatience);
  ASSERT_TRUE(late_mean) << late_mean.error().text();
  EXPECT_EQ(late_mean->partial, mean->partial);
  EXPECT_EQ(late, mine);
  const auto late_sum = workers[1].allreduce_async(std::span(late_integers)).wait(kPatience);
  ASSERT_TRUE(late_sum) << late_sum.error().text();
  EXPECT_EQ(late_integers, integers);
  on_all(2, [&](std::size_t rank) {
    EXPECT_TRUE(workers[rank].barrier());
    EXPECT_TRUE(workers[rank].leave(kPatience));
  });
}

}  // namespace
}  // namespace tally::api_test
