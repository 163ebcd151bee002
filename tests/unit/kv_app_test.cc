// What PS-lite's own test programs show, written anew from what they are for: the same results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "kv_system.h"
#include "ps/ps.h"

namespace tally::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Key> spread_keys(std::size_t count, Key offset) {
  std::vector<Key> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = kMaxKey / count * i + offset;
  return keys;
}

// 10,000 keys over the whole range, pushed 50 times with at most ten under way, then pulled: 50 times the values, to the bit.
void push_and_pull(KVWorker<float>& kv, Key offset, int seed) {
  constexpr int kRepeat = 50;
  constexpr std::size_t kKeys = 10'000;
  const std::vector<Key> keys = spread_keys(kKeys, offset);
  std::vector<float> vals(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i)
    vals[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(seed)) % 1000);
  std::vector<int> timestamps;
  for (int i = 0; i < kRepeat; ++i) {
    timestamps.push_back(kv.Push(keys, vals));
    if (i > 10) kv.Wait(timestamps[static_cast<std::size_t>(i - 10)]);
  }
  for (const int timestamp : timestamps) kv.Wait(timestamp);
  std::vector<float> got;
  kv.Wait(kv.Pull(keys, &got));
  ASSERT_EQ(got.size(), kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) ASSERT_EQ(got[i], vals[i] * kRepeat) << "key " << i;
}

TEST(KvApp, PushedFiftyTimesIsFiftyTimesTheValue) {
  System system(3, 2);
  system.serve([](int) { return KVServerDefaultHandle<float>(); });
  system.start();
  system.run([](int rank, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    push_and_pull(kv, static_cast<Key>(rank), rank + 7);
  });
  // N x M connections, and one each to the scheduler.
  EXPECT_EQ(system.worker(0).statistics().connections, 3U);
  EXPECT_EQ(system.server(0).statistics().connections, 4U);
  EXPECT_EQ(system.scheduler().statistics().connections, 5U);
}

TEST(KvApp, TwoCustomersInOneProcess) {
  System system(1, 2);
  system.serve([](int) { return KVServerDefaultHandle<float>(); });
  system.start();
  std::thread other([&] {
    KVWorker<float> kv(system.worker(0), 0, 1);
    push_and_pull(kv, 1, 8);
  });
  KVWorker<float> kv(system.worker(0), 0, 0);
  push_and_pull(kv, 0, 7);
  other.join();
}

// The shape of the benchmark: one large push, one large pull, a handler that only answers, memory of its own used again.
TEST(KvApp, LargeRequestsOfAHandlerThatOnlyAnswers) {
  constexpr std::size_t kKeys = 300'000;
  System system(1, 2);
  system.serve([](int) {
    return [answer = std::make_shared<KVPairs<float>>()](const KVMeta& meta, const KVPairs<float>& data,
                                                         KVServer<float>* server) {
      if (meta.push) return server->Response(meta);
      answer->keys = data.keys;
      answer->vals.resize(data.keys.size());
      server->Response(meta, *answer);
    };
  });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  const std::vector<Key> keys = spread_keys(kKeys, 0);
  const std::vector<float> vals(kKeys, 1.F);
  std::vector<float> got;
  for (int i = 0; i < 2; ++i) {
    kv.Wait(kv.Push(keys, vals));
    kv.Wait(kv.Pull(keys, &got));
  }
  EXPECT_EQ(got, std::vector<float>(kKeys, 0.F));
}

TEST(KvApp, LensSayHowManyValuesAKeyHas) {
  System system(1, 3);
  // Rows as they were pushed last.
  system.serve([](int) {
    return [rows = std::map<Key, std::vector<float>>()](const KVMeta& meta, const KVPairs<float>& data,
                                                        KVServer<float>* server) mutable {
      KVPairs<float> answer;
      std::size_t at = 0;
      for (std::size_t i = 0; i < data.keys.size(); ++i) {
        if (meta.push) {
          const auto length = static_cast<std::size_t>(data.lens[i]);
          rows[data.keys[i]].assign(data.vals.begin() + at, data.vals.begin() + at + length);
          at += length;
        }
        if (meta.pull) {
          answer.keys.push_back(data.keys[i]);
          answer.lens.push_back(static_cast<int>(rows[data.keys[i]].size()));
          for (const float value : rows[data.keys[i]]) answer.vals.push_back(value);
        }
      }
      server->Response(meta, answer);
    };
  });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  const std::vector<Key> keys{1, kMaxKey / 2, kMaxKey - 1, kMaxKey};
  kv.Wait(kv.Push(keys, {1, 2, 3, 4, 5, 6}, {2, 0, 1, 3}));
  std::vector<float> vals;
  std::vector<int> lens;
  kv.Wait(kv.Pull(keys, &vals, &lens));
  EXPECT_THAT(vals, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(lens, ElementsAre(2, 0, 1, 3));
  // PushPull, without copies, into arrays that have room.
  SArray<float> outs(6);
  SArray<int> sizes{2, 0, 1, 3};
  kv.Wait(kv.ZPushPull(SArray<Key>(keys), SArray<float>{6, 5, 4, 3, 2, 1}, &outs, &sizes));
  EXPECT_THAT(std::vector<float>(outs.begin(), outs.end()), ElementsAre(6, 5, 4, 3, 2, 1));
}

TEST(KvApp, CallbackComesBeforeWaitReturnsAndMayIssueTheNext) {
  System system(1, 1);
  system.serve([](int) { return KVServerDefaultHandle<float>(); });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> called = false;
    std::atomic<int> next = -1;
    kv.Wait(kv.Push({1}, {1.F}, {}, 0, [&] {
      next = kv.Push({2}, {1.F});
      EXPECT_THAT(text_of([&] { kv.Wait(next); }), HasSubstr("Wait in a callback"));
      called = true;
    }));
    ASSERT_TRUE(called);
    kv.Wait(next);
  }
  std::vector<float> got;
  kv.Wait(kv.Pull({1, 2}, &got));
  EXPECT_THAT(got, ElementsAre(100, 100));
}

TEST(KvApp, ASlicerOfItsOwnSharesKeysOutAsItLikes) {
  System system(1, 2);
  std::mutex mutex;
  std::vector<std::vector<Key>> seen(2);
  system.serve([&](int rank) {
    return [&, rank](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
      const std::lock_guard lock(mutex);
      seen[static_cast<std::size_t>(rank)].assign(data.keys.begin(), data.keys.end());
      server->Response(meta);
    };
  });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  kv.set_slicer(
      [](const KVPairs<float>& send, const std::vector<Range>& ranges, KVWorker<float>::SlicedKVs* sliced) {
        sliced->resize(ranges.size());
        for (std::size_t i = 0; i < send.keys.size(); ++i) {
          auto& [some, part] = (*sliced)[send.keys[i] % ranges.size()];
          some = true;
          part.keys.push_back(send.keys[i]);
          part.vals.push_back(send.vals[i]);
        }
      });
  kv.Wait(kv.Push({1, 2, 3, 4, 7}, {1, 2, 3, 4, 7}));
  EXPECT_THAT(seen[0], ElementsAre(2, 4));
  EXPECT_THAT(seen[1], ElementsAre(1, 3, 7));
}

// Synchronous: the handler sees one push of all workers, who is in it, and answers all by one answer.
TEST(KvApp, SynchronousPushesAreMerged) {
  System system(3, 1);
  std::atomic<int> calls = 0;
  KVServerDefaultHandle<float> sums;
  system.serve(
      [&](int) {
        return [&](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
          if (meta.push) {
            ++calls;
            EXPECT_EQ(meta.num_merge, 3);
            EXPECT_THAT(meta.contributors, ElementsAre(7U));
          }
          sums(meta, data, server);
        };
      },
      Merge::kSum);
  system.start();
  constexpr int kRounds = 20;
  system.run([](int rank, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    for (int round = 1; round <= kRounds; ++round) {
      // What comes back holds everybody's push of this round, and nobody's of the next.
      std::vector<float> got;
      kv.Wait(kv.PushPull({1, 5}, {static_cast<float>(rank + 1), 1.F}, &got));
      ASSERT_THAT(got, ElementsAre(6.F * static_cast<float>(round), 3.F * static_cast<float>(round)));
    }
  });
  EXPECT_EQ(calls, kRounds);
}

// A handler from before merging: it counts requests, and answers all when the last one is there.
TEST(KvApp, AHandlerThatCountsIsCalledOnceForEachPush) {
  constexpr int kWorkers = 3;
  System system(kWorkers, 1);
  std::vector<KVMeta> waiting;
  std::set<int> senders;
  float store = 0;
  float sum = 0;
  system.serve(
      [&](int) {
        return [&](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
          if (meta.pull) {
            KVPairs<float> answer{data.keys, SArray<float>{store}};
            return server->Response(meta, answer);
          }
          EXPECT_EQ(meta.num_merge, 1);
          senders.insert(meta.sender);
          waiting.push_back(meta);
          sum += data.vals[0];
          if (static_cast<int>(waiting.size()) < kWorkers) return;
          store += sum;
          sum = 0;
          for (const KVMeta& one : waiting) server->Response(one);
          waiting.clear();
        };
      },
      Merge::kCounting);
  system.start();
  system.run([](int rank, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    for (int round = 1; round <= 10; ++round) {
      kv.Wait(kv.Push({42}, {static_cast<float>(rank + 1)}));
      std::vector<float> got;
      kv.Wait(kv.Pull({42}, &got));
      ASSERT_GE(got[0], 6.F * static_cast<float>(round));
    }
  });
  EXPECT_EQ(store, 60);
  EXPECT_THAT(senders, ElementsAre(9, 11, 13));
  EXPECT_TRUE(waiting.empty());
}

TEST(KvApp, OtherTypesOfValues) {
  System system(1, 2);
  system.start();
  std::vector<std::unique_ptr<KVServer<double>>> servers;
  for (int rank = 0; rank < 2; ++rank) {
    servers.push_back(std::make_unique<KVServer<double>>(system.server(rank), 3));
    servers.back()->set_request_handle(KVServerDefaultHandle<double>());
  }
  KVWorker<double> kv(system.worker(0), 3, 0);
  KVWorker<std::int64_t> other(system.worker(0), 3, 1);
  std::vector<double> got;
  kv.Wait(kv.PushPull({0, kMaxKey}, {1e300, -2.5}, &got));
  EXPECT_THAT(got, ElementsAre(1e300, -2.5));
  EXPECT_THAT(text_of([&] { other.Wait(other.Push({1}, {1})); }), HasSubstr("another type"));
}

// Requests may come before the program has made its server: they wait for it.
TEST(KvApp, AServerThatIsMadeLate) {
  System system(2, 1);
  system.start();
  std::unique_ptr<KVServer<float>> server;
  std::atomic<int> issued = 0;
  std::thread late([&] {
    while (issued < 2) std::this_thread::yield();
    server = std::make_unique<KVServer<float>>(system.server(0), 0);
    server->set_request_handle(KVServerDefaultHandle<float>());
  });
  system.run([&](int, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    int last = 0;
    for (int i = 0; i < 10; ++i) last = kv.Push({9}, {1.F});
    ++issued;
    kv.Wait(last);
  });
  late.join();
  KVWorker<float> kv(system.worker(0), 0, 0);
  std::vector<float> got;
  kv.Wait(kv.Pull({9}, &got));
  EXPECT_THAT(got, ElementsAre(20));
}

TEST(KvApp, TheAliasHeaderHasTheNames) {
  static_assert(std::is_same_v<ps::KVWorker<float>, KVWorker<float>>);
  static_assert(ps::kMaxKey == kMaxKey && ps::kScheduler + ps::kServerGroup + ps::kWorkerGroup == 7);
  EXPECT_EQ(ps::Postoffice::IDtoRank(ps::Postoffice::WorkerRankToID(5)), 5);
  EXPECT_EQ(ps::Postoffice::IDtoRank(ps::Postoffice::ServerRankToID(3)), 3);
  const ps::SArray<int> array{1, 3, 5, 7};
  EXPECT_EQ(ps::FindRange(array, 2, 6), ps::Range(1, 3));
}

}  // namespace
}  // namespace tally::kv
