// The store in memory does what etcd is known to do; that the two agree is shown beside a real one (tests/process).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_store.h"
#include "fleet_bed.h"

namespace tally::fleet {
namespace {

Reply done(FakeServer& server, const Request& request) {
  auto result = server.apply(request);
  EXPECT_TRUE(result) << result.error().text;
  return result ? *result : Reply{};
}

TEST(FleetStore, RevisionsAreOfTheWholeStore) {
  FakeServer server;
  EXPECT_EQ(done(server, Put{"/a", "1"}).revision, 2);
  EXPECT_EQ(done(server, Put{"/b", "2"}).revision, 3);
  EXPECT_EQ(done(server, Put{"/a", "3"}).revision, 4);
  const Reply all = done(server, Read{{"/", true}});
  ASSERT_EQ(all.pairs.size(), 2U);
  EXPECT_EQ(all.pairs[0], (Pair{"/a", "3", 2, 4, 0}));
  EXPECT_EQ(all.pairs[1], (Pair{"/b", "2", 3, 3, 0}));
  EXPECT_EQ(done(server, Erase{{"/nothing", false}}).revision, 4);
}

TEST(FleetStore, TransactionsAreWholeAndAtOneRevision) {
  FakeServer server;
  const Transaction first{.compare = {{.key = "/seat", .revision = 0}},
                          .then = {Put{"/seat", "a"}, Put{"/other", "b"}},
                          .otherwise = {Read{{"/seat", false}}}};
  EXPECT_TRUE(done(server, first).held);
  EXPECT_EQ(server.revision(), 2);
  const Reply second = done(server, first);
  EXPECT_FALSE(second.held);
  ASSERT_EQ(second.reads.size(), 1U);
  EXPECT_EQ(second.reads[0][0].value, "a");
  EXPECT_EQ(server.revision(), 2);
}

TEST(FleetStore, KeysGoWithTheirLease) {
  FakeServer server;
  const LeaseId lease = done(server, Grant{5 * kSecond}).lease;
  done(server, Put{"/a", "1", lease});
  done(server, Put{"/b", "1"});
  server.advance(4 * kSecond);
  EXPECT_EQ(done(server, KeepAlive{lease}).ttl, 5 * kSecond);
  server.advance(8 * kSecond);
  EXPECT_EQ(server.pairs().size(), 2U);
  server.advance(9 * kSecond);
  EXPECT_EQ(server.pairs().size(), 1U);
  EXPECT_EQ(done(server, KeepAlive{lease}).ttl, 0U);
  EXPECT_EQ(server.apply(Put{"/a", "1", lease}).error().fault, Fault::kNoLease);
}

TEST(FleetStore, WatchHearsEachChangeOnceAlsoAfterSilence) {
  FakeServer server;
  FakeStore store(server, 1);
  const WatchId watch = store.watch("/tally/", 2);
  done(server, Put{"/tally/a", "1"});
  store.advance(kSecond);
  store.faults.unreachable = true;
  done(server, Put{"/elsewhere", "1"});
  done(server, Erase{{"/tally/a", false}});
  store.advance(2 * kSecond);
  std::vector<News> news = store.take();
  ASSERT_EQ(news.size(), 1U);
  store.faults.unreachable = false;
  store.advance(3 * kSecond);
  news = store.take();
  ASSERT_EQ(news.size(), 1U);
  const auto& changes = std::get<Changes>(news[0]);
  EXPECT_EQ(changes.watch, watch);
  ASSERT_EQ(changes.changes.size(), 1U);
  EXPECT_TRUE(changes.changes[0].erased);
}

TEST(FleetStore, WatchOfWhatIsForgottenIsOver) {
  FakeServer server;
  FakeStore store(server, 1);
  for (int i = 0; i < 5; ++i) done(server, Put{"/a", "1"});
  server.compact(5);
  const WatchId watch = store.watch("/", 2);
  store.advance(kSecond);
  const std::vector<News> news = store.take();
  ASSERT_FALSE(news.empty());
  EXPECT_EQ(std::get<WatchOver>(news[0]).watch, watch);
}

TEST(FleetStore, ALostAnswerMayHaveBeenDone) {
  FakeServer server;
  FakeStore store(server, 1);
  store.faults.lose_answer = 1;
  const Ticket ticket = store.ask(Put{"/a", "1"}, kSecond);
  store.advance(2 * kSecond);
  const std::vector<News> news = store.take();
  ASSERT_EQ(news.size(), 1U);
  const auto& answer = std::get<Answer>(news[0]);
  EXPECT_EQ(answer.ticket, ticket);
  ASSERT_FALSE(answer.reply);
  EXPECT_EQ(answer.reply.error().fault, Fault::kUnreachable);
  EXPECT_TRUE(answer.reply.error().perhaps);
  EXPECT_TRUE(server.pairs().contains("/a"));
}

TEST(FleetStore, TooLargeIsRefusedBeforeItIsSent) {
  EXPECT_EQ(objection_to(Put{"/a", std::string(kMostValueBytes, 'x')}), "");
  EXPECT_EQ(objection_to(Put{"/a", std::string(kMostValueBytes + 1, 'x')}),
            "the value of /a has 1048577 bytes, at most 1048576 are allowed");
  const std::string half(kMostValueBytes / 2 + 1, 'x');
  EXPECT_EQ(objection_to(Transaction{.then = {Put{"/a", half}, Put{"/b", half}}}),
            "a transaction has 1048578 bytes of values, at most 1048576 are allowed");
  EXPECT_EQ(objection_to(Read{{std::string(1025, 'k'), false}}),
            "a key has 1025 bytes, at most 1024 are allowed");
  EXPECT_EQ(objection_to(Put{"", "x"}), "a key is empty");
  EXPECT_EQ(objection_to(Grant{kSecond / 2}), "a lease is of whole seconds");
}

}  // namespace
}  // namespace tally::fleet
