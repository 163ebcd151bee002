// How a Worker ends, and what the others hear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "api_loopback.h"

namespace tally::api_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string closing_of(const Worker& worker) {
  return eventually([&] { return worker.why_closed().has_value(); }) ? worker.why_closed()->text() : "open";
}

TEST(ApiEnd, AbortReachesTheOthersWithTheReason) {
  LoopbackBox box({.workers = 3});
  auto workers = join_all(box, 3);
  ASSERT_EQ(workers.size(), 3U);
  std::vector<std::int32_t> values{1};
  const Operation pending = workers[1].allreduce_async(std::span(values));
  workers[0].abort("loss is NaN");
  const auto failed = pending.wait(kPatience);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kAborted);
  EXPECT_THAT(failed.error().what, HasSubstr("loss is NaN"));
  EXPECT_THAT(failed.error().what, HasSubstr("rank 0"));
  EXPECT_THAT(closing_of(workers[2]), HasSubstr("loss is NaN"));
  EXPECT_THAT(closing_of(workers[0]), HasSubstr("aborted here: loss is NaN"));
}

// The box loses everything while a rank is replaced, and nobody has anything pending: without an end, the
// next operation of rank 0 would be summed with the first one of the newcomer.
TEST(ApiEnd, AWorkerDoesNotGoOnInAnotherGeneration) {
  LoopbackBox box({.workers = 2});
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  box.run([&](sim::SwitchNode& node) {
    workers.pop_back();  // its goodbye meets the restarted box, which does not know its epoch
    node.restart();
  });
  std::vector<std::int32_t> values{1};
  const auto newcomer = Worker::join(box.worker(1));
  const Operation late = workers[0].allreduce_async(std::span(values));
  EXPECT_FALSE(late.wait(kPatience));
  EXPECT_THAT(closing_of(workers[0]), HasSubstr("new generation"));
  if (newcomer) {
    EXPECT_THAT(closing_of(*newcomer), HasSubstr("new generation"));
  }
}

TEST(ApiEnd, AfterTheEndEveryOperationIsDoneWithTheReason) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  workers[0].abort("enough");
  ASSERT_THAT(closing_of(workers[0]), HasSubstr("enough"));
  std::vector<float> values{1};
  const Operation late = workers[0].allreduce_async(std::span(values));
  EXPECT_TRUE(late.done());
  EXPECT_EQ(late.wait().error().code, ErrorCode::kClosed);
  EXPECT_THAT(late.wait().error().what, HasSubstr("the worker is closed: aborted here: enough"));
  std::atomic<bool> called = false;
  const Operation told = workers[0].barrier_async({.done = [&](const Result<OperationStats>& result) {
    EXPECT_EQ(result.error().code, ErrorCode::kClosed);
    called = true;
  }});
  EXPECT_FALSE(told.wait(kPatience));
  EXPECT_TRUE(called.load());
  EXPECT_FALSE(workers[0].leave());
  EXPECT_EQ(values[0], 1.0F);
}

TEST(ApiEnd, ADestroyedWorkerAbortsTheJob) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::vector<float> values{1};
  const Operation orphan = workers[1].allreduce_async(std::span(values));
  workers.pop_back();
  EXPECT_EQ(orphan.wait().error().code, ErrorCode::kClosed);
  EXPECT_THAT(orphan.wait().error().what, HasSubstr("the Worker was destroyed"));
  EXPECT_THAT(closing_of(workers[0]), HasSubstr("rank 1"));
  EXPECT_THAT(closing_of(workers[0]), HasSubstr("the worker was destroyed"));
}

TEST(ApiEnd, LeavingTogetherIsNoError) {
  LoopbackBox box({.workers = 3, .loss = 0.02, .seed = 5});
  auto workers = join_all(box, 3);
  ASSERT_EQ(workers.size(), 3U);
  on_all(3, [&](std::size_t rank) {
    std::vector<std::int32_t> values(1'000, 1);
    const Operation sum = workers[rank].allreduce_async(std::span(values));
    const auto left = workers[rank].leave(kPatience);  // waits for the operation too
    ASSERT_TRUE(left) << left.error().text();
    EXPECT_TRUE(sum.done());
    EXPECT_EQ(values, std::vector<std::int32_t>(1'000, 3));
    EXPECT_EQ(workers[rank].why_closed()->code, ErrorCode::kClosed);
    EXPECT_TRUE(workers[rank].leave(milliseconds(0)));  // again is fine
  });
  box.run([](sim::SwitchNode& node) {
    const auto status = node.membership().status(node.jobs()[0], 0);
    ASSERT_TRUE(status);
    EXPECT_TRUE(status->phase == members::JobPhase::kEnded || status->phase == members::JobPhase::kDraining)
        << members::name_of(status->phase);
  });
}

TEST(ApiEnd, ALeaveThatOthersHoldUpSaysSo) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  const auto early = workers[0].leave(milliseconds(20));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kTimeout);
  std::vector<float> values{1};
  const auto refused = workers[0].allreduce_async(std::span(values)).wait(kPatience);
  EXPECT_EQ(refused.error().what, "the worker is leaving");
  on_all(2, [&](std::size_t rank) {
    const auto left = workers[rank].leave(kPatience);
    EXPECT_TRUE(left) << left.error().text();
  });
}

TEST(ApiEnd, AWorkerMayBeDestroyedInItsOwnCallback) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  auto worker = std::make_unique<Worker>(std::move(workers[0]));
  std::vector<std::int32_t> later(1, 1);
  std::optional<Operation> pending;
  std::atomic<bool> gone = false;
  const Operation operation = worker->barrier_async({.done = [&](const Result<OperationStats>& result) {
    EXPECT_TRUE(result);
    pending = worker->allreduce_async(std::span(later));
    worker.reset();
    gone = true;
  }});
  ASSERT_TRUE(operation.wait(kPatience));
  EXPECT_TRUE(gone.load());
  EXPECT_EQ(pending->wait(kPatience).error().code, ErrorCode::kClosed);
}

TEST(ApiEnd, AWorkerIsMovable) {
  LoopbackBox first({.workers = 1});
  LoopbackBox second({.workers = 1});
  auto a = Worker::join(first.worker(0));
  auto b = Worker::join(second.worker(0));
  ASSERT_TRUE(a && b);
  *a = std::move(*b);  // the first job is aborted
  EXPECT_TRUE(a->barrier());
  std::string reason;
  EXPECT_TRUE(eventually([&] {
    first.run([&](sim::SwitchNode& node) { reason = node.membership().status(node.jobs()[0], 0)->reason; });
    return reason.find("the worker was destroyed") != std::string::npos;
  })) << reason;
}

TEST(ApiEnd, AnOperationOutlivesItsWorker) {
  LoopbackBox box({.workers = 1});
  std::optional<Operation> operation;
  std::vector<std::int32_t> values(3, 8);
  {
    auto workers = join_all(box, 1);
    ASSERT_EQ(workers.size(), 1U);
    operation = workers[0].allreduce_async(std::span(values));
    ASSERT_TRUE(operation->wait(kPatience));
  }
  const auto again = operation->wait();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->elements, 3U);
}

}  // namespace
}  // namespace tally::api_test
