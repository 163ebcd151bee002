// Joining: who is let in, who is not, and what is said to whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "api_loopback.h"

namespace tally::api_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The error of a join that fails for `code`. A short time-out meets a slow machine: it is doubled until the
// error is of that kind.
Error failed_join(WorkerOptions options, ErrorCode code) {
  Error last;
  for (milliseconds timeout{300}; timeout < kPatience; timeout *= 2) {
    options.join_timeout = timeout;
    const auto joined = Worker::join(options);
    if (joined) {
      ADD_FAILURE() << "joined";
      return {};
    }
    last = joined.error();
    if (last.code == code) return last;
  }
  ADD_FAILURE() << last.text();
  return last;
}

TEST(ApiJoin, FourRanksFromFourThreads) {
  LoopbackBox box({.workers = 4});
  auto workers = join_all(box, 4);
  ASSERT_EQ(workers.size(), 4U);
  for (std::uint16_t rank = 0; rank < 4; ++rank) {
    const auto membership = workers[rank].membership();
    ASSERT_TRUE(membership);
    EXPECT_EQ(membership->rank, rank);
    EXPECT_EQ(membership->world, 4);
    EXPECT_EQ(membership->elements, 64);
    EXPECT_EQ(membership->window, 16U);
    EXPECT_EQ(membership->shards, 1U);
    EXPECT_EQ(membership->lease, milliseconds(10'000));
    EXPECT_NE(membership->epoch, 0U);
    EXPECT_EQ(membership->generation, workers[0].membership()->generation);
    EXPECT_FALSE(membership->multicast);
    EXPECT_FALSE(workers[rank].why_closed());
    EXPECT_EQ(workers[rank].statistics().generations, 1U);
  }
}

TEST(ApiJoin, ElementsAreTheSmallestThatAnybodyWishesFor) {
  LoopbackBox box({.workers = 1, .elements = 352});
  WorkerOptions options = box.worker(0);
  options.elements = 32;
  const auto worker = Worker::join(options);
  ASSERT_TRUE(worker) << worker.error().text();
  EXPECT_EQ(worker->membership()->elements, 32);
}

TEST(ApiJoin, WrongTokenIsRefusedInTheBoxesWords) {
  LoopbackBox box;
  WorkerOptions options = box.worker(0);
  options.token = "guess";
  const auto joined = Worker::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kRefused);
  EXPECT_EQ(joined.error().text(), "resnet: the box refused the join: job 'resnet': wrong token");
}

TEST(ApiJoin, WrongWorldIsRefused) {
  LoopbackBox box;
  WorkerOptions options = box.worker(0);
  options.world = 3;
  const auto joined = Worker::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kRefused);
  EXPECT_THAT(joined.error().what, HasSubstr("has 2 workers here, this worker expects 3"));
}

TEST(ApiJoin, UnknownJobIsRefused) {
  LoopbackBox box;
  WorkerOptions options = box.worker(0);
  options.job = "bert";
  const auto joined = Worker::join(options);
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().what, HasSubstr("job 'bert' is not declared on this box"));
}

TEST(ApiJoin, TimeoutNamesTheMissingRanks) {
  LoopbackBox box({.workers = 4});
  const Error error = failed_join(box.worker(1), ErrorCode::kTimeout);
  EXPECT_THAT(error.what, HasSubstr("ranks 0, 2, 3 did not join within"));
}

std::uint64_t instance_of_rank_0(LoopbackBox& box) {
  std::uint64_t instance = 0;
  box.run([&](sim::SwitchNode& node) {
    const auto status = node.membership().status(node.jobs()[0], 0);
    instance = status->ranks[0].joined ? status->ranks[0].instance : 0;
  });
  return instance;
}

// The box keeps the place of one that gave up for 3 s, since it hears nothing of it, and refuses its
// successor until then.
TEST(ApiJoin, ARankThatGaveUpMayComeBack) {
  LoopbackBox box({.lease = 3 * kSecond});  // a longer one would keep it longer
  (void)failed_join(box.worker(0), ErrorCode::kTimeout);
  const std::uint64_t former = instance_of_rank_0(box);
  on_all(2, [&](std::size_t rank) {
    if (rank == 1) {  // only then: with the former one the job would run, and end with its lease
      ASSERT_TRUE(eventually([&] {
        const std::uint64_t present = instance_of_rank_0(box);
        return present != 0 && present != former;
      }));
    }
    Result<Worker> joined = fail(ErrorCode::kRefused, "");
    ASSERT_TRUE(eventually([&] {
      joined = Worker::join(box.worker(static_cast<std::uint16_t>(rank)));
      return joined || joined.error().code != ErrorCode::kRefused;
    }));
    ASSERT_TRUE(joined) << joined.error().text();
    EXPECT_TRUE(joined->barrier());
    EXPECT_TRUE(joined->leave(kPatience));
  });
}

TEST(ApiJoin, NoBoxAtAll) {
  const Error error = failed_join(nowhere(), ErrorCode::kUnreachable);
  EXPECT_THAT(error.what, HasSubstr("the box did not answer within"));
  EXPECT_THAT(error.what, HasSubstr("is tallyd running there, and are TALLY_SWITCH (10.255.0.1) and "
                                    "TALLY_TRANSPORT (loopback:nowhere) right?"));
}

TEST(ApiJoin, APathThatTakesNothingStillTimesOut) {
  LoopbackBox box;
  const Error error = failed_join(box.worker(0, ",full"), ErrorCode::kUnreachable);
  EXPECT_THAT(error.what, HasSubstr("the box did not answer"));
}

TEST(ApiJoin, ABoxThatFallsSilentClosesTheWorker) {
  LoopbackBox box({.workers = 1, .lease = kSecond});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  box.silence();
  ASSERT_TRUE(eventually([&] { return workers[0].why_closed().has_value(); }));
  EXPECT_EQ(workers[0].why_closed()->code, ErrorCode::kUnreachable);
}

TEST(ApiJoin, ManyWorkersInOneProcess) {
  constexpr std::uint16_t kWorld = 16;
  LoopbackBox first({.workers = kWorld, .seed = 1});
  LoopbackBox second({.workers = kWorld, .seed = 2});
  std::vector<std::vector<Worker>> jobs(2);
  on_all(2, [&](std::size_t i) { jobs[i] = join_all(i == 0 ? first : second, kWorld); });
  for (auto& job : jobs) {
    ASSERT_EQ(job.size(), kWorld);
    on_all(kWorld, [&](std::size_t rank) {
      std::vector<std::int32_t> values(100, static_cast<std::int32_t>(rank));
      const auto sum = job[rank].allreduce_async(std::span(values)).wait();
      EXPECT_TRUE(sum) << sum.error().text();
      EXPECT_EQ(values, std::vector<std::int32_t>(100, kWorld * (kWorld - 1) / 2));
    });
  }
}

TEST(ApiJoin, OptionsAreCheckedBeforeAnythingIsOpened) {
  WorkerOptions options = nowhere();
  options.rank = 2;
  options.world = 2;
  EXPECT_EQ(Worker::join(options).error().text(),
            "TALLY_RANK: rank 2 is not below the world of 2 that the options say (TALLY_WORLD); ranks count "
            "from 0");
}

TEST(ApiJoin, ThreadIsNamedAfterItsRank) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  std::array<char, 16> name{};
  const auto done = [&](const Result<OperationStats>&) {
    pthread_getname_np(pthread_self(), name.data(), name.size());
  };
  ASSERT_TRUE(workers[0].barrier_async({.done = done}).wait());
  EXPECT_STREQ(name.data(), "tally-0");
}

}  // namespace
}  // namespace tally::api_test
