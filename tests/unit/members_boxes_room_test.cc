// Slot memory and quotas of a job at a box that is not its home: as any job of that box has them.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/layout.h"
#include "members/room.h"
#include "members_boxes_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::HasSubstr;

// The other box has room for a pool of 256 chunks, and for nothing beside it.
struct MembersBoxesRoom : testing::Test, Boxes {
  MembersBoxesRoom() : Boxes(2, 2, 2, shared_box(jobs::pool_lines(256, 1, 352), 100)) {
    pool.job = "pool";
    pool.binding.udp_port = 1'234;
    EXPECT_TRUE(form());
  }
  Bench& guest() { return boxes[1]; }
  void run_pool(std::uint8_t priority) {
    members::NativeConfig config = config_of(1, "pool");
    config.priority = priority;
    pool_id = guest().declare(config);
    ASSERT_TRUE(guest().form({&pool}));
    ASSERT_EQ(guest().status(pool_id).window, 256U);
  }

  JobId pool_id{};
  Peer pool{0, 1};
};

TEST_F(MembersBoxesRoom, PoolsOfLowerPriorityGiveForIt) {
  run_pool(10);
  Member& server = all[2];
  enlist(server, 1);
  const auto asked_to_give = bring_pages(server, 1);
  EXPECT_TRUE(pool.believes(only(asked_to_give, PacketType::kReject, pool)));
  EXPECT_EQ(row(1), nullptr);
  const Sent waits = only(enlist(server, 1), PacketType::kJoined, server);
  EXPECT_EQ(waits.status(), JoinStatus::kForming);
  EXPECT_EQ(waits.joined().missing.host(), 0U);
  const auto sent = guest().send(pool, pool.join());
  EXPECT_TRUE(server.take_box(1, sent));
  EXPECT_EQ(guest().status(pool_id).window, 128U);
  EXPECT_EQ(guest().status(pool_id).shrunk_for, "resnet");
  ASSERT_NE(row(1), nullptr);
  EXPECT_EQ(row(1)->slots.count, members::own_lines(Discipline::kShared, 256, 512, 1, 352));
  EXPECT_TRUE(enlist_all(1));
  // What it held comes back to the pool when the job is forgotten.
  for (Member& m : all) guest().send_bare(m, m.leave_box(1));
  pass(12 * kSecond);
  guest().send(pool, pool.join());
  EXPECT_EQ(guest().status(pool_id).limit, 0U);
}

TEST_F(MembersBoxesRoom, WhereNobodyGivesMembersAreRefusedWithTheNumbers) {
  run_pool(members::kMaxPriority);
  enlist(all[3], 1);
  enlist(all[0], 1);
  const auto sent = bring_pages(all[0], 1);
  for (const Member* m : {&all[0], &all[3]}) {
    const Sent s = only(sent, PacketType::kJoined, *m);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    EXPECT_THAT(s.text(), HasSubstr("for the ledger of a window of 256 chunks; 0 KiB of"));
  }
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared);
  EXPECT_THAT(status(1).reason, HasSubstr("admission: job 'resnet' needs"));
  EXPECT_EQ(guest().status(pool_id).phase, JobPhase::kRunning);
  EXPECT_EQ(status(1).live, 0U);
}

// What a box of a fleet leaves the seat of the job's home to others for (docs/fleet.md).
TEST_F(MembersBoxesRoom, WhetherItCouldBeTheHomeItSaysBefore) {
  const auto needs = home().members->boxes_job("resnet")->needs;
  EXPECT_EQ(needs, (members::HomeNeeds{352, 256}));
  const auto objection = [&](const members::HomeNeeds& of) {
    return guest().members->objection_to_home("resnet", of);
  };
  EXPECT_EQ(objection(needs), "");
  EXPECT_EQ(guest().members->objection_to_home("resnte", needs), "");
  run_pool(members::kMaxPriority);
  EXPECT_THAT(objection(needs), HasSubstr("for the ledger of a window of 256 chunks; 0 KiB of"));
  EXPECT_THAT(objection({}), HasSubstr("for the ledger of a window of 16 chunks; 0 KiB of"));
  EXPECT_EQ(home().members->objection_to_home("resnet", needs), "") << "it is";
  ASSERT_TRUE(guest().members->withdraw("pool"));
  guest().settle();
  run_pool(10);
  EXPECT_EQ(objection(needs), "") << "the pool would give";
  EXPECT_EQ(guest().status(pool_id).window, 256U) << "and was not asked to";
}

TEST_F(MembersBoxesRoom, WhatItHoldsOfTheJobCountsAsRoomForIt) {
  ASSERT_TRUE(enlist_all(1));
  members::NativeConfig config = config_of(1, "pool");
  config.priority = members::kMaxPriority;
  pool_id = guest().declare(config);
  ASSERT_TRUE(guest().form({&pool}));
  ASSERT_EQ(guest().status(pool_id).window, 128U) << "the rest is the job's";
  EXPECT_EQ(guest().members->objection_to_home("resnet", {352, 256}), "");
  EXPECT_NE(guest().members->objection_to_home("resnet", {352, 65'536}), "");
}

// The job that waits is before a session, which takes what nobody else wants.
TEST_F(MembersBoxesRoom, ASessionWaitsForItsTurn) {
  run_pool(10);
  enlist(all[2], 1);
  bring_pages(all[2], 1);
  members::SessionConfig session;
  session.name = "legacy";
  session.workers = 1;
  session.slots = 1;
  session.members = {{.rank = 0, .mac = {2, 0, 0, 0, 1, 1}, .ipv4 = {10, 1, 0, 1}}};
  const auto id = guest().members->declare(session);
  ASSERT_TRUE(id);
  EXPECT_EQ(guest().status(*id).session->lacks, members::SessionLacks::kTurn);
  EXPECT_THAT(guest().status(*id).reason, HasSubstr("job 'resnet'"));
}

TEST_F(MembersBoxesRoom, SharedSlotsAreDividedAmongItAndTheOthers) {
  members::NativeConfig other = sharer_of(1, Discipline::kPreemptive, "sharer");
  other.quota.reserved_ppm = 300'000;
  const JobId sharer = guest().declare(other);
  Peer peer(0, 1);
  peer.job = "sharer";
  peer.binding.udp_port = 1'235;
  ASSERT_TRUE(guest().form({&peer}));
  ASSERT_TRUE(enlist_all(1));
  EXPECT_EQ(guest().members->sharing(), (std::set{ids[1], sharer}));
  const auto divide = [&](std::uint32_t own, std::uint32_t its) {
    guest().members->rebalance(
        std::vector<members::SharedDemand>{{ids[1], own, false}, {sharer, its, false}});
    return std::pair(guest().table->cap(ids[1]), guest().table->cap(sharer));
  };
  EXPECT_EQ(divide(0, 100).first, 50U) << "half is its own, whenever it comes to want it";
  EXPECT_EQ(divide(100, 10).first, 90U);
  guest().members->rebalance({});
  for (Member& m : all) guest().send_bare(m, m.leave_box(1));
  EXPECT_EQ(guest().members->sharing(), std::set{sharer});
}

TEST_F(MembersBoxesRoom, WhatIsReservedForOthersIsNotReservedAgain) {
  members::NativeConfig other = sharer_of(1, Discipline::kPreemptive, "sharer");
  other.quota.reserved_ppm = 600'000;
  guest().declare(other);
  Peer peer(0, 1);
  peer.job = "sharer";
  peer.binding.udp_port = 1'235;
  ASSERT_TRUE(guest().form({&peer}));
  members::NativeConfig wanted = config(1);
  wanted.quota.reserved_ppm = 500'000;
  const auto changed = guest().members->change(wanted, guest().now);
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().text(), HasSubstr("reserves 50 of the 100"));
  wanted.quota.reserved_ppm = 400'000;
  ASSERT_TRUE(guest().members->change(wanted, guest().now));
  ASSERT_TRUE(enlist_all(1));
  EXPECT_EQ(row(1)->reserved, 40U);
  EXPECT_EQ(status(1).reserved, 40U);
}

TEST(MembersBoxesNarrow, PacketsThatASharedSlotCannotHoldAreRefused) {
  Boxes job(2, 2, 2, shared_box(65'536, 100, 1, 64));
  ASSERT_TRUE(job.form());
  job.enlist(job.all[0], 1);
  const Sent s = only(job.bring_pages(job.all[0], 1), PacketType::kJoined, job.all[0]);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_THAT(s.text(), HasSubstr("packets of 352 elements, and a shared slot holds 64"));
}

members::MembershipOptions full_box_of_a_fleet() {
  auto options = shared_box(jobs::pool_lines(256, 1, 352), 100);
  options.homes_move = true;
  return options;
}

// The box that has taken the home finds out that it has no room.
struct MembersBoxesHomeless : testing::Test, Boxes {
  MembersBoxesHomeless() : Boxes(2, 2, 2, full_box_of_a_fleet()) {
    pool.job = "pool";
    pool.binding.udp_port = 1'234;
    members::NativeConfig config = config_of(1, "pool");
    config.priority = members::kMaxPriority;
    pool_id = boxes[1].declare(config);
    EXPECT_TRUE(boxes[1].form({&pool}));
  }
  void move_home() {
    for (Bench& bench : boxes) {
      EXPECT_TRUE(bench.members->set_home("resnet", box_address(1), bench.now));
      bench.settle();
    }
    home_ = 1;
  }
  void expect_waiting() {
    for (Member& m : all) {
      const auto sent = home().send(m, m.join());
      EXPECT_EQ(count_of(sent, PacketType::kAbort, m), 0U);
      EXPECT_EQ(only(sent, PacketType::kJoined, m).status(), JoinStatus::kForming) << m.rank;
    }
  }

  JobId pool_id{};
  Peer pool{0, 1};
};

TEST_F(MembersBoxesHomeless, AGenerationWaitsForAHomeThatHasRoomAndGoesOnThere) {
  ASSERT_TRUE(form());
  const GenerationRecord record = all[0].last;
  move_home();
  expect_waiting();
  EXPECT_EQ(status(1).phase, JobPhase::kForming);
  EXPECT_THAT(status(1).reason, HasSubstr("waits for a home with more room: admission: job 'resnet' needs"));
  const auto job = home().members->boxes_job("resnet");
  EXPECT_THAT(job->no_room, HasSubstr("for the ledger of a window of 256 chunks; 0 KiB of"));
  EXPECT_EQ(job->needs, (members::HomeNeeds{352, 256}));
  EXPECT_EQ(job->token_check, auth::token_check(all[0].job_key()));
  EXPECT_NE(home().members->objection_to_home("resnet", {}), "");
  for (Bench& bench : boxes) ASSERT_TRUE(bench.members->set_home("resnet", box_address(0), bench.now));
  home_ = 0;
  ASSERT_TRUE(form());
  EXPECT_EQ(all[0].last, record) << "the same one";
}

TEST_F(MembersBoxesHomeless, AGenerationThatWaitsGoesOnWhereItIsWhenThereIsRoom) {
  ASSERT_TRUE(form());
  const GenerationRecord record = all[0].last;
  move_home();
  expect_waiting();
  ASSERT_TRUE(boxes[1].members->withdraw("pool"));
  boxes[1].settle();
  ASSERT_NE(row(1), nullptr);
  EXPECT_EQ(boxes[1].members->boxes_job("resnet")->no_room, "");
  ASSERT_TRUE(form());
  EXPECT_EQ(all[0].last, record);
}

TEST_F(MembersBoxesHomeless, OneThatBeginsWaitsToo) {
  move_home();
  expect_waiting();
  EXPECT_EQ(home().members->boxes_job("resnet")->needs, members::HomeNeeds{}) << "there is no generation yet";
  EXPECT_NE(home().members->boxes_job("resnet")->no_room, "");
  pass(30 * kSecond);
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared) << "nobody asks any more";
  EXPECT_EQ(home().members->boxes_job("resnet")->no_room, "");
}

// A job that waits for another home takes nothing from those that begin here.
TEST_F(MembersBoxesHomeless, WhoWaitsForAnotherHomeKeepsNobodyWaiting) {
  move_home();
  expect_waiting();
  members::NativeConfig config = config_of(1, "small");
  config.discipline = Discipline::kFcfs;
  config.priority = 1;
  boxes[1].declare(config);
  Peer one(0, 1);
  one.job = "small";
  one.binding.udp_port = 1'235;
  EXPECT_TRUE(boxes[1].form({&one}));
}

}  // namespace
}  // namespace tally::members_test
