// Tables over whole systems: rows are as a map has them, whatever is hot, and what goes wrong is said and leaves what was
// committed.

#include "tally/kv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
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

#include "kv/table_server.h"
#include "kv/table_worker.h"
#include "kv_system.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// A box of the test: adds what all workers give, in the order of their calls, and answers on a thread of its own, a
// while later and to each by itself. break_off(): it fails from now on.
class TestBox {
 public:
  explicit TestBox(int workers) : calls_(static_cast<std::size_t>(workers)) {
    for (int rank = 0; rank < workers; ++rank) paths_.push_back(std::make_shared<Path>(*this, rank));
    thread_ = std::thread([this] { run(); });
  }
  TestBox(const TestBox&) = delete;
  TestBox& operator=(const TestBox&) = delete;
  ~TestBox() {
    break_off();
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  [[nodiscard]] std::shared_ptr<HotPath> path(int rank) { return paths_[static_cast<std::size_t>(rank)]; }
  void break_off() { break_off_after(0); }
  // `sums` more are answered, the last of them to worker 0 alone.
  void break_off_after(int sums, const std::string& why = "the box is lost") {
    const std::lock_guard lock(mutex_);
    left_ = sums;
    why_ = why;
    changed_.notify_all();
  }
  [[nodiscard]] int sums() const { return sums_; }

 private:
  using Done = std::function<void(std::optional<Failure>)>;
  struct Call {
    std::shared_ptr<HotSums> what;
    Done done;
  };
  class Path final : public HotPath {
   public:
    Path(TestBox& box, int rank) : box_(box), rank_(static_cast<std::size_t>(rank)) {}
    void sum_hot(std::shared_ptr<HotSums> what, Done done) override {
      const std::lock_guard lock(box_.mutex_);
      box_.calls_[rank_].push_back({std::move(what), std::move(done)});
      box_.changed_.notify_all();
    }
    void give_up(const std::string& why) override { box_.break_off_after(0, why); }

   private:
    TestBox& box_;
    std::size_t rank_;
  };

  [[nodiscard]] bool complete() const {
    return std::all_of(calls_.begin(), calls_.end(), [](const auto& calls) { return !calls.empty(); });
  }
  [[nodiscard]] bool any() const {
    return std::any_of(calls_.begin(), calls_.end(), [](const auto& calls) { return !calls.empty(); });
  }
  void run() {
    std::mt19937 random(5);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ended_ || complete() || (left_ == 0 && any()); });
      if (left_ == 0) {
        std::vector<Call> failed;
        for (auto& calls : calls_) {
          failed.insert(failed.end(), calls.begin(), calls.end());
          calls.clear();
        }
        const Failure failure(ErrorCode::kUnreachable, why_);
        lock.unlock();
        for (const Call& call : failed) call.done(failure);
        lock.lock();
        if (ended_) return;
        continue;
      }
      std::vector<Call> round;
      for (auto& calls : calls_) {
        round.push_back(std::move(calls.front()));
        calls.pop_front();
      }
      const bool to_one = left_ > 0 && --left_ == 0;
      lock.unlock();
      add(round);
      ++sums_;
      std::shuffle(round.begin() + (to_one ? 1 : 0), round.end(), random);
      for (std::size_t i = 0; i < round.size(); ++i) {
        if (to_one && i != 0) {
          round[i].done(Failure(ErrorCode::kUnreachable, "the box is lost"));
          continue;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        round[i].done(std::nullopt);
      }
      lock.lock();
    }
  }
  static void add(std::vector<Call>& round) {
    std::vector<std::int32_t> words(round.front().what->words.size());
    std::map<std::uint32_t, std::vector<float>> rows;
    for (const Call& call : round) {
      const HotSums& what = *call.what;
      ASSERT_EQ(what.words.size(), words.size());
      for (std::size_t i = 0; i < words.size(); ++i) words[i] += what.words[i];
      for (std::size_t i = 0; i < what.ids.size(); ++i) {
        ASSERT_LT(what.ids[i], what.table.rows);
        if (i != 0) {
          ASSERT_LT(what.ids[i - 1], what.ids[i]);
        }
        auto& row = rows[what.ids[i]];
        row.resize(what.table.width);
        apply(Rule::kSum, 0, row.data(), what.values.data() + i * what.table.width, what.table.width);
      }
    }
    for (const Call& call : round) {
      call.what->words = words;
      for (const auto& [id, row] : rows) {
        call.what->sums.ids.push_back(id);
        call.what->sums.values.insert(call.what->sums.values.end(), row.begin(), row.end());
      }
    }
  }

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<std::deque<Call>> calls_;
  std::vector<std::shared_ptr<Path>> paths_{};
  int left_ = -1;  // no end
  std::string why_{};
  bool ended_ = false;
  std::atomic<int> sums_ = 0;
  std::thread thread_{};
};

// A system whose servers have tables, and a box.
struct Tables {
  Tables(int workers, int servers, std::size_t memory = 0, const NodeOptions& options = {})
      : system(workers, servers, options), box(workers) {
    for (int rank = 0; rank < servers; ++rank)
      servers_.push_back(std::make_unique<TableServer>(system.server(rank), memory));
    system.start();
  }
  [[nodiscard]] std::unique_ptr<TableWorker> table(int rank, const TableOptions& options) {
    return std::make_unique<TableWorker>(system.worker(rank), options, box.path(rank));
  }
  void kill_server(int rank) {
    system.server(rank).finalize(false);
    servers_[static_cast<std::size_t>(rank)].reset();
    system.forget_server(rank);
  }
  // What is at the servers when nothing is hot.
  [[nodiscard]] std::vector<float> rows(int rank, const std::vector<Key>& keys, TableOptions options) {
    options.most_hot = 0;
    std::vector<float> rows(keys.size() * options.width);
    table(rank, options)->pull(keys, rows);
    return rows;
  }

  System system;
  TestBox box;
  std::vector<std::unique_ptr<TableServer>> servers_;
};

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
    for (const float wrong : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max()}) {
      const auto failure = failure_of([&] { table->push(keys, std::vector<float>{1, 2, 3, wrong}); });
      EXPECT_EQ(failure.code(), ErrorCode::kQuantise);
      EXPECT_EQ(failure.index(), 1);
      EXPECT_THAT(failure.what(), HasSubstr("gradients[3] is " + std::to_string(wrong)));
    }
    const std::vector<float> most{1, 2, 3, 0x1p127F};
    table->push(keys, most);
    std::vector<float> rows(4);
    table->pull(keys, rows);
    EXPECT_EQ(rows, most);
    table->close();
  }
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
  void push(TableWorker& table, int rank) const {
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
        EXPECT_THAT(said, HasSubstr(leaves ? "worker 0 has left table 0: its program ended the table" : ""));
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
                AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("has left")));
    EXPECT_THAT(text_of([&] { losses.push(*table, rank); }),
                AnyOf(HasSubstr("worker 2 is lost"), HasSubstr("has left")));
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
                  HasSubstr("worker 0 has left table 0: its program ended the table"));
    }
    table.reset();
    EXPECT_EQ(losses.tables.rows(rank, losses.keys, Losses::kOptions), (std::vector<float>{20, 20, 10}));
  });
}

}  // namespace
}  // namespace tally::kv
