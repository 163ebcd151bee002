// Asynchronous tables with hot keys over whole systems: programs are slow, stop for a while or end, and each push is in the
// rows once, whichever way its keys go by then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kv_table_system.h"

namespace tally::kv {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr int kCallers = 3;

// While worker 2 stops the set changes.
TEST(KvTableCalled, RowsAreTheTotalOfAllPushesWhoeverStopsForAWhileAndWhateverIsHot) {
  for (const std::size_t most_hot : {7U, 40U}) {
    const TableOptions options{.most_hot = most_hot, .every = 16, .age = 5ms, .least = 2};
    Tables tables(kCallers, 2);
    UnevenPushes pushes;
    std::atomic<std::uint64_t> hot_pairs = 0;
    std::atomic<std::uint64_t> cold_pairs = 0;
    tables.system.run([&](int rank, Node&) {
      auto table = tables.table(rank, options);
      pushes.push(*table, rank);
      const std::vector<Key> keys = UnevenPushes::keys();
      std::vector<float> rows(keys.size());
      table->pull(keys, rows);
      EXPECT_EQ(rows, pushes.rows()) << "at worker " << rank;
      const TableStatistics counted = table->statistics();
      EXPECT_GE(counted.rounds, 160U);
      EXPECT_GE(counted.sets, 6U);
      EXPECT_GT(counted.hot_keys, 0U);
      if (rank == 2) {
        EXPECT_GT(counted.late, 0U);
      }
      hot_pairs += counted.hot_pairs;
      cold_pairs += counted.cold_pairs;
      table->close();
      table.reset();
      EXPECT_EQ(tables.rows(rank, keys, options), pushes.rows()) << "after close";
    });
    EXPECT_GT(hot_pairs, 0U);
    EXPECT_GT(cold_pairs, 0U);
  }
}

// Rows of whole numbers only grow where all push ones.
TEST(KvTableCalled, AWorkerReadsWhatItPushedAndRowsDoNotGoBack) {
  Tables tables(kCallers, 2);
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, {.most_hot = 1, .every = 16, .age = 2ms, .least = 1});
    const std::vector<Key> keys{3, kMaxKey - 3};
    std::vector<float> before(2);
    std::vector<float> rows(2);
    for (int round = 1; round <= 50; ++round) {
      table->push(keys, std::vector<float>{1, 1});
      table->pull(keys, rows);
      EXPECT_EQ(rows[0], rows[1]) << "a hot row and a cold one are of the same rounds";
      EXPECT_GE(rows[0], before[0] + 1);
      EXPECT_GE(rows[0], static_cast<float>(round));
      before = rows;
    }
    EXPECT_EQ(table->statistics().hot_keys, 1U);
    table->close();
  });
}

// What each of the tests below pushes: ones to two keys that become hot, and worker 0 to one that does not.
constexpr TableOptions kOptions{.width = 1, .most_hot = 2, .every = 16, .age = 20ms};
const std::vector<Key> kOnes{3, 1000, kMaxKey - 5};
void push_ones(TableCalls& table, int rank) {
  const std::vector<Key> mine(kOnes.begin(), kOnes.end() - (rank == 0 ? 0 : 1));
  table.push(mine, std::vector<float>(mine.size(), 1));
}

TEST(KvTableCalled, AProgramThatDoesNothingHoldsNobodyUp) {
  Tables tables(kCallers, 2);
  std::atomic<int> through = 0;
  tables.system.run([&](int rank, Node&) {
    auto options = kOptions;
    options.least = 2;
    auto table = tables.table(rank, options);
    if (rank != 2) {
      for (int round = 0; round < 60; ++round) push_ones(*table, rank);
      EXPECT_EQ(table->statistics().hot_keys, 2U);
      ++through;
    }
    wait_until([&] { return through == 2; });
    std::vector<float> rows(3);
    table->pull(kOnes, rows);
    EXPECT_EQ(rows, (std::vector<float>{120, 120, 60})) << "at worker " << rank;
    EXPECT_GE(table->statistics().rounds, 60U) << "it took part in them";
    table->close();
  });
}

TEST(KvTableCalled, WhoClosesTakesPartUntilAllDo) {
  Tables tables(2, 2);
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, kOptions);
    for (int round = 0; round < (rank == 0 ? 40 : 10); ++round) push_ones(*table, rank);
    table->close();
    table->close();
    EXPECT_THAT(text_of([&] { table->push({}, {}); }), HasSubstr("table 0 is closed"));
    table.reset();
    EXPECT_EQ(tables.rows(rank, kOnes, kOptions), (std::vector<float>{50, 50, 40}));
  });
}

TEST(KvTableCalled, WrongArgumentsAreThrownAndNoRoundRestsOnThem) {
  Tables tables(2, 1);
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, kOptions);
    std::vector<float> rows(1);
    for (int round = 0; round < 10; ++round) {
      EXPECT_EQ(failure_of([&] {
                  table->push(std::vector<Key>{1, 5, 3}, std::vector<float>(3));
                }).index(),
                2);
      EXPECT_EQ(failure_of([&] { table->push(std::vector<Key>{1}, std::vector<float>{0x1.1p126F}); }).code(),
                ErrorCode::kQuantise);
      EXPECT_THAT(text_of([&] { table->pull(std::vector<Key>{1, 2}, rows); }), HasSubstr("values of room"));
      push_ones(*table, rank);
    }
    table->close();
    table.reset();
    EXPECT_EQ(tables.rows(rank, kOnes, kOptions), (std::vector<float>{20, 20, 10}));
  });
}

TEST(KvTableCalled, OptionsThatDifferAreToldToAll) {
  Tables tables(2, 2);
  tables.system.run([&](int rank, Node&) {
    auto options = kOptions;
    options.age = rank == 0 ? 20ms : 0ms;
    auto table = tables.table(rank, options);
    EXPECT_THAT(text_of([&] { table->push({}, {}); }),
                testing::AllOf(HasSubstr("age 20 at"), HasSubstr("age 0 at")));
  });
}

// --- Losses. All that was committed is at the servers that are left.

// Ten pushes of each; whoever is through waits for the others.
void push_ten(TableCalls& table, int rank, std::atomic<int>& through, int workers) {
  for (int round = 0; round < 10; ++round) push_ones(table, rank);
  ++through;
  wait_until([&] { return through >= workers; });
}
// However it gets to know: it does nothing but read.
std::string why_over(TableCalls& table) {
  std::vector<float> row(1);
  return text_of([&] {
    for (int again = 0; again < 10'000; ++again) {
      table.pull(std::vector<Key>{3}, row);
      std::this_thread::sleep_for(1ms);
    }
  });
}

TEST(KvTableCalled, AWorkerThatIsLostIsNamedToWhoOnlyReadsAndTheHotRowsAreBack) {
  Tables tables(kCallers, 2);
  std::atomic<int> through = 0;
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, kOptions);
    push_ten(*table, rank, through, kCallers);
    EXPECT_EQ(table->statistics().hot_keys, 2U);
    if (++through; rank == 2) {
      wait_until([&] { return through == 2 * kCallers; });
      return tables.system.worker(2).finalize(false);
    }
    const auto named = AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("has left"));
    EXPECT_THAT(why_over(*table), named);
    EXPECT_THAT(text_of([&] { push_ones(*table, rank); }), named) << "and again";
    table->close();  // nothing is left to do
    table.reset();
    auto options = kOptions;
    options.most_hot = 0;
    table = tables.table(rank, options);
    for (int round = 0; round < 10; ++round) push_ones(*table, rank);
    table->close();
    table.reset();
    EXPECT_EQ(tables.rows(rank, kOnes, kOptions), (std::vector<float>{50, 50, 20})) << "without worker 2";
  });
}

TEST(KvTableCalled, AWorkerThatIsLostWhileItsProgramPushesIsNamedToThePushesOfTheOthers) {
  Tables tables(kCallers, 2);
  std::atomic<int> through = 0;
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, kOptions);
    push_ten(*table, rank, through, kCallers);
    if (rank == 2) return tables.system.worker(2).finalize(false);
    EXPECT_THAT(text_of([&] {
                  for (int round = 0; round < 1000; ++round) push_ones(*table, rank);
                }),
                AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("has left"), HasSubstr("is over at worker")));
  });
}

TEST(KvTableCalled, AServerThatIsLostIsNamedWhetherItHasTheClockOrNot) {
  for (const int which : {0, 1}) {
    Tables tables(2, 2);
    std::atomic<int> through = 0;
    tables.system.run([&](int rank, Node&) {
      auto table = tables.table(rank, kOptions);
      for (int round = 0; round < 10; ++round) push_ones(*table, rank);
      if (++through == 2) tables.kill_server(which);
      EXPECT_THAT(text_of([&] {
                    for (int round = 0; round < 1000; ++round) push_ones(*table, rank);
                  }),
                  AnyOf(HasSubstr("server " + std::to_string(which) + " at 127.0.0.1"), HasSubstr("has left"),
                        HasSubstr("is over at worker")));
    });
  }
}

// In the background, and the program's next call is the last one: not a good end.
TEST(KvTableCalled, WhatEndedTheTableIsThrownByCloseIfNothingElseHasThrownIt) {
  Tables tables(2, 2);
  std::atomic<int> through = 0;
  tables.system.run([&](int rank, Node&) {
    const auto table = tables.table(rank, kOptions);
    push_ten(*table, rank, through, 2);
    if (rank == 0) tables.kill_server(0);
    wait_until([&] { return table->statistics().hot_keys == 0; });
    EXPECT_THAT(
        text_of([&] { table->close(); }),
        AnyOf(HasSubstr("server 0 at 127.0.0.1"), HasSubstr("has left"), HasSubstr("is over at worker")));
    table->close();  // it has been said
  });
}

// Of the last round worker 0 has the sums and the other has not.
TEST(KvTableCalled, ABoxThatIsLostIsSaidAndTheRowsWithMostRoundsAreBack) {
  for (const int more : {0, 1, 2}) {
    Tables tables(2, 2);
    std::atomic<int> through = 0;
    std::atomic<int> pushed = 0;
    tables.system.run([&](int rank, Node&) {
      auto table = tables.table(rank, kOptions);
      push_ten(*table, rank, through, 2);
      if (rank == 0) tables.box.break_off_after(more);
      EXPECT_THAT(text_of([&] {
                    for (int round = 0; round < 1000; ++round, ++pushed) push_ones(*table, rank);
                  }),
                  AnyOf(HasSubstr("the box is lost"), HasSubstr("has left"), HasSubstr("is over at worker")));
      ++through;
      wait_until([&] { return through == 4; });
      table.reset();
      const auto rows = tables.rows(rank, kOnes, kOptions);
      EXPECT_EQ(rows[0], rows[1]);
      EXPECT_GE(rows[0], static_cast<float>(20 + pushed)) << "what returned is there";
      EXPECT_LE(rows[0], static_cast<float>(22 + pushed)) << "and of what failed each once at most";
    });
  }
}

TEST(KvTableCalled, WhoEndsItsTableWithoutCloseIsNamedAndNothingIsLost) {
  Tables tables(2, 2);
  std::atomic<int> through = 0;
  tables.system.run([&](int rank, Node&) {
    auto table = tables.table(rank, kOptions);
    push_ten(*table, rank, through, 2);
    if (rank == 1) {
      EXPECT_THAT(why_over(*table), MatchesRegex(".*worker 0.*: its program ended the table.*"));
    }
    table.reset();
    EXPECT_EQ(tables.rows(rank, kOnes, kOptions), (std::vector<float>{20, 20, 10}));
  });
}

}  // namespace
}  // namespace tally::kv
