// Random requests against a map: what a pull sees is every earlier request of its worker for these keys, in their order, and
// nothing else; in asynchronous and synchronous systems, and while servers and workers are lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "kv_system.h"

#ifndef TALLY_SEED_SHARE
#define TALLY_SEED_SHARE 1
#endif

namespace tally::kv {
namespace {

constexpr int kWorkers = 4;
constexpr int kServers = 3;
constexpr std::size_t kKeys = 400;  // of each worker

// A value that depends on the order of all pushes: at most 2^24, so floats are exact.
float after(float value, float pushed) {
  return static_cast<float>((static_cast<std::uint32_t>(value) * 31U + static_cast<std::uint32_t>(pushed)) %
                            65'521U);
}

System::Handle ordered_rows() {
  return [rows = std::map<Key, float>()](const KVMeta& meta, const KVPairs<float>& data,
                                         KVServer<float>* server) mutable {
    KVPairs<float> answer;
    if (meta.pull) answer = {data.keys, SArray<float>(data.keys.size())};
    for (std::size_t i = 0; i < data.keys.size(); ++i) {
      float& row = rows[data.keys[i]];
      if (meta.push) row = after(row, data.vals[i]);
      if (meta.pull) answer.vals[i] = row;
    }
    server->Response(meta, answer);
  };
}

std::size_t operations(std::size_t usual) {
  const char* const wish = std::getenv("TALLY_KV_OPERATIONS");
  return (wish == nullptr ? usual : std::strtoull(wish, nullptr, 10)) / TALLY_SEED_SHARE;
}

// One worker's random life. Its keys are no other's, all over the range.
class Life {
 public:
  Life(Node& node, int rank, std::uint64_t seed) : kv_(node, 0, 0), random_(seed), rank_(rank) {
    for (std::size_t i = 0; i < kKeys; ++i) model_.emplace(kMaxKey / kKeys * i + static_cast<Key>(rank), 0.F);
  }

  void run(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      issue();
      while (under_way_.size() > 32) settle();
      if (random_() % 64 == 0) {
        while (!under_way_.empty()) settle();
      }
    }
    while (!under_way_.empty()) settle();
  }

  // Keys from here on may fail: their server is lost, at an unknown moment.
  void forgive(Key from, Key to) { forgiven_ = {from, to}; }
  [[nodiscard]] std::size_t failed() const noexcept { return failed_; }

 private:
  struct UnderWay {
    int timestamp = 0;
    std::vector<Key> keys{};
    std::vector<float> expected{};
    std::vector<float> got{};
    bool pull = false;
  };

  void issue() {
    auto& one = under_way_.emplace_back();
    const std::size_t count = 1 + random_() % 12;
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = std::next(model_.begin(), static_cast<std::ptrdiff_t>(random_() % kKeys));
      one.keys.push_back(at->first);
    }
    std::sort(one.keys.begin(), one.keys.end());
    one.keys.erase(std::unique(one.keys.begin(), one.keys.end()), one.keys.end());
    const bool push = random_() % 3 != 0;
    one.pull = !push || random_() % 3 == 0;
    std::vector<float> vals;
    for (const Key key : one.keys) {
      if (push) vals.push_back(static_cast<float>(random_() % 1000));
      if (push) model_[key] = after(model_[key], vals.back());
      one.expected.push_back(model_[key]);
    }
    const int priority = static_cast<int>(random_() % 4);
    if (!one.pull)
      one.timestamp = kv_.Push(one.keys, vals, {}, 0, nullptr, priority);
    else if (push)
      one.timestamp = kv_.PushPull(one.keys, vals, &one.got, nullptr, 0, nullptr, priority);
    else
      one.timestamp = kv_.Pull(one.keys, &one.got, nullptr, 0, nullptr, priority);
  }

  void settle() {
    const UnderWay& one = under_way_.front();
    try {
      kv_.Wait(one.timestamp);
      if (one.pull) {
        ASSERT_EQ(one.got, one.expected) << "worker " << rank_ << ", request " << one.timestamp;
      }
    } catch (const Failure& failure) {
      ++failed_;
      const bool may = std::any_of(one.keys.begin(), one.keys.end(), [this](Key key) {
        return key >= forgiven_.begin() && key < forgiven_.end();
      });
      ASSERT_TRUE(may) << failure.what();
    }
    under_way_.pop_front();
  }

  KVWorker<float> kv_;
  std::mt19937_64 random_;
  int rank_;
  std::map<Key, float> model_{};
  std::deque<UnderWay> under_way_{};
  Range forgiven_{};
  std::size_t failed_ = 0;
};

TEST(KvRandom, AsynchronousRequestsAreAsAMapHasThem) {
  System system(kWorkers, kServers);
  system.serve([](int) { return ordered_rows(); });
  system.start();
  const std::size_t each = operations(100'000) / kWorkers;
  system.run([&](int rank, Node& node) { Life(node, rank, static_cast<std::uint64_t>(rank) + 1).run(each); });
}

TEST(KvRandom, OthersGoOnExactlyWhenAServerAndAWorkerAreLost) {
  System system(kWorkers, kServers);
  system.serve([](int) { return ordered_rows(); });
  system.start();
  const std::size_t each = operations(8'000) / kWorkers;
  std::atomic<int> arrived = 0;
  std::atomic<bool> go = false;
  std::thread blows([&] {
    while (arrived < kWorkers - 1) std::this_thread::yield();
    go = true;
    system.kill_server(2);
  });
  std::atomic<std::size_t> failed = 0;
  system.run([&](int rank, Node& node) {
    Life life(node, rank, static_cast<std::uint64_t>(rank) + 77);
    if (rank == 3) {
      life.run(each / 8);
      return;
    }
    life.run(each / 4);
    life.forgive(node.ranges()[2].begin(), kMaxKey);
    ++arrived;
    while (!go) std::this_thread::yield();
    life.run(each);
    failed += life.failed();
  });
  blows.join();
  EXPECT_GT(failed, 0U);
  system.kill_worker(3);
  system.run([&](int rank, Node& node) {
    KVWorker<float> kv(node, 0, 1);
    std::vector<float> got;
    kv.Wait(kv.Pull({static_cast<Key>(100'000 + rank)}, &got));
    EXPECT_EQ(got, std::vector<float>{0});
  });
}

// Synchronous: every worker pushes its part of a round in another order of keys and with several under way; a round's sum
// holds each worker once, so after each round rows are what the map says.
TEST(KvRandom, SynchronousRoundsHoldEachWorkerOnce) {
  System system(kWorkers, kServers);
  system.serve([](int) { return KVServerDefaultHandle<float>(); }, Merge::kSum);
  system.start();
  constexpr std::size_t kTensors = 24;
  const std::size_t rounds = operations(9'600) / kTensors / kWorkers;
  system.run([&](int rank, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    std::mt19937_64 random(static_cast<std::uint64_t>(rank));
    std::vector<std::vector<float>> outs(kTensors);
    std::vector<std::size_t> order(kTensors);
    for (std::size_t i = 0; i < kTensors; ++i) order[i] = i;
    float sum = 0;
    for (std::size_t round = 1; round <= rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int> timestamps;
      for (const std::size_t tensor : order) {
        const std::vector<Key> keys{tensor, kMaxKey / 2 + tensor};
        timestamps.push_back(
            kv.PushPull(keys, {static_cast<float>(round % 16), static_cast<float>(rank)}, &outs[tensor]));
      }
      for (const int timestamp : timestamps) kv.Wait(timestamp);
      sum += static_cast<float>(round % 16) * kWorkers;
      for (const auto& out : outs)
        ASSERT_EQ(out, (std::vector<float>{sum, 6.F * static_cast<float>(round)})) << "round " << round;
    }
  });
}

}  // namespace
}  // namespace tally::kv
