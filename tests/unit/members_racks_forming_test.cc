// How a job of racks begins: who may join where, when the box of a rack joins its parent, and what the workers are told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "members_racks_support.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

using testing::Each;
using testing::HasSubstr;

struct MembersRacksForming : testing::Test, Racks {
  MembersRacksForming() : Racks({2, 3}) {}

  // What the box of the worker's rack answers to a JOIN that this changed.
  std::string refusal(RackWorker& w, const Bytes& join) {
    const Sent s = only(racks[w.rack].send(w, join), PacketType::kJoined, w);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    return s.text();
  }
};

TEST_F(MembersRacksForming, EveryWorkerIsToldTheParentsEpochAndWhoHasWhichRack) {
  std::vector<Sent> sent;
  for (RackWorker& w : all)
    for (Sent& s : say(w, w.join())) sent.push_back(std::move(s));
  ASSERT_EQ(running(), 5U);
  expect_one_epoch();
  for (const RackWorker& w : all) {
    std::vector<Sent> mine;
    std::ranges::copy_if(sent, std::back_inserter(mine), [&](const Sent& s) {
      return s.to == w.binding && s.type() == PacketType::kJoined && s.status() == JoinStatus::kRunning;
    });
    ASSERT_EQ(mine.size(), 1U) << w.number;
    const Sent& s = mine.front();
    EXPECT_EQ(s.header.flags, kFlagRacks);
    EXPECT_EQ(s.joined().world.host(), 5U);
    EXPECT_EQ(s.joined().most_advanced.host(), 0U);
    EXPECT_EQ(s.joined().missing.host(), 0U);
    EXPECT_EQ(s.text(), std::string({static_cast<char>(w.rack), 0, 2, 0, 2, 3}));
  }
}

TEST_F(MembersRacksForming, TheParentTellsARackTheSameAndItsRank) {
  ASSERT_TRUE(form());
  std::size_t told = 0;
  for (const auto& [rack, datagram] : went_down) {
    if (type_of(datagram) != PacketType::kJoined) continue;
    const auto header = wire_at<Header>(datagram.data());
    const auto p = wire_at<JoinedPayload>(datagram.data() + kHeaderBytes);
    EXPECT_EQ(p.world.host(), 5U);
    if (p.status != JoinStatus::kRunning) continue;
    ++told;
    EXPECT_EQ(header.flags, kFlagRacks);
    EXPECT_EQ(p.text_bytes.host(), 6U);
    EXPECT_EQ(wire_at<RacksText>(datagram.data() + kHeaderBytes + sizeof p).rack, rack);
  }
  EXPECT_EQ(told, 2U);
}

TEST_F(MembersRacksForming, RowsHaveTheKeysOfSection18) {
  ASSERT_TRUE(form());
  const Generation g = parent.row(id)->generation;
  std::uint32_t whole = 0;
  for (std::uint32_t n = 0; n < 5; ++n) whole += racked_key(g, n);
  const std::uint32_t first = racked_key(g, 0) + racked_key(g, 1);
  EXPECT_EQ(parent.row(id)->ranks[0].key, first);
  EXPECT_EQ(parent.row(id)->ranks[1].key, whole - first);
  EXPECT_EQ(parent.row(id)->key_sum, whole);
  EXPECT_FALSE(parent.row(id)->racked);
  EXPECT_EQ(parent.row(id)->ranks[1].binding, place_of(1));
  for (std::size_t r = 0; r < 2; ++r) {
    const jobs::NativeJob& job = *row(r);
    EXPECT_EQ(job.key_sum, r == 0 ? first : whole - first);
    EXPECT_EQ(job.ranks[1].key, racked_key(g, r == 0 ? 1 : 3));
    EXPECT_EQ(job.world, list[r]);
    ASSERT_TRUE(job.racked);
    EXPECT_EQ(job.parent.binding, place_of_parent());
    EXPECT_EQ(job.parent.job, id);
    EXPECT_EQ(job.parent.rack, r);
    EXPECT_EQ(job.parent.racks, 2U);
    EXPECT_EQ(job.parent.shards, 2U);
    EXPECT_EQ(job.parent.window, parent.row(id)->window);
    EXPECT_EQ(job.parent.key_sum, whole);
    EXPECT_EQ(job.parent.members, 3U);
    EXPECT_EQ(job.parent.cookie, parent.row(id)->ranks[r].cookie);
    EXPECT_EQ(job.parent.result_cookie, parent.row(id)->result_cookie);
    EXPECT_NE(job.result_cookie, job.parent.result_cookie);
    EXPECT_TRUE(racks[r].table->is_parent(place_of_parent().address));
  }
}

TEST_F(MembersRacksForming, ARackIsSilentUntilAllItsWorkersAreThere) {
  RackWorker& a = all[2];
  const Sent s = only(say(a, a.join()), PacketType::kJoined, a);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0b110U);
  EXPECT_EQ(s.header.flags, kFlagRacks);
  EXPECT_EQ(s.text(), std::string({1, 0, 2, 0, 2, 3}));
  EXPECT_EQ(s.joined().world.host(), 5U);
  say(all[3], all[3].join());
  wait(kSecond);
  EXPECT_TRUE(went_up.empty());
  EXPECT_EQ(status(1).racks->state, members::ParentState::kNotAsked);
}

TEST_F(MembersRacksForming, ItsJoinIsOfAllItsWorkers) {
  all[3].elements = 320;
  for (const std::size_t w : {2U, 3U, 4U}) say(all[w], all[w].join());
  ASSERT_GE(went_up.size(), 2U);  // the second with the challenge
  const Bytes& join = went_up.back().second;
  const auto header = wire_at<Header>(join.data());
  const auto p = wire_at<JoinPayload>(join.data() + kHeaderBytes);
  EXPECT_EQ(header.type, PacketType::kJoin);
  EXPECT_EQ(header.rank.host(), 1U);
  EXPECT_EQ(header.epoch.host(), 0U);
  EXPECT_EQ(p.world.host(), 2U);
  EXPECT_EQ(p.rack_workers, 3U);
  EXPECT_EQ(p.elements.host(), 320U);
  EXPECT_EQ(p.last, GenerationRecord{});
  const std::array<std::uint64_t, 3> instances{all[2].instance, all[3].instance, all[4].instance};
  EXPECT_EQ(p.instance.host(), auth::rack_instance(all[0].job_key(), instances));
  // The calendar in units of 64 ms, and in nanoseconds.
  const std::uint64_t calendar = racks[1].options.calendar + now();
  EXPECT_EQ(p.attempt.host(),
            static_cast<std::uint32_t>(calendar / (64 * kMillisecond)) + went_up.size() - 1);
  EXPECT_EQ(status_of_parent().missing, 1U);
  EXPECT_EQ(status(1).racks->state, members::ParentState::kJoining);
  EXPECT_EQ(status(1).racks->missing_racks, 1U);
}

TEST_F(MembersRacksForming, TheInstanceOfARackIsThatOfItsWorkersInTheirOrder) {
  const auth::Key key = all[0].job_key();
  const std::array<std::uint64_t, 2> a{1, 2};
  const std::array<std::uint64_t, 2> b{2, 1};
  EXPECT_EQ(auth::rack_instance(key, a), auth::rack_instance(key, a));
  EXPECT_NE(auth::rack_instance(key, a), auth::rack_instance(key, b));
  EXPECT_NE(auth::rack_instance(key, a), auth::rack_instance(auth::job_key("resnet", "other"), a));
}

TEST_F(MembersRacksForming, WhileTheParentWaitsNobodyOfTheRackIsMissed) {
  for (const std::size_t w : {2U, 3U}) say(all[w], all[w].join());
  const Sent s = only(say(all[4], all[4].join()), PacketType::kJoined, all[4]);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0U);
}

TEST_F(MembersRacksForming, AnUnknownPlaceIsAskedForEverywhereAndAKnownOneDirectly) {
  std::vector<bool> everywhere;
  up = [&](std::size_t, const Bytes&) { return false; };
  racks[0].send(all[0], all[0].join());
  racks[0].send(all[1], all[1].join());
  ASSERT_EQ(racks[0].upwards.size(), 1U);
  EXPECT_TRUE(racks[0].upwards[0].everywhere);
  EXPECT_EQ(racks[0].upwards[0].to.mac, kBroadcastMac);
  EXPECT_EQ(racks[0].upwards[0].to.udp_port, kBasePort);
  up = [](std::size_t, const Bytes&) { return true; };
  run();
  wait(kSecond);
  ASSERT_FALSE(went_up.empty());
  racks[0].upwards.clear();
  racks[0].advance(kSecond);
  ASSERT_FALSE(racks[0].upwards.empty());
  EXPECT_FALSE(racks[0].upwards[0].everywhere);
  EXPECT_EQ(racks[0].upwards[0].to, place_of_parent());
  // Three of them without an answer: it may be elsewhere.
  racks[0].advance(5 * kSecond);
  EXPECT_TRUE(racks[0].upwards.back().everywhere);
}

TEST_F(MembersRacksForming, NobodyIsToldBeforeTheParentKnowsThatTheRackIsInTheEpoch) {
  bool lossy = true;
  up = [&](std::size_t rack, const Bytes& d) {
    return rack != 1 || !lossy || type_of(d) != PacketType::kHeartbeat;
  };
  EXPECT_FALSE(form());
  EXPECT_EQ(running(), 2U);  // rack 0
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(parent.row(id)->world, 2U);
  lossy = false;
  wait(kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
}

TEST_F(MembersRacksForming, AJoinedThatIsLostIsSaidAgain) {
  std::size_t lost = 0;
  down = [&](std::size_t, const Bytes& d) {
    const bool runs = type_of(d) == PacketType::kJoined &&
                      wire_at<JoinedPayload>(d.data() + kHeaderBytes).status == JoinStatus::kRunning;
    return !runs || ++lost > 3;
  };
  form();
  pass(3 * kSecond);
  EXPECT_GT(lost, 3U);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
  EXPECT_EQ(all[0].epochs.size(), 1U);
}

TEST_F(MembersRacksForming, LessMemoryAtOneBoxIsASmallerWindowForItsRackAlone) {
  Racks small({2, 2}, box_of_a_rack(4'000));
  ASSERT_TRUE(small.form());
  EXPECT_LT(small.row(0)->window, small.parent.row(small.id)->window);
  EXPECT_EQ(small.row(0)->parent.window, small.parent.row(small.id)->window);
  EXPECT_EQ(small.row(0)->span, small.parent.row(small.id)->span);
}

TEST_F(MembersRacksForming, ARackWithoutMemoryEndsTheJobAndEverybodyHearsWhy) {
  Racks tiny({2, 2}, box_of_a_rack(100));
  EXPECT_FALSE(tiny.form());
  EXPECT_THAT(tiny.all[0].told, HasSubstr("slot memory"));
  EXPECT_EQ(tiny.status_of_parent().phase, members::JobPhase::kAborted);
  EXPECT_THAT(tiny.status_of_parent().reason, HasSubstr("rack 0: admission: "));
}

TEST_F(MembersRacksForming, TheLongerLeaseCounts) {
  auto longer = config({});
  longer.lease = 20 * kSecond;
  ASSERT_TRUE(parent.members->change(longer, now()));
  ASSERT_TRUE(form());
  const Sent s = only(say(all[0], all[0].heartbeat()), PacketType::kHeartbeat, all[0]);
  EXPECT_EQ(s.header.contributors.host(), 0b11U);
  pass(15 * kSecond, &all[3]);
  EXPECT_EQ(running(), 5U) << "a worker was silent for 15 of 20 s";
  pass(6 * kSecond, &all[3], false);
  EXPECT_EQ(running(), 0U);
}

TEST_F(MembersRacksForming, WhoMayJoinWhere) {
  const std::string job = "job 'resnet'";
  RackWorker wrong = all[0];
  wrong.number = 2;
  EXPECT_EQ(refusal(wrong, wrong.join()), job + ": this is the box of rack 0, whose ranks are 0 to 1, not 2");
  wrong = all[3];
  wrong.number = 1;
  EXPECT_EQ(refusal(wrong, wrong.join()), job + ": this is the box of rack 1, whose ranks are 2 to 4, not 1");
  wrong = all[0];
  wrong.world = 2;
  EXPECT_EQ(refusal(wrong, wrong.join()), job + " has 5 workers here, this worker expects 2");
  wrong = all[0];
  wrong.binding.address = place_of_parent().address;
  EXPECT_EQ(refusal(wrong, wrong.join()),
            job + ": this is the box of rack 0, which workers join and no other box");
  wrong = all[0];
  const Sent at_parent = only(parent.send(wrong, wrong.join()), PacketType::kJoined, wrong);
  EXPECT_EQ(at_parent.text(),
            job + " has racks, and this is their parent: join at the box of the worker's rack");
}

TEST_F(MembersRacksForming, ABoxOfARackMustFitTheParent) {
  const auto as_rack = [&](Bench& at, std::uint16_t rank, std::uint16_t world, std::uint8_t n) {
    Peer box(rank, world);
    box.binding = place_of(0);
    ++box.attempt;
    box.nonce = 5;
    JoinPayload p = box.join_payload();
    p.rack_workers = n;
    Bytes body(sizeof p);
    wire_put(body.data(), p);
    for (const std::byte b : bytes_of(box.job)) body.push_back(b);
    Header h;
    h.type = PacketType::kJoin;
    h.rank = Be<std::uint16_t>(rank);
    const Sent s = only(at.send(box, tagged(h, body, box.job_key())), PacketType::kJoined, box);
    return s.status() == JoinStatus::kRefused ? s.text() : "";
  };
  EXPECT_EQ(as_rack(parent, 1, 2, 2), "job 'resnet': rack 1 has 3 workers here, and 2 at its own box");
  EXPECT_EQ(as_rack(parent, 1, 3, 3), "job 'resnet' has 2 racks here, the box of one expects 3");
  EXPECT_EQ(as_rack(parent, 2, 2, 3), "job 'resnet': rack 2 has 0 workers here, and 3 at its own box");
  EXPECT_EQ(as_rack(racks[0], 1, 2, 3),
            "job 'resnet': this is the box of rack 0, which workers join and no other box");
  Bench flat;
  flat.declare(config_of(2));
  EXPECT_EQ(as_rack(flat, 1, 2, 3), "job 'resnet' has no racks here, and the box of one joins it");
  EXPECT_EQ(as_rack(parent, 1, 2, 3), "");
}

TEST_F(MembersRacksForming, AnotherListOfRacksIsNoticed) {
  list = {2, 3};
  auto other = config(0);
  other.racks->workers = {2, 4};
  ASSERT_TRUE(racks[0].members->change(other, now()));
  for (RackWorker& w : all) w.world = w.rack == 0 ? 6 : 5;
  EXPECT_FALSE(form());
  EXPECT_THAT(all[0].told, HasSubstr("its racks are [2, 3] at the parent and [2, 4] at the box of rack 0"));
  EXPECT_THAT(status_of_parent().reason, HasSubstr("its racks are [2, 3] at the parent"));
}

TEST_F(MembersRacksForming, WhatTheParentRefusesItsRacksRefuse) {
  ASSERT_TRUE(parent.members->withdraw("resnet"));
  EXPECT_FALSE(form());
  EXPECT_THAT(told(), Each("the parent at 10.9.0.9: job 'resnet' is not declared on this box"));
  EXPECT_EQ(status(0).phase, members::JobPhase::kDeclared);
  parent.declare(config({}));
  pass(3 * kSecond);
  EXPECT_EQ(running(), 5U);
}

TEST_F(MembersRacksForming, AWrongTokenAtOneBoxIsToldToItsWorkers) {
  auto other = config({});
  other.token = "another";
  ASSERT_TRUE(parent.members->change(other, now()));
  EXPECT_FALSE(form());
  EXPECT_THAT(told(), Each("the parent at 10.9.0.9: job 'resnet': wrong token"));
}

TEST_F(MembersRacksForming, AWorkerThatFallsSilentMeanwhileIsAwaitedAgain) {
  for (const std::size_t w : {2U, 3U, 4U}) say(all[w], all[w].join());
  ASSERT_EQ(status_of_parent().missing, 1U);
  for (int i = 0; i < 12; ++i) {  // rank 4 is gone
    say(all[2], all[2].join());
    say(all[3], all[3].join());
    wait(kSecond);
  }
  EXPECT_EQ(status(1).missing, 0b100U);
  const std::size_t before = went_up.size();
  wait(2 * kSecond);
  EXPECT_EQ(went_up.size(), before);
  all[4].restart();
  pass(20 * kSecond);
  EXPECT_EQ(running(), 5U);
}

TEST_F(MembersRacksForming, SixtyFourRacksOfSixtyFourWorkers) {
  Racks large(std::vector<std::uint8_t>(64, 64), box_of_a_rack());
  for (std::size_t r = 0; r < 64; ++r)
    for (std::size_t w = 0; w < 64; ++w) {
      RackWorker& worker = large.all[64 * r + w];
      const auto number = worker.number;
      worker.binding.address =
          mapped({10, 1, static_cast<std::uint8_t>(number / 256), static_cast<std::uint8_t>(number % 256)});
      large.racks[r].send(worker, worker.join());
    }
  const auto sent = large.run();
  const auto told = std::ranges::count_if(sent, [](const Sent& s) {
    return s.type() == PacketType::kJoined && s.status() == JoinStatus::kRunning && s.text().size() == 68;
  });
  EXPECT_EQ(told, 4096);
  EXPECT_EQ(large.row(63)->ranks[63].key, racked_key(large.parent.row(large.id)->generation, 4095));
}

}  // namespace
}  // namespace tally::members_test
