// Asynchronous tables over whole systems: whoever is slow, stops for a while or is lost, each push is in the rows once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "kv/table_server.h"
#include "kv/table_worker.h"
#include "kv_system.h"

namespace tally::kv {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

struct Late {
  static constexpr int kWorkers = 3;
  static constexpr std::uint64_t kKeys = 40;
  Late() : system(kWorkers, 2) {
    for (int rank = 0; rank < 2; ++rank)
      servers.push_back(std::make_unique<TableServer>(system.server(rank), 0));
    system.start();
  }
  [[nodiscard]] std::unique_ptr<TableWorker> table(int rank, const TableOptions& options) {
    return std::make_unique<TableWorker>(system.worker(rank), options, nullptr);
  }
  System system;
  std::vector<std::unique_ptr<TableServer>> servers{};
};

Key late_key(std::uint64_t number) { return kMaxKey / Late::kKeys * number; }
std::vector<Key> late_keys() {
  std::vector<Key> keys;
  for (std::uint64_t number = 0; number < Late::kKeys; ++number) keys.push_back(late_key(number));
  return keys;
}
void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

// Pushes of random keys, whole numbers; what they add up to is kept.
class Pusher {
 public:
  explicit Pusher(int rank) : random_(static_cast<std::uint64_t>(rank) + 1) {}
  void push(TableWorker& table) {
    std::set<Key> drawn;
    for (std::uint64_t n = random_() % 12; n != 0; --n) drawn.insert(late_key(random_() % Late::kKeys));
    const std::vector<Key> keys(drawn.begin(), drawn.end());
    std::vector<float> gradients;
    for (std::size_t i = 0; i < keys.size(); ++i) gradients.push_back(static_cast<float>(random_() % 9) - 4);
    table.push(keys, gradients);
    for (std::size_t i = 0; i < keys.size(); ++i) sums[keys[i]] += gradients[i];
  }
  std::map<Key, float> sums{};

 private:
  std::mt19937_64 random_;
};

// What every worker's pushes add up to.
class Total {
 public:
  void add(const std::map<Key, float>& sums) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, sum] : sums) rows_[key] += sum;
  }
  [[nodiscard]] std::vector<float> rows() {
    const std::lock_guard lock(mutex_);
    std::vector<float> rows;
    for (const Key key : late_keys()) rows.push_back(rows_[key]);
    return rows;
  }

 private:
  std::mutex mutex_{};
  std::map<Key, float> rows_{};
};

// Worker 2 is slow, and stops until the others have pushed 100 rounds without it; they do not push equally often.
TEST(KvTableLateWorkers, RowsAreTheTotalOfAllPushesWhoeverStopsForAWhile) {
  Late late;
  Total total;
  std::atomic<int> pushed = 0;
  late.system.run([&](int rank, Node&) {
    auto table = late.table(rank, {.age = 20ms, .least = 2});
    Pusher pusher(rank);
    for (int round = 0; round < (rank == 2 ? 40 : 150 + 10 * rank); ++round) {
      if (rank == 2 && round == 20) wait_until([&] { return pushed >= 200; });
      if (rank == 2) std::this_thread::sleep_for(1ms);
      pusher.push(*table);
      if (rank != 2) ++pushed;
    }
    total.add(pusher.sums);
    EXPECT_EQ(table->statistics().rounds, rank == 2 ? 40U : 150U + 10U * static_cast<unsigned>(rank));
    if (rank == 2) {
      EXPECT_GT(table->statistics().late, 0U);
    }
    table->close();
    table.reset();
    const auto again = late.table(rank, {.age = 20ms, .least = 2});
    std::vector<float> rows(Late::kKeys);
    again->pull(late_keys(), rows);
    EXPECT_EQ(rows, total.rows());
    again->close();
  });
}

// Nothing more comes to either server: its own clock ends the round.
TEST(KvTableLateWorkers, ARoundOfOneEndsByItsAge) {
  Late late;
  std::atomic<bool> pushed = false;
  late.system.run([&](int rank, Node&) {
    const auto table = late.table(rank, {.age = 20ms});
    if (rank == 0) {
      table->push(std::vector<Key>{3, kMaxKey - 3}, std::vector<float>{1, 1});
      pushed = true;
    }
    wait_until([&] { return pushed.load(); });
    table->close();
  });
}

// A worker sees its own pushes at once, and rows of whole numbers only grow where all push ones.
TEST(KvTableLateWorkers, AWorkerReadsWhatItPushedAndRowsDoNotGoBack) {
  Late late;
  late.system.run([&](int rank, Node&) {
    const auto table = late.table(rank, {.age = 5ms, .least = 1});
    const std::vector<Key> keys{3, kMaxKey - 3};
    std::vector<float> before(2);
    std::vector<float> rows(2);
    for (int round = 1; round <= 50; ++round) {
      table->push(keys, std::vector<float>{1, 1});
      table->pull(keys, rows);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_GE(rows[i], before[i] + 1);
        EXPECT_GE(rows[i], static_cast<float>(round));
      }
      before = rows;
    }
    table->close();
  });
}

TEST(KvTableLateWorkers, AWorkerThatIsLostOrLeavesEndsNothingForTheOthers) {
  Late late;
  std::atomic<int> ready = 0;
  late.system.run([&](int rank, Node&) {
    const std::vector<Key> keys{3, kMaxKey - 3};
    const std::vector<float> ones{1, 1};
    auto table = late.table(rank, {.age = 20ms});
    for (int round = 0; round < 10; ++round) table->push(keys, ones);
    ++ready;
    wait_until([&] { return ready >= Late::kWorkers; });
    if (rank == 2) return late.system.worker(2).finalize(false);
    if (rank == 1) {
      table.reset();
      EXPECT_THAT(text_of([&] { late.table(1, {.age = 20ms})->push(keys, ones); }),
                  HasSubstr("worker 1 has left table 0, which the others go on with"));
      ++ready;
      return;
    }
    for (int round = 0; round < 10; ++round) table->push(keys, ones);
    std::vector<float> rows(2);
    table->pull(keys, rows);
    EXPECT_EQ(rows, (std::vector<float>{40, 40}));
    wait_until([&] { return ready == Late::kWorkers + 1; });
    table->close();
  });
}

TEST(KvTableLateWorkers, AServerThatIsLostIsNamed) {
  Late late;
  std::atomic<int> ready = 0;
  late.system.run([&](int rank, Node&) {
    auto table = late.table(rank, {.age = 20ms, .least = 2});
    table->push({}, {});
    if (++ready == Late::kWorkers) {
      late.system.server(1).finalize(false);
      late.servers[1].reset();
      late.system.forget_server(1);
    }
    EXPECT_THAT(text_of([&] {
                  for (int round = 0; round < 1000; ++round) table->push({}, {});
                }),
                HasSubstr("server 1 at 127.0.0.1"));
  });
}

TEST(KvTableLateWorkers, OptionsThatDifferOrCannotBeAreSaid) {
  Late late;
  late.system.run([&](int rank, Node&) {
    const auto table = late.table(rank, {.age = rank == 0 ? 20ms : 0ms});
    EXPECT_THAT(text_of([&] { table->push({}, {}); }), AllOf(HasSubstr("age 20 at"), HasSubstr("age 0 at")));
    EXPECT_THAT(text_of([&] { (void)late.table(rank, {.number = 1, .age = 20ms, .least = 4}); }),
                HasSubstr("waits for 1 to 3 workers, or 0 for all, not 4"));
    EXPECT_THAT(text_of([&] { (void)late.table(rank, {.number = 1, .least = 2}); }),
                HasSubstr("that waits for 2 workers needs an age"));
    EXPECT_THAT(text_of([&] { (void)late.table(rank, {.number = 1, .age = 3'600'001ms}); }),
                HasSubstr("age from 0 to 3600000 ms, not 3600001"));
  });
}

}  // namespace
}  // namespace tally::kv
