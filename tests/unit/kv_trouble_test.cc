// Wrong arguments, strangers, and nodes that are lost: each is said, with the index, the range or the rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "kv/row_server.h"
#include "kv_system.h"
#include "tally/unique_fd.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);

template <class Condition>
void wait_until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(KvTrouble, WrongArgumentsAreThrownWithTheirIndex) {
  System system(1, 2);
  system.serve([](int) { return KVServerDefaultHandle<float>(); });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  const auto unsorted = failure_of([&] { kv.Push({1, 5, 3}, {1, 2, 3}); });
  EXPECT_EQ(unsorted.index(), 2);
  EXPECT_THAT(unsorted.what(), AllOf(HasSubstr("key 2 (3)"), HasSubstr("ascending")));
  const auto twice = failure_of([&] { kv.Push({1, 5, 5}, {1, 2, 3}); });
  EXPECT_EQ(twice.index(), 2);
  EXPECT_THAT(twice.what(), HasSubstr("twice"));
  EXPECT_EQ(failure_of([&] { kv.Push({1, 5}, {1, 2, 3}, {1}); }).index(), 1);
  EXPECT_EQ(failure_of([&] { kv.Push({1, 5}, {1, 2, 3}, {1, -2}); }).index(), 1);
  EXPECT_EQ(failure_of([&] { kv.Push({1, 5}, {1, 2, 3}, {4, 1}); }).index(), 0);
  EXPECT_EQ(failure_of([&] { kv.Push({1, 5}, {1, 2, 3}, {1, 1}); }).index(), 1);
  EXPECT_THAT(text_of([&] {
                kv.Push({1, 5}, {1, 2, 3});
              }),
              HasSubstr("3 values are not as many for each of 2 keys"));
  EXPECT_THAT(text_of([&] { kv.Push({1, 5}, {}); }), HasSubstr("no values"));
  EXPECT_THAT(text_of([&] { kv.Push({}, {}); }), HasSubstr("no keys"));
  EXPECT_THAT(text_of([&] { kv.Wait(0); }), HasSubstr("it has made none"));
  const int last = kv.Push({1}, {1});
  kv.Wait(last);
  kv.Wait(last);  // again is fine
  EXPECT_THAT(text_of([&] { kv.Wait(last + 1); }),
              HasSubstr("no request of this KVWorker has timestamp 1; they are 0..0"));
  EXPECT_THAT(text_of([&] { kv.Wait(-1); }), HasSubstr("timestamp -1"));
  std::vector<float> room(3);
  EXPECT_THAT(text_of([&] { kv.Wait(kv.Pull({1, 2}, &room)); }), HasSubstr("room for 3 values, and 2 came"));
  // At the server: an index in what the call gave, though that server saw a part of it.
  const auto wrong = failure_of([&] { kv.Wait(kv.Push({1, 2, kMaxKey}, {1, 1, 2, 2, 3, 3})); });
  EXPECT_EQ(wrong.code(), ErrorCode::kRefused);
  EXPECT_THAT(wrong.what(), HasSubstr("one value for each key"));
  EXPECT_THAT(text_of([&] { KVWorker<float> again(system.worker(0), 0, 0); }),
              HasSubstr("customer 0 already"));
  // Nothing of it hurt anybody.
  std::vector<float> got;
  kv.Wait(kv.Pull({1, 2}, &got));
  EXPECT_EQ(got, (std::vector<float>{1, 0}));
}

TEST(KvTrouble, AServersObjectionHasTheIndexOfTheCall) {
  System system(1, 2);
  system.serve([](int) -> System::Handle {
    return [](const KVMeta&, const KVPairs<float>&, KVServer<float>*) {
      throw Failure(ErrorCode::kInvalidArgument, "not this one", 1);
    };
  });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  // The second key of server 1 is the fourth of the call.
  EXPECT_EQ(failure_of([&] { kv.Wait(kv.Push({kMaxKey - 2, kMaxKey - 1, kMaxKey}, {1, 2, 3})); }).index(), 1);
  EXPECT_EQ(failure_of([&] {
              kv.Wait(kv.Push({1, 2, 3, kMaxKey - 1, kMaxKey}, {1, 2, 3, 4, 5}));
            }).code(),
            ErrorCode::kRefused);
  std::atomic<int> told = -1;
  kv.set_failure_handle([&](int timestamp, const Failure&) { told = timestamp; });
  std::atomic<bool> called = false;
  const int last = kv.Push({1}, {1}, {}, 0, [&] { called = true; });
  EXPECT_THROW(kv.Wait(last), Failure);
  EXPECT_EQ(told, last);
  EXPECT_FALSE(called);
}

TEST(KvTrouble, ALostServerIsNamedWithItsRange) {
  System system(2, 2);
  system.serve([](int server) -> System::Handle {
    if (server == 0) return KVServerDefaultHandle<float>();
    return [](const KVMeta&, const KVPairs<float>&, KVServer<float>*) {};  // never answers
  });
  system.start();
  std::atomic<bool> told = false;
  system.worker(1).on_loss([&](const std::string& text) {
    EXPECT_THAT(text, HasSubstr("server 1 at 127.0.0.1 is lost"));
    told = true;
  });
  KVWorker<float> kv(system.worker(0), 0, 0);
  const int both = kv.Push({1, kMaxKey}, {1, 2});
  EXPECT_FALSE(kv.WaitFor(both, std::chrono::milliseconds(1)));
  system.kill_server(1);
  const auto range = AllOf(HasSubstr("server 1 at 127.0.0.1:"),
                           HasSubstr("keys 9223372036854775807..18446744073709551615"), HasSubstr("is lost"));
  const auto lost = failure_of([&] { kv.Wait(both); });
  EXPECT_EQ(lost.code(), ErrorCode::kUnreachable);
  EXPECT_THAT(lost.what(), range);
  EXPECT_THAT(text_of([&] { kv.Wait(kv.Push({kMaxKey}, {1})); }), range);
  // The keys of the other one are there.
  kv.Wait(kv.Push({1}, {1}));
  std::vector<float> got;
  kv.Wait(kv.Pull({1}, &got));
  EXPECT_EQ(got, std::vector<float>{2});
  wait_until([&] { return told.load(); });
  EXPECT_THAT(text_of([&] { system.worker(0).barrier(0, kServerGroup + kWorkerGroup); }),
              HasSubstr("server 1 is lost"));
}

TEST(KvTrouble, ALostWorkerEndsTheRoundsThatLackIt) {
  System system(3, 1);
  system.serve([](int) { return KVServerDefaultHandle<float>(); }, Merge::kSum);
  system.start();
  KVWorker<float> zero(system.worker(0), 0, 0);
  auto two = std::make_unique<KVWorker<float>>(system.worker(2), 0, 0);
  const int lacks_one = zero.Push({1}, {1});
  (void)two->Push({1}, {1});
  EXPECT_FALSE(zero.WaitFor(lacks_one, std::chrono::milliseconds(1)));
  system.kill_worker(1);
  EXPECT_THAT(text_of([&] { zero.Wait(lacks_one); }), HasSubstr("worker 1 is lost, and had not pushed yet"));
  EXPECT_THAT(text_of([&] { zero.Wait(zero.Push({1}, {1})); }), HasSubstr("worker 1 is lost"));
  std::vector<float> got;
  zero.Wait(zero.Pull({1}, &got));
  EXPECT_EQ(got, std::vector<float>{0});  // of a round that did not come about nothing is left
  EXPECT_THAT(text_of([&] { system.worker(0).barrier(0, kWorkerGroup); }), HasSubstr("worker 1 is lost"));
}

TEST(KvTrouble, AServerThatComesAfterALossKnowsOfIt) {
  System system(2, 1);
  system.start();
  std::atomic<bool> told = false;
  system.server(0).on_loss([&](const std::string&) { told = true; });
  system.kill_worker(1);
  wait_until([&] { return told.load(); });
  KVWorker<float> zero(system.worker(0), 0, 0);
  const int early = zero.Push({1}, {1});  // nobody serves yet
  system.serve([](int) { return KVServerDefaultHandle<float>(); }, Merge::kSum);
  EXPECT_THAT(text_of([&] { zero.Wait(early); }), HasSubstr("worker 1 is lost"));
  EXPECT_THAT(text_of([&] { zero.Wait(zero.Push({1}, {1})); }), HasSubstr("worker 1 is lost"));
}

TEST(KvTrouble, ALostSchedulerIsSaid) {
  auto system = std::make_unique<System>(1, 1);
  system->serve([](int) { return KVServerDefaultHandle<float>(); });
  system->start();
  std::atomic<int> told = 0;
  for (Node* node : {&system->worker(0), &system->server(0)})
    node->on_loss([&](const std::string& text) {
      told += text.find("the scheduler at 127.0.0.1") != std::string::npos;
    });
  system->scheduler().finalize(false);
  wait_until([&] { return told == 2; });
  KVWorker<float> kv(system->worker(0), 0, 0);
  kv.Wait(kv.Push({1}, {1}));  // what needs no scheduler goes on
  EXPECT_THAT(text_of([&] { system->worker(0).barrier(0, kWorkerGroup); }), HasSubstr("is lost"));
  EXPECT_THAT(text_of([&] { system->worker(0).finalize(); }), HasSubstr("is lost"));
  EXPECT_THAT(text_of([&] { system->server(0).finalize(); }), HasSubstr("is lost"));
}

// Two systems that do not agree: nobody waits for long, and each says why.
TEST(KvTrouble, WhoDoesNotFitIsRefused) {
  NodeOptions options{.role = Role::kSchedules, .workers = 1, .servers = 0, .token = "one"};
  options.join_timeout = std::chrono::seconds(30);
  Node scheduler(options);
  options.port = scheduler.port();
  options.role = Role::kWorks;
  NodeOptions other_token = options;
  other_token.token = "two";
  Node stranger(other_token);
  NodeOptions other_number = options;
  other_number.workers = 2;
  Node misled(other_number);
  NodeOptions other_rank = options;
  other_rank.rank = 3;
  Node ambitious(other_rank);
  std::thread schedule([&] { scheduler.start(); });
  EXPECT_THAT(text_of([&] { stranger.start(); }),
              HasSubstr("was not joined: it closed the connection; has it the same token "));
  EXPECT_THAT(text_of([&] { misled.start(); }),
              HasSubstr("it expects 2 workers and 0 servers, and the scheduler 1 and 0"));
  EXPECT_THAT(text_of([&] { ambitious.start(); }), HasSubstr("rank 3 of 1 (DMLC_RANK)"));
  EXPECT_EQ(scheduler.statistics().strangers, 1U);
  Node right(options);
  right.start();
  schedule.join();
  KVWorker<float> kv(right, 0, 0);
  EXPECT_THAT(text_of([&] { kv.Push({1}, {1}); }), HasSubstr("no servers"));
  std::thread end([&] { scheduler.finalize(); });
  right.finalize();
  end.join();
}

TEST(KvTrouble, WhoIsMissingIsSaid) {
  NodeOptions options{.role = Role::kSchedules, .workers = 2, .servers = 1};
  options.join_timeout = std::chrono::seconds(3);
  Node scheduler(options);
  options.port = scheduler.port();
  options.role = Role::kWorks;
  options.join_timeout = kPatience;
  Node worker(options);
  std::thread alone([&] {
    EXPECT_THAT(text_of([&] { worker.start(); }),
                HasSubstr("not everybody came: 1 of 2 workers and 0 of 1 servers are there"));
  });
  EXPECT_THAT(text_of([&] { scheduler.start(); }), HasSubstr("not everybody came"));
  alone.join();
}

// Bytes that are no messages, greetings that are none, more than a greeting has: closed and counted, and nobody notices.
TEST(KvTrouble, StrangersGetNothing) {
  System system(1, 1);
  system.serve([](int) { return KVServerDefaultHandle<float>(); });
  system.start();
  const auto say = [&](std::uint16_t port, const std::vector<unsigned char>& bytes) {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::byte answer[64];
    while (::recv(socket.get(), answer, sizeof answer, 0) > 0) ADD_FAILURE() << "a stranger was answered";
  };
  std::vector<unsigned char> message(64, 0);
  std::memcpy(message.data(), "TKVS\x09", 5);  // a request, before any greeting
  for (const std::uint16_t port : {system.scheduler().port(), system.server(0).port()}) {
    say(port, std::vector<unsigned char>(64, 0x5A));
    say(port, message);
    std::vector<unsigned char> large = message;
    large[4] = 1;
    large[28] = 0x7F;  // two thousand million keys
    say(port, large);
  }
  wait_until([&] {
    return system.server(0).statistics().strangers == 3 && system.scheduler().statistics().strangers == 3;
  });
  EXPECT_EQ(system.server(0).statistics().malformed, 2U);
  KVWorker<float> kv(system.worker(0), 0, 0);
  kv.Wait(kv.Push({1}, {1}));
}

// Pushes of tally-kv --sync that wait for the other worker have what rows leave of --memory, and rows what they leave.
TEST(KvTrouble, PushesThatWaitForOthersAndRowsShareTheMemory) {
  constexpr std::size_t kMemory = 460'000;  // a page of rows has 262,144
  System system(2, 1);
  system.start();
  RowServer server(system.server(0), {.rows = {.most_bytes = kMemory}, .merge = Merge::kSum});
  const auto ascending = [](std::size_t count, Key first) {
    std::vector<Key> keys(count);
    std::iota(keys.begin(), keys.end(), first);
    return keys;
  };
  const auto ones = [](const std::vector<Key>& keys) { return std::vector<float>(keys.size(), 1); };
  const auto push = [&](KVWorker<float>& kv, const std::vector<Key>& keys) {
    return kv.Push(keys, ones(keys));
  };
  system.run([&](int, Node& node) {
    KVWorker<float> kv(node, 0, 0);
    const auto few = ascending(10, 0);
    kv.Wait(push(kv, few));
    for (int again = 0; again < 2; ++again) {
      const int large = push(kv, ascending(20'000, 0));
      EXPECT_THAT(text_of([&] { kv.Wait(large); }),
                  AllOf(HasSubstr("no room for a round: rows have"), HasSubstr("--memory")));
      kv.Wait(push(kv, few));
    }
    std::vector<float> got;
    kv.Wait(kv.Pull({3}, &got));
    EXPECT_EQ(got[0], 6) << "of rounds that failed nothing is there";
  });
  const std::uint64_t before = server.statistics().bytes;
  KVWorker<float> early(system.worker(0), 0, 1);
  KVWorker<float> late(system.worker(1), 0, 1);
  const auto held = ascending(5000, 0);
  const auto fresh = ascending(2000, 1'000'000);
  const int waits = push(early, held);
  wait_until([&] { return server.waiting_bytes() > 110'000; });
  const int rows = push(early, fresh);
  EXPECT_THAT(text_of([&] { late.Wait(push(late, fresh)); }), HasSubstr("no room for more rows"));
  EXPECT_THAT(text_of([&] { early.Wait(rows); }), HasSubstr("no room for more rows"));
  EXPECT_EQ(server.statistics().bytes, before);
  late.Wait(push(late, held));
  early.Wait(waits);
  EXPECT_EQ(server.waiting_bytes(), 0U);
  EXPECT_EQ(server.statistics().rows, held.size()) << "which waited, and had a place for all of them";
}

// A server that does not keep up: calls say so before memory ends, and what was taken arrives.
TEST(KvTrouble, ABoundedQueueIsSaidAndNotWaitedFor) {
  NodeOptions options;
  options.queue_bytes = 1 << 20;
  System system(1, 1, options);
  std::atomic<bool> go = false;
  KVServerDefaultHandle<float> sums;
  system.serve([&](int) {
    return [&](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
      while (!go) std::this_thread::yield();
      sums(meta, data, server);
    };
  });
  system.start();
  KVWorker<float> kv(system.worker(0), 0, 0);
  std::vector<Key> keys(50'000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const SArray<Key> shared_keys(keys);
  const SArray<float> ones(keys.size(), 1.F);
  std::vector<int> taken;
  std::string refused;
  while (refused.empty() && taken.size() < 10'000) {
    try {
      taken.push_back(kv.ZPush(shared_keys, ones));
    } catch (const Failure& failure) {
      refused = failure.what();
    }
  }
  EXPECT_THAT(refused, AllOf(HasSubstr("what waits for server 0 would be more than 1048576 bytes"),
                             HasSubstr("TALLY_KV_QUEUE")));
  go = true;
  for (const int timestamp : taken) kv.Wait(timestamp);
  std::vector<float> got;
  kv.Wait(kv.Pull({0}, &got));
  EXPECT_EQ(got[0], static_cast<float>(taken.size()));
  EXPECT_THAT(text_of([&] { kv.Push(std::vector<Key>{1}, std::vector<float>(1 << 20, 1.F)); }),
              HasSubstr("TALLY_KV_QUEUE"));
}

}  // namespace
}  // namespace tally::kv
