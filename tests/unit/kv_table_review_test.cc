// Tables whose workers are not of one mind, or fail with a sum under way: nobody waits for ever, and nothing is added to
// what it does not belong to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kv/table_server.h"
#include "kv/table_worker.h"
#include "kv_system.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// A box that never answers: its sums lack a worker. It counts them, and says when it is given up.
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
      why = reason;
    }
    for (const auto& done : waiting) done(Failure(ErrorCode::kAborted, reason));
  }

  std::atomic<int> sums = 0;
  std::string why{};  // of the last to give it up

 private:
  std::mutex mutex_{};
  std::deque<std::function<void(std::optional<Failure>)>> waiting_{};
};

struct TwoWorkers {
  TwoWorkers() : system(2, 2) {
    for (int rank = 0; rank < 2; ++rank)
      servers.push_back(std::make_unique<TableServer>(system.server(rank), 0));
    system.start();
  }
  System system;
  std::vector<std::unique_ptr<TableServer>> servers{};
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

// What came behind such a sum would be added to others'.
TEST(KvTableTrouble, ASumThatOthersMayNeverIssueEndsTheWayThroughTheBox) {
  TwoWorkers two;
  two.system.run([&](int rank, Node& node) {
    TableWorker table(node, {.number = 3}, two.box);
    if (rank == 1) {
      while (two.box->sums == 0) std::this_thread::yield();
      return;  // between its rounds
    }
    EXPECT_THAT(text_of([&] { table.push({}, {}); }), HasSubstr("worker 1 has left table 3"));
  });
  EXPECT_THAT(two.box->why, HasSubstr("table 3 is over at worker 0: "));
  EXPECT_EQ(two.box->sums, 1);
}

TEST(KvTableTrouble, ATableThatEndsWithoutASumUnderWayLeavesTheBoxToTheOthers) {
  TwoWorkers two;
  two.system.run([&](int, Node& node) { TableWorker table(node, {}, two.box); });
  EXPECT_EQ(two.box->why, "");
}

// Two that differ in the last digit do so in words.
TEST(KvTableTrouble, RatesThatDifferAreSaidWithAllTheirDigits) {
  const TableDifference said = difference_of({.rate = 1e-7F}, {.rate = 2e-7F});
  EXPECT_EQ(said.one, "rate 1.00000001e-07");
  EXPECT_EQ(said.other, "rate 2.00000002e-07");
}

}  // namespace
}  // namespace tally::kv
