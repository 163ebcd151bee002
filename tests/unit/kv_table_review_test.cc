// Tables whose workers are not of one mind, or fail with a sum under way: nobody waits for ever, and nothing is added to
// what it does not belong to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kv/table_server.h"
#include "kv/table_worker.h"
#include "kv_system.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// A box that never answers: its sums lack a worker. It counts them, and says by whom it was given up first.
class SilentBox final : public HotPath {
 public:
  void sum_hot(std::shared_ptr<HotSums> /*what*/, std::function<void(std::optional<Failure>)> done) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
    ++sums;
  }
  void give_up(const std::string& reason) override {
    std::deque<std::function<void(std::optional<Failure>)>> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(waiting_);
      if (why_.empty()) why_ = reason;
    }
    for (const auto& done : waiting) done(Failure(ErrorCode::kAborted, reason));
  }

  [[nodiscard]] std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

  std::atomic<int> sums = 0;

 private:
  mutable std::mutex mutex_{};
  std::string why_{};
  std::deque<std::function<void(std::optional<Failure>)>> waiting_{};
};

// The way of a worker to that box whose sum fails here alone, when it is told to.
class FailingWay final : public HotPath {
 public:
  explicit FailingWay(SilentBox& box) : box_(box) {}
  void sum_hot(std::shared_ptr<HotSums> /*what*/, std::function<void(std::optional<Failure>)> done) override {
    done_ = std::move(done);
    asked = true;
  }
  void give_up(const std::string& reason) override { box_.give_up(reason); }
  void fail() { done_(Failure(ErrorCode::kAborted, "the job began a new generation")); }

  std::atomic<bool> asked = false;

 private:
  SilentBox& box_;
  std::function<void(std::optional<Failure>)> done_{};
};

struct TwoWorkers {
  TwoWorkers() : system(2, 2) {
    for (int rank = 0; rank < 2; ++rank)
      servers.push_back(std::make_unique<TableServer>(system.server(rank), 0));
    system.start();
  }
  System system;
  std::vector<std::unique_ptr<TableServer>> servers{};
  // As a process has it.
  [[nodiscard]] std::shared_ptr<HotPath> way() const { return box->why().empty() ? box : nullptr; }
  const std::shared_ptr<SilentBox> box = std::make_shared<SilentBox>();
};

// Without this the first waits in the box for the second, which goes on.
TEST(KvTableTrouble, AWorkerWithoutABoxAmongSuchWithOneIsToldToAll) {
  TwoWorkers two;
  two.system.run([&](int rank, Node& node) {
    TableWorker table(node, {}, rank == 0 ? two.box : nullptr);
    EXPECT_THAT(text_of([&] { table.push({}, {}); }), AllOf(HasSubstr("a box for hot keys at worker 0"),
                                                            HasSubstr("no box for hot keys at worker 1")));
  });
}

// What came behind a sum that others never issue would be added to theirs. Were only the one given up that has it under way,
// the next tables would not be of one mind about the box.
TEST(KvTableTrouble, ATableThatDoesNotEndByCloseEndsTheWayThroughTheBoxForAllAndTheNextGoesOn) {
  TwoWorkers two;
  two.system.run([&](int rank, Node& node) {
    {
      TableWorker table(node, {.number = 3}, two.box);
      if (rank == 1) {
        while (two.box->sums == 0) std::this_thread::yield();
      } else {
        EXPECT_THAT(text_of([&] { table.push({}, {}); }),
                    AnyOf(HasSubstr("worker 1 has left table 3"), HasSubstr("table 3 is over at worker 1")));
      }
    }  // of worker 1 between two rounds
    TableWorker next(node, {.number = 3}, two.way());
    next.push({}, {});
    next.close();
  });
  EXPECT_THAT(two.box->why(), AnyOf(HasSubstr("table 3 is over at worker 0: "),
                                    HasSubstr("table 3 is over at worker 1: its program ended the table")));
  EXPECT_EQ(two.box->sums, 1);
}

TEST(KvTableTrouble, ATableThatEndsByCloseLeavesTheBoxToTheOthers) {
  TwoWorkers two;
  two.system.run([&](int, Node& node) { TableWorker(node, {}, two.box).close(); });
  EXPECT_EQ(two.box->why(), "");
}

// Rank 0 of a job came back, so that the sum of rank 1 failed; its own, in the new generation, lacks rank 1's, and the servers
// have answered both. Seed 8294 of the simulator's tables waited for ever.
TEST(KvTableTrouble, ASumThatFailedAtOneWorkerEndsAtAllThoughTheServersHaveTheRound) {
  TwoWorkers two;
  const auto failing = std::make_shared<FailingWay>(*two.box);
  std::thread fails([&] {
    const auto has_round = [](const auto& server) { return server->statistics().rounds == 1; };
    while (!failing->asked || two.box->sums == 0 ||
           !std::all_of(two.servers.begin(), two.servers.end(), has_round))
      std::this_thread::yield();
    failing->fail();
  });
  two.system.run([&](int rank, Node& node) {
    TableWorker table(node, {}, rank == 0 ? std::shared_ptr<HotPath>(two.box) : failing);
    EXPECT_THAT(text_of([&] { table.push({}, {}); }), HasSubstr("the job began a new generation"));
  });
  fails.join();
  EXPECT_THAT(two.box->why(), HasSubstr("table 0 is over at worker 1: "));
}

// Two that differ in the last digit do so in words.
TEST(KvTableTrouble, RatesThatDifferAreSaidWithAllTheirDigits) {
  const TableDifference said = difference_of({.rate = 1e-7F}, {.rate = 2e-7F});
  EXPECT_EQ(said.one, "rate 1.00000001e-07");
  EXPECT_EQ(said.other, "rate 2.00000002e-07");
}

}  // namespace
}  // namespace tally::kv
