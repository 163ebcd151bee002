// Asynchronous tables over whole systems: whoever is slow, stops for a while or is lost, each push is in the rows once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "kv_table_system.h"

namespace tally::kv {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

struct Late : Tables {
  static constexpr int kWorkers = 3;
  Late() : Tables(kWorkers, 2) {}
  // Without a box, so that no key is hot.
  [[nodiscard]] std::unique_ptr<TableCalls> table(int rank, const TableOptions& options) {
    return make_table(system.worker(rank), options, nullptr);
  }
};

TEST(KvTableLateWorkers, RowsAreTheTotalOfAllPushesWhoeverStopsForAWhile) {
  Late late;
  UnevenPushes pushes;
  late.system.run([&](int rank, Node&) {
    auto table = late.table(rank, {.age = 20ms, .least = 2});
    const int made = pushes.push(*table, rank);
    EXPECT_EQ(table->statistics().rounds, static_cast<std::uint64_t>(made));
    if (rank == 2) {
      EXPECT_GT(table->statistics().late, 0U);
    }
    table->close();
    table.reset();
    const auto again = late.table(rank, {.age = 20ms, .least = 2});
    std::vector<float> rows(UnevenPushes::keys().size());
    again->pull(UnevenPushes::keys(), rows);
    EXPECT_EQ(rows, pushes.rows());
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

// Server 0 alone has no room. Went the others on at server 1, worker 0's next table would be refused there.
TEST(KvTableLateWorkers, ATableThatFailsAtAServerIsOverForAllAndTheNextGoesOn) {
  Tables tables(2, 2, 400'000);
  std::atomic<bool> failed = false;
  tables.system.run([&](int rank, Node& node) {
    const TableOptions options{.width = 64, .age = 20ms, .least = 1};
    const auto table = [&] { return make_table(node, options, nullptr); };
    const std::vector<Key> few{1, kMaxKey};
    const std::vector<float> ones(2 * options.width, 1);
    auto first = table();
    first->push(few, ones);
    if (rank == 0) {
      std::vector<Key> many(1'000);
      std::iota(many.begin(), many.end(), 0U);
      EXPECT_THAT(text_of([&] { first->push(many, std::vector<float>(many.size() * options.width, 1)); }),
                  HasSubstr("no room for a round of table 0"));
      failed = true;
    } else {
      wait_until([&] { return failed.load(); });
      EXPECT_THAT(text_of([&] { first->push(few, ones); }),
                  AllOf(HasSubstr("worker 0 has left table 0"), HasSubstr("no room")));
    }
    first.reset();
    const auto next = table();
    next->push(few, ones);
    next->close();
  });
  std::vector<float> rows(128);
  make_table(tables.system.worker(0), {.width = 64}, nullptr)->pull(std::vector<Key>{1, kMaxKey}, rows);
  EXPECT_EQ(rows, std::vector<float>(128, 4));
}

TEST(KvTableLateWorkers, AServerThatIsLostIsNamed) {
  Late late;
  std::atomic<int> ready = 0;
  late.system.run([&](int rank, Node&) {
    auto table = late.table(rank, {.age = 20ms, .least = 2});
    table->push({}, {});
    if (++ready == Late::kWorkers) late.kill_server(1);
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
