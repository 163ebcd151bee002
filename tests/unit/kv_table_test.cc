// Tables over whole systems: rows are as a map has them, whatever is hot, and what goes wrong is said and leaves what was
// committed.

#include "tally/kv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "kv_table_system.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;

// Keys all over the range; the small numbers come far more often, and which they are moves on slowly.
struct Batch {
  std::vector<Key> keys{};
  std::vector<float> gradients{};
};
Key key_of(std::uint64_t number, std::uint64_t keys) { return kMaxKey / keys * number; }

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t keys, std::size_t width)
      : random_(seed), keys_(keys), width_(width) {}
  [[nodiscard]] Batch batch(std::uint64_t round) {
    std::set<Key> keys;
    const std::size_t lookups = random_() % 24;
    for (std::size_t i = 0; i < lookups; ++i) {
      std::uint64_t number = random_() % keys_;
      for (int again = 0; again < 3; ++again) number = std::min(number, random_() % keys_);
      keys.insert(key_of((number + round / 12) % keys_, keys_));
    }
    Batch batch{{keys.begin(), keys.end()}, {}};
    for (std::size_t i = 0; i < batch.keys.size() * width_; ++i)
      batch.gradients.push_back(static_cast<float>(random_() % 9) - 4);
    return batch;
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t keys_;
  std::size_t width_;
};

// What a table is to be like: everybody's batches, round by round.
class Model {
 public:
  explicit Model(const TableOptions& options) : options_(options) {}
  void add(const Batch& batch) {
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      auto& sum = rows_[batch.keys[i]];
      sum.resize(options_.width);
      for (std::size_t j = 0; j < options_.width; ++j)
        sum[j] +=
            (options_.rule == Rule::kSum ? 1 : -options_.rate) * batch.gradients[i * options_.width + j];
    }
  }
  [[nodiscard]] std::vector<float> rows(const std::vector<Key>& keys) const {
    std::vector<float> out;
    for (const Key key : keys) {
      const auto at = rows_.find(key);
      const auto row = at == rows_.end() ? std::vector<float>(options_.width) : at->second;
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

 private:
  TableOptions options_;
  std::map<Key, std::vector<float>> rows_{};
};

std::vector<Key> all_keys(std::uint64_t keys) {
  std::vector<Key> all;
  for (std::uint64_t number = 0; number < keys; ++number) all.push_back(key_of(number, keys));
  return all;
}

// Every worker reckons for itself what all of them push.
TEST(KvTable, AnAsynchronousTableHasHotKeysOnlyIfItAsksForThem) {
  for (const auto age : {0ms, 5ms}) {
    Tables tables(2, 1);
    tables.system.run([&](int rank, Node&) {
      const auto table = tables.table(rank, {.every = 16, .age = age});
      for (int round = 0; round < 40; ++round) table->push(std::vector<Key>{1, 2}, std::vector<float>{1, 1});
      EXPECT_EQ(table->statistics().hot_keys, age == 0ms ? 2U : 0U);
      table->close();
    });
    EXPECT_EQ(tables.box.sums(), age == 0ms ? 40 : 0);
  }
}

TEST(KvTable, RowsAreAsAMapHasThemWhateverIsHot) {
  constexpr std::uint64_t kKeys = 60;
  constexpr int kWorkers = 3;
  for (const std::size_t most_hot : {0U, 7U, 40U}) {
    const TableOptions options{.width = 3,
                               .rule = most_hot == 7 ? Rule::kSgd : Rule::kSum,
                               .rate = 0.5F,
                               .most_hot = most_hot,
                               .every = 16};
    Tables tables(kWorkers, 2);
    std::atomic<std::uint64_t> hot_pairs = 0;
    tables.system.run([&](int rank, Node&) {
      auto table = tables.table(rank, options);
      Model model(options);
      std::vector<Draws> draws;
      for (std::uint64_t worker = 0; worker < kWorkers; ++worker)
        draws.emplace_back(worker + 1, kKeys, options.width);
      const std::vector<Key> keys = all_keys(kKeys);
      std::vector<float> rows(keys.size() * options.width);
      for (std::uint64_t round = 0; round < 120; ++round) {
        for (int worker = 0; worker < kWorkers; ++worker) {
          const Batch batch = draws[static_cast<std::size_t>(worker)].batch(round);
          model.add(batch);
          if (worker == rank) table->push(batch.keys, batch.gradients);
        }
        table->pull(keys, rows);
        ASSERT_EQ(rows, model.rows(keys)) << "worker " << rank << ", round " << round;
      }
      const TableStatistics counted = table->statistics();
      EXPECT_EQ(counted.rounds, 120U);
      if (most_hot != 0) {
        EXPECT_GE(counted.sets, 6U);
        EXPECT_GT(counted.moves, counted.sets);
        EXPECT_GT(counted.hot_keys, 0U);
      }
      hot_pairs += counted.hot_pairs;
      table->close();
      table.reset();
      EXPECT_EQ(tables.rows(rank, keys, options), model.rows(keys)) << "after close";
    });
    EXPECT_EQ(hot_pairs != 0, most_hot != 0);
    EXPECT_EQ(tables.box.sums(), most_hot != 0 ? 120 : 0);
  }
}

TEST(KvTable, WrongArgumentsAreThrownWithTheirIndexAndHurtNobody) {
  Tables tables(1, 2);
  const auto table = tables.table(0, {.width = 2});
  std::vector<float> rows(4);
  EXPECT_EQ(failure_of([&] { table->push(std::vector<Key>{1, 5, 3}, std::vector<float>(6)); }).index(), 2);
  EXPECT_EQ(failure_of([&] { table->pull(std::vector<Key>{5, 5}, rows); }).index(), 1);
  EXPECT_THAT(text_of([&] {
                table->push(std::vector<Key>{1, 5}, std::vector<float>(3));
              }),
              HasSubstr("2 keys of width 2 have 4 values, not 3"));
  EXPECT_THAT(text_of([&] { table->pull(std::vector<Key>{1}, rows); }), HasSubstr("2 values of room, not 4"));
  const auto refused = [&](const TableOptions& options) {
    return text_of([&] { (void)tables.table(0, options); });
  };
  EXPECT_THAT(refused({.width = 0, .number = 1}), HasSubstr("width from 1 to 4096, not 0"));
  EXPECT_THAT(refused({.width = 4097, .number = 1}), HasSubstr("not 4097"));
  EXPECT_THAT(refused({.every = 15, .number = 1}), HasSubstr("16 rounds or more, not 15"));
  EXPECT_THAT(refused({.number = -1}), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(refused({.most_hot = 2'000'000, .number = 1}), HasSubstr("hot keys, not 2000000"));
  EXPECT_THAT(refused({}), HasSubstr("has a table 0 already"));
  table->push(std::vector<Key>{1, kMaxKey}, std::vector<float>{1, 2, 3, 4});
  table->pull(std::vector<Key>{1, kMaxKey}, rows);
  EXPECT_EQ(rows, (std::vector<float>{1, 2, 3, 4}));
  table->push({}, {});
  table->pull({}, {});
  table->close();
  table->close();
  EXPECT_THAT(text_of([&] { table->push({}, {}); }), HasSubstr("table 0 is closed"));
}

// Not in a row that all read, whichever way it would get there; and who pushed it may go on.
TEST(KvTable, WhatIsNoNumberOrTooLargeIsNotPushedWithABoxOrWithout) {
  using Limits = std::numeric_limits<float>;
  for (const std::size_t most_hot : {std::size_t{0}, std::size_t{8}}) {
    Tables tables(1, 1);
    const auto table = tables.table(0, {.width = 2, .most_hot = most_hot});
    const std::vector<Key> keys{1, 5};
    for (const float wrong : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max(),
                              std::nextafter(0x1p126F, Limits::max())}) {
      const auto failure = failure_of([&] { table->push(keys, std::vector<float>{1, 2, 3, wrong}); });
      EXPECT_EQ(failure.code(), ErrorCode::kQuantise);
      EXPECT_EQ(failure.index(), 1);
      EXPECT_THAT(failure.what(), HasSubstr("gradients[3] is " + std::to_string(wrong)));
    }
    const std::vector<float> most{1, 2, 3, 0x1p126F};  // what a sum through a box has room for
    table->push(keys, most);
    std::vector<float> rows(4);
    table->pull(keys, rows);
    EXPECT_EQ(rows, most);
    table->close();
  }
}

// A queue has no room for a part of it, ever.
TEST(KvTable, APushThatIsTooLargeForAQueueIsThrownAndHurtsNobody) {
  NodeOptions options;
  options.queue_bytes = 1 << 20;
  Tables tables(2, 2, 0, options);
  std::vector<Key> many(1 << 17);
  std::iota(many.begin(), many.end(), kMaxKey - many.size());
  many.front() = 1;
  tables.system.run([&](int rank, Node&) {
    const auto table = tables.table(rank, {.most_hot = 0});
    const auto failure = failure_of([&] { table->push(many, std::vector<float>(many.size(), 1)); });
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("131071 keys of this push are of server 1"),
                                      HasSubstr("more than 1048576 bytes (TALLY_KV_QUEUE)")));
    EXPECT_EQ(failure.index(), 1);
    std::vector<float> row(1);
    table->push(std::span(many).first(1), std::vector<float>{1});
    table->pull(std::span(many).first(1), row);
    EXPECT_EQ(row[0], 2);
    table->close();
  });
}

// Under ThreadSanitizer.
TEST(KvTable, StatisticsAreForAnyThread) {
  Tables tables(2, 1);
  tables.system.run([&](int rank, Node&) {
    const auto table = tables.table(rank, {.most_hot = 8, .every = 16});
    std::atomic<bool> done = false;
    std::thread looks([&] {
      std::uint64_t rounds = 0;
      for (bool last = false; !last;) {
        last = done;
        const TableStatistics now = table->statistics();
        EXPECT_GE(now.rounds, rounds);
        EXPECT_LE(now.hot_keys, 1U);
        rounds = now.rounds;
      }
      EXPECT_EQ(rounds, 100U);
    });
    for (int round = 0; round < 100; ++round) table->push(std::vector<Key>{7}, std::vector<float>{1});
    EXPECT_EQ(table->statistics().hot_keys, 1U);
    table->close();
    done = true;
    looks.join();
  });
}

TEST(KvTable, OptionsThatDifferAreToldToAll) {
  Tables tables(2, 2);
  tables.system.run([&](int rank, Node&) {
    const auto table = tables.table(rank, {.width = rank == 0 ? 2U : 3U});
    EXPECT_THAT(text_of([&] { table->push({}, {}); }),
                AllOf(HasSubstr("width 2 at worker 0"), HasSubstr("width 3 at worker 1")));
    EXPECT_THAT(text_of([&] { table->push({}, {}); }), HasSubstr("width 2 at worker 0")) << "and again";
    table->close();  // nothing is left to do
  });
}

TEST(KvTable, SeveralTablesAreApart) {
  Tables tables(2, 1);
  tables.system.run([&](int rank, Node&) {
    const auto one = tables.table(rank, {.width = 1, .most_hot = 8, .every = 16, .number = 1});
    const auto two = tables.table(
        rank, {.width = 2, .rule = Rule::kSgd, .rate = 1, .most_hot = 8, .every = 16, .number = 2});
    const std::vector<Key> keys{4};
    for (int round = 0; round < 20; ++round) {
      one->push(keys, std::vector<float>{1});
      two->push(keys, std::vector<float>{1, 2});
    }
    std::vector<float> row(1);
    one->pull(keys, row);
    EXPECT_EQ(row, std::vector<float>{40});
    row.resize(2);
    two->pull(keys, row);
    EXPECT_EQ(row, (std::vector<float>{-40, -80}));
    EXPECT_EQ(one->statistics().hot_keys, 1U);
    two->close();
    one->close();
  });
  EXPECT_EQ(tables.servers_[0]->statistics().tables, 2U);
  EXPECT_EQ(tables.servers_[0]->statistics().rounds, 40U);
}

// Both have called the box at the same time, each for another table.
TEST(KvTable, CallsInAnotherOrderAreAnErrorAndNoSum) {
  Tables tables(2, 1);
  tables.system.run([&](int rank, Node&) {
    const auto one = tables.table(rank, {.number = 1});
    const auto two = tables.table(rank, {.number = 2});
    // The other table's push needs no answer for its sum to be under way.
    std::thread first(
        [&] { EXPECT_THAT(text_of([&] { (rank == 0 ? one : two)->push({}, {}); }), HasSubstr("table")); });
    while (tables.box.sums() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::thread second(
        [&] { EXPECT_THAT(text_of([&] { (rank == 0 ? two : one)->push({}, {}); }), HasSubstr("table")); });
    first.join();
    second.join();
  });
}

// At a server that has no room for both pushes.
TEST(KvTable, ARoundThatExceedsTheMemoryOfAServerFailsForAllAndTheNextTableGoesOn) {
  Tables tables(2, 2, 400'000);
  std::vector<Key> many(10'000);
  std::iota(many.begin(), many.end(), 0U);
  tables.system.run([&](int rank, Node&) {
    const std::vector<Key> few{1, 2, kMaxKey};
    auto table = tables.table(rank, {.most_hot = 0});
    table->push(few, std::vector<float>(3, 1));
    EXPECT_THAT(text_of([&] { table->push(many, std::vector<float>(many.size(), 1)); }),
                AllOf(HasSubstr("no room for a round of table 0"), HasSubstr("--memory")));
    table.reset();
    table = tables.table(rank, {.most_hot = 0});
    table->push(few, std::vector<float>(3, 1));
    std::vector<float> rows(3);
    table->pull(few, rows);
    EXPECT_EQ(rows, (std::vector<float>{4, 4, 4}));
    table->close();
  });
}

// --- Losses. Each round adds 1 to two keys for each worker, which are hot, and for worker 0 to one that is not.

struct Losses {
  explicit Losses(int workers) : tables(workers, 2) {}
  static constexpr TableOptions kOptions{.width = 1, .most_hot = 2, .every = 16};
  const std::vector<Key> keys{3, 1000, kMaxKey - 5};
  void push(TableCalls& table, int rank) const {
    const std::vector<Key> mine(keys.begin(), keys.end() - (rank == 0 ? 0 : 1));
    table.push(mine, std::vector<float>(mine.size(), 1));
  }
  Tables tables;
};

// Filled by others of this process. Whoever left without a word would be waited for, and take its rows along.
TEST(KvTable, ARoundAndWhoLeavesWaitForRoomInAQueueThatIsFull) {
  constexpr int kApp = 5;
  NodeOptions options;
  options.queue_bytes = 64 << 20;  // more than sockets take
  for (const bool leaves : {false, true}) {
    Tables tables(2, 1, 0, options);
    std::atomic<bool> full = false;
    tables.system.run([&](int rank, Node& node) {
      auto table = tables.table(rank, Losses::kOptions);
      const std::vector<Key> keys{3, 1000};
      const std::vector<float> ones(2, 1);
      for (int round = 0; round < 10; ++round) table->push(keys, ones);
      EXPECT_EQ(table->statistics().hot_keys, 2U);
      std::string said;
      std::atomic<bool> done = false;
      const auto go_on = [&] {
        try {
          if (leaves && rank == 0) {
            table.reset();
          } else {
            table->push(keys, ones);
          }
        } catch (const Failure& failure) {
          said = failure.what();
        }
        done = true;
      };
      if (rank == 1) {
        while (!full) std::this_thread::yield();
        go_on();
        EXPECT_THAT(said, MatchesRegex(leaves ? ".*worker 0.*: its program ended the table.*" : ""));
      } else {
        // The server reads nothing behind a request for an app that is still to come.
        KVWorker<float> other(node, kApp, 0);
        const int first = other.Push({1}, {1});
        const SArray<float> many((options.queue_bytes - 80) / sizeof(float), 1.F);
        int second = 0;
        while (second == 0) {
          try {
            second = other.ZPush(SArray<Key>{1}, many);
          } catch (const Failure&) {  // the first is still on its way
            std::this_thread::yield();
          }
        }
        full = true;
        std::thread call(go_on);
        for (int i = 0; i < 100 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_FALSE(done) << "it did not wait: " << said;
        KVServer<float> server(tables.system.server(0), kApp);
        server.set_request_handle([](const KVMeta& meta, const KVPairs<float>& /*data*/,
                                     KVServer<float>* of) { of->Response(meta); });
        call.join();
        other.Wait(first);
        other.Wait(second);
        EXPECT_EQ(said, "");
      }
      if (!leaves) table->close();
      table.reset();
      const float sum = leaves ? 20 : 22;
      EXPECT_EQ(tables.rows(rank, keys, Losses::kOptions), (std::vector<float>{sum, sum}));
    });
  }
}

TEST(KvTable, AWorkerThatIsLostIsNamedAndTheHotRowsAreBack) {
  Losses losses(3);
  std::atomic<int> ready = 0;
  losses.tables.system.run([&](int rank, Node&) {
    auto table = losses.tables.table(rank, Losses::kOptions);
    for (int round = 0; round < 10; ++round) losses.push(*table, rank);
    EXPECT_EQ(table->statistics().hot_keys, 2U);
    ++ready;
    while (ready < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (rank == 2) {
      losses.tables.system.worker(2).finalize(false);
      return;
    }
    EXPECT_THAT(text_of([&] { losses.push(*table, rank); }),
                AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("worker 2 has left"),
                      HasSubstr("table 0 is over at worker 2: its program ended the table")));
    EXPECT_THAT(text_of([&] { losses.push(*table, rank); }),
                AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("worker 2 has left"),
                      HasSubstr("table 0 is over at worker 2: its program ended the table")));
    table.reset();
    EXPECT_EQ(losses.tables.rows(rank, losses.keys, Losses::kOptions), (std::vector<float>{30, 30, 10}));
  });
}

TEST(KvTable, AServerThatIsLostIsNamedAndTheOtherHasItsRows) {
  Losses losses(2);
  std::atomic<int> ready = 0;
  losses.tables.system.run([&](int rank, Node&) {
    auto table = losses.tables.table(rank, Losses::kOptions);
    for (int round = 0; round < 10; ++round) losses.push(*table, rank);
    if (++ready == 2) losses.tables.kill_server(1);
    const auto why = AnyOf(HasSubstr("server 1 at 127.0.0.1"), HasSubstr("has left"));
    EXPECT_THAT(text_of([&] {
                  for (int round = 0; round < 1000; ++round) losses.push(*table, rank);
                }),
                why);
    table.reset();
    const auto rows = losses.tables.rows(rank, {3, 1000}, Losses::kOptions);
    EXPECT_GE(rows[0], 20);
    EXPECT_EQ(rows[0], rows[1]);
  });
}

// Of the last round worker 0 has the sums and worker 1 has not: what worker 0 has is right.
TEST(KvTable, ABoxThatIsLostIsSaidAndTheRowsWithMostRoundsAreBack) {
  for (const int more : {0, 1, 2}) {
    Losses losses(2);
    std::atomic<int> ready = 0;
    std::atomic<std::uint64_t> rounds = 0;
    losses.tables.system.run([&](int rank, Node&) {
      auto table = losses.tables.table(rank, Losses::kOptions);
      for (int round = 0; round < 10; ++round) losses.push(*table, rank);
      if (++ready == 2) losses.tables.box.break_off_after(more);
      while (ready < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_THAT(text_of([&] {
                    for (int round = 0; round < 1000; ++round) losses.push(*table, rank);
                  }),
                  AnyOf(HasSubstr("the box is lost"), HasSubstr("has left")));
      std::uint64_t most = rounds;
      while (most < table->statistics().rounds &&
             !rounds.compare_exchange_weak(most, table->statistics().rounds)) {
      }
      table.reset();
      ++ready;
      while (ready < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto rows = losses.tables.rows(rank, losses.keys, Losses::kOptions);
      EXPECT_EQ(rows[0], 2 * static_cast<float>(rounds.load()));
      EXPECT_EQ(rows[1], rows[0]);
      // Servers may have applied a round that was lost in the box.
      EXPECT_GE(rows[2], static_cast<float>(rounds.load()));
      EXPECT_LE(rows[2], static_cast<float>(rounds.load() + 1));
    });
    EXPECT_LE(rounds, 10U + static_cast<unsigned>(more) + 1);
  }
}

TEST(KvTable, WhoEndsItsTableWithoutCloseIsNamedAndNothingIsLost) {
  Losses losses(2);
  losses.tables.system.run([&](int rank, Node&) {
    auto table = losses.tables.table(rank, Losses::kOptions);
    for (int round = 0; round < 10; ++round) losses.push(*table, rank);
    if (rank == 1) {
      EXPECT_THAT(text_of([&] { losses.push(*table, rank); }),
                  MatchesRegex(".*worker 0.*: its program ended the table.*"));
    }
    table.reset();
    EXPECT_EQ(losses.tables.rows(rank, losses.keys, Losses::kOptions), (std::vector<float>{20, 20, 10}));
  });
}

}  // namespace
}  // namespace tally::kv
