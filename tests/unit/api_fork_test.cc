// fork(): the child must neither disturb the parent's job nor hang on what its threads held.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "api_loopback.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The child of the last test makes threads, which the sanitizer refuses otherwise.
extern "C" const char* __tsan_default_options();  // NOLINT
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

namespace tally::api_test {
namespace {

// Runs body in a child, which must end with its result before patience does. No assertion of gtest works
// there.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  if (!eventually([&] { return waitpid(child, &status, WNOHANG) == child; })) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ADD_FAILURE() << "the child hangs";
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool foreign(const Error& error) {
  return error.code == ErrorCode::kClosed &&
         error.what == "this Worker belongs to process " + std::to_string(getppid()) + "; join in the child";
}

// Everything that a child may try with a copy. 0, or the number of what answered wrongly.
int try_everything(std::optional<Worker>& worker, std::optional<Operation>& pending) {
  if (!pending->done()) return 1;
  const auto waited = pending->wait();
  if (waited || !foreign(waited.error())) return 2;
  std::vector<std::int32_t> values{7};
  bool called = false;
  const Operation operation = worker->allreduce_async(
      std::span(values),
      {.done = [&](const Result<OperationStats>& result) { called = !result && foreign(result.error()); }});
  if (!operation.done() || !called || values[0] != 7) return 3;
  if (const auto late = operation.wait(); late || !foreign(late.error())) return 4;
  if (const auto barrier = worker->barrier(); barrier || !foreign(barrier.error())) return 5;
  if (const auto left = worker->leave(); left || !foreign(left.error())) return 6;
  worker->abort("must not be heard");
  if (worker->membership() || worker->statistics().joins != 0) return 7;
  if (!worker->why_closed() || !foreign(*worker->why_closed())) return 8;
  pending.reset();
  worker.reset();
  return 0;
}

TEST(ApiFork, TheChildsCopiesAnswerClosedAndTheParentGoesOn) {
  LoopbackBox box;
  auto workers = join_all(box, 2);
  ASSERT_EQ(workers.size(), 2U);
  std::optional<Worker> parent(std::move(workers[0]));
  std::vector<std::int32_t> values{1};
  std::optional<Operation> pending = parent->allreduce_async(std::span(values));
  std::thread waiting([&] { EXPECT_TRUE(pending->wait(kPatience)); });
  EXPECT_EQ(in_child([&] { return try_everything(parent, pending); }), 0);
  std::vector<std::int32_t> others{2};
  EXPECT_TRUE(workers[1].allreduce_async(std::span(others)).wait(kPatience));
  waiting.join();
  EXPECT_EQ(values[0], 3);
  EXPECT_FALSE(parent->why_closed());
}

TEST(ApiFork, AMutexThatAThreadHeldDoesNotStopTheChild) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  std::optional<Worker> worker(std::move(workers[0]));
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::vector<std::int32_t> values(16, 1);
      while (!stop) {
        EXPECT_TRUE(worker->allreduce_async(std::span(values)).wait(kPatience));
        (void)worker->statistics();
      }
    });
  }
  std::optional<Operation> pending = worker->barrier_async();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(in_child([&] { return try_everything(worker, pending); }), 0);
  stop = true;
  for (auto& thread : threads) thread.join();
}

TEST(ApiFork, TheChildMayJoinForItself) {
  LoopbackBox box({.workers = 1});
  auto workers = join_all(box, 1);
  ASSERT_EQ(workers.size(), 1U);
  std::optional<Worker> parent(std::move(workers[0]));
  const int code = in_child([&] {
    parent.reset();
    LoopbackBox own({.workers = 1});  // the parent's has no thread here
    auto worker = Worker::join(own.worker(0));
    if (!worker) return 1;
    std::vector<std::int32_t> values{5, 6};
    if (!worker->allreduce_async(std::span(values)).wait(kPatience)) return 2;
    return worker->leave(kPatience) ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(parent->barrier());
}

TEST(ApiForkDeathTest, ACallbackMustNotReturnInAChild) {
  const auto child_returns = [] {
    LoopbackBox box({.workers = 1});
    auto worker = Worker::join(box.worker(0));
    (void)worker
        ->barrier_async({.done =
                             [](const Result<OperationStats>&) {
                               const pid_t child = fork();
                               if (child == 0) return;
                               int status = 0;
                               waitpid(child, &status, 0);
                               _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 17 : 18);
                             }})
        .wait(kPatience);
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(child_returns(), testing::ExitedWithCode(17), "a callback forked, and its child returned");
}

}  // namespace
}  // namespace tally::api_test
