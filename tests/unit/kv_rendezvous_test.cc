// The scheduler without its sockets: who is told what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kv/rendezvous.h"

namespace tally::kv {
namespace {

using testing::HasSubstr;

Frame registration(int wish, std::uint16_t port, Key workers, Key servers) {
  Frame frame;
  frame.type = FrameType::kRegister;
  frame.data.keys = {static_cast<Key>(wish + 1), port, workers, servers};
  return frame;
}

Frame of_type(FrameType type) {
  Frame frame;
  frame.type = type;
  return frame;
}

Frame barrier(int customer, int groups, bool exit = false) {
  Frame frame = of_type(FrameType::kBarrier);
  frame.customer = customer;
  frame.data.keys = {static_cast<Key>(groups), Key{exit ? 1U : 0U}};
  return frame;
}

// Ids 1 and 2 are workers, 3 and 4 servers; worker 2 and server 4 wish rank 0.
Rendezvous formed() {
  Rendezvous all(2, 2);
  EXPECT_TRUE(all.take(1, Role::kWorks, "10.0.0.1", registration(-1, 0, 2, 2)).empty());
  EXPECT_TRUE(all.take(3, Role::kServes, "10.0.0.3", registration(-1, 1003, 2, 2)).empty());
  EXPECT_TRUE(all.take(2, Role::kWorks, "10.0.0.2", registration(0, 0, 2, 2)).empty());
  EXPECT_THAT(all.missing(), HasSubstr("2 of 2 workers and 1 of 2 servers"));
  const auto servers = all.take(4, Role::kServes, "10.0.0.4", registration(0, 1004, 2, 2));
  EXPECT_EQ(servers.size(), 2U);
  for (const auto& say : servers) {
    EXPECT_EQ(say.frame.type, FrameType::kRoster);
    EXPECT_EQ(say.frame.data.keys[0], say.to == 4 ? 0U : 1U);
  }
  // Workers hear of the servers when these know who will call.
  EXPECT_TRUE(all.take(3, Role::kServes, "", of_type(FrameType::kReady)).empty());
  const auto workers = all.take(4, Role::kServes, "", of_type(FrameType::kReady));
  EXPECT_EQ(workers.size(), 2U);
  for (const auto& say : workers) {
    EXPECT_EQ(say.frame.data.keys[0], say.to == 2 ? 0U : 1U);
    EXPECT_EQ(say.frame.data.keys[1], 1004U);
    EXPECT_EQ(say.frame.data.keys[2], 1003U);
    EXPECT_EQ(say.frame.text, "10.0.0.4\n10.0.0.3\n");
  }
  return all;
}

TEST(KvRendezvous, RanksByWishAndThenByArrival) { EXPECT_TRUE(formed().complete()); }

TEST(KvRendezvous, RefusesWhoIsTooManyOrElsewhere) {
  Rendezvous all = formed();
  const auto late = all.take(5, Role::kWorks, "", registration(-1, 0, 2, 2));
  ASSERT_EQ(late.size(), 1U);
  EXPECT_TRUE(late[0].last);
  EXPECT_THAT(late[0].frame.text, HasSubstr("all 2 workers are there already"));
  Rendezvous young(2, 1);
  EXPECT_TRUE(young.take(1, Role::kWorks, "", registration(1, 0, 2, 1)).empty());
  EXPECT_THAT(young.take(2, Role::kWorks, "", registration(1, 0, 2, 1))[0].frame.text,
              HasSubstr("rank 1 is taken"));
  EXPECT_THAT(young.take(2, Role::kWorks, "", barrier(0, kWorkerGroup))[0].frame.text,
              HasSubstr("not registered"));
  // Who leaves before all are there makes room.
  EXPECT_TRUE(young.lost(1, "").empty());
  EXPECT_TRUE(young.take(2, Role::kWorks, "", registration(1, 0, 2, 1)).empty());
  EXPECT_EQ(young.give_up().size(), 2U);
}

TEST(KvRendezvous, ABarrierIsOfOneCustomerAndItsGroups) {
  Rendezvous all = formed();
  EXPECT_TRUE(all.take(1, Role::kWorks, "", barrier(0, kWorkerGroup)).empty());
  EXPECT_TRUE(all.take(2, Role::kWorks, "", barrier(1, kWorkerGroup)).empty());
  EXPECT_TRUE(all.take(3, Role::kServes, "", barrier(0, kServerGroup)).empty());
  EXPECT_THAT(all.take(3, Role::kServes, "", barrier(0, kWorkerGroup))[0].frame.text,
              HasSubstr("a barrier of others"));
  const auto over = all.take(2, Role::kWorks, "", barrier(0, kWorkerGroup));
  ASSERT_EQ(over.size(), 2U);
  EXPECT_EQ(over[0].frame.type, FrameType::kRelease);
  EXPECT_EQ(over[0].frame.customer, 0);
}

TEST(KvRendezvous, ALossIsToldAndFailsBarriersButNotTheExit) {
  Rendezvous all = formed();
  EXPECT_TRUE(all.take(1, Role::kWorks, "", barrier(0, kWorkerGroup)).empty());
  const auto told = all.lost(2, "reset");
  ASSERT_EQ(told.size(), 5U);  // scheduler, worker, two servers; and the barrier that is over
  EXPECT_THAT(told[0].frame.text, HasSubstr("worker 0 at 10.0.0.2 is lost: reset"));
  EXPECT_EQ(told[4].frame.type, FrameType::kRelease);
  EXPECT_TRUE(told[4].frame.failed);
  EXPECT_THAT(all.take(1, Role::kWorks, "", barrier(7, kWorkerGroup))[0].frame.text,
              HasSubstr("worker 0 is lost"));
  EXPECT_TRUE(all.lost(2, "again").empty());
  // At the exit the others wait for one another.
  EXPECT_TRUE(all.take(1, Role::kWorks, "", barrier(0, 7, true)).empty());
  EXPECT_TRUE(all.lost(1, "closed").empty());  // it had said so: no news
  EXPECT_TRUE(all.take(3, Role::kServes, "", barrier(0, 7, true)).empty());
  EXPECT_TRUE(all.barrier(0, 7, true).empty());
  Rendezvous serving = formed();
  EXPECT_TRUE(serving.take(3, Role::kServes, "", barrier(0, 7, true)).empty());
  EXPECT_EQ(serving.lost(3, "killed").size(), 4U);  // a server that waits there is in use
  const auto over = all.take(4, Role::kServes, "", barrier(0, 7, true));
  EXPECT_EQ(over.size(), 3U);
  for (const auto& say : over) EXPECT_FALSE(say.frame.failed);
}

}  // namespace
}  // namespace tally::kv
