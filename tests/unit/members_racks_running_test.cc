// A job of racks that runs: how it is aborted, left, called back and renewed, and what its boxes say to each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "members_racks_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::Each;
using testing::HasSubstr;

struct MembersRacksRunning : testing::Test, Racks {
  MembersRacksRunning() : Racks({2, 3}) { EXPECT_TRUE(form()); }

  void forget_what_was_said() {
    went_up.clear();
    went_down.clear();
    for (RackWorker& w : all) w.told.clear();
  }
  [[nodiscard]] std::uint64_t dropped(std::size_t rack, MembershipDrop why) const {
    return racks[rack].members->counters().of(why);
  }
  // The newest that went to the rack.
  Bytes newest_down(std::size_t rack, PacketType type) const {
    for (auto it = went_down.rbegin(); it != went_down.rend(); ++it)
      if (it->first == rack && type_of(it->second) == type) return it->second;
    ADD_FAILURE() << "no packet of type " << int(type) << " to rack " << rack;
    return {};
  }
  void expect_all_gone(const std::string& text) {
    EXPECT_EQ(running(), 0U);
    EXPECT_THAT(told(), Each(text));
    EXPECT_EQ(status_of_parent().phase, JobPhase::kAborted);
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(status(r).phase, JobPhase::kAborted);
      EXPECT_EQ(row(r), nullptr);
    }
    // And all may begin anew.
    pass(2 * kSecond);
    EXPECT_EQ(running(), 5U);
    expect_one_epoch();
  }
};

TEST_F(MembersRacksRunning, GoesOnForAsLongAsEverybodyBeats) {
  const std::uint32_t epoch = all[0].epoch;
  pass(60 * kSecond);
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(all[4].epoch, epoch);
  expect_one_epoch();
  EXPECT_EQ(status(0).racks->state, members::ParentState::kRunning);
  EXPECT_EQ(status_of_parent().live, 0b11U);
}

TEST_F(MembersRacksRunning, TheBeatOfARackHasItsNewestNumber) {
  all[2].next = 50;
  all[3].next = 70;
  for (std::size_t w = 2; w < 5; ++w) say(all[w], all[w].heartbeat());
  wait(kSecond);
  EXPECT_EQ(raw(status_of_parent().ranks[1].next), 70U);
}

TEST_F(MembersRacksRunning, AnAbortOfOneWorkerReachesEverybody) {
  say(all[3], all[3].abort("out of memory"));
  EXPECT_EQ(all[4].told, "rank 3: out of memory");
  wait(0);
  EXPECT_EQ(all[0].told, "rack 1: rank 3: out of memory");
  EXPECT_EQ(status_of_parent().reason, "rack 1: rank 3: out of memory");
  for (RackWorker& w : all) w.told.clear();
  EXPECT_EQ(running(), 0U);
  pass(2 * kSecond);
  EXPECT_EQ(running(), 5U);
}

TEST_F(MembersRacksRunning, AnAbortIsRepeatedUntilTheParentHasIt) {
  int lost = 0;
  up = [&](std::size_t, const Bytes& d) { return type_of(d) != PacketType::kAbort || ++lost > 3; };
  say(all[3], all[3].abort("x"));
  wait(kSecond);
  EXPECT_EQ(all[0].told, "rack 1: rank 3: x");
  EXPECT_EQ(lost, 4);
  forget_what_was_said();
  wait(5 * kSecond);
  EXPECT_EQ(count_in(went_up, PacketType::kAbort), 0U) << "the parent has answered";
}

TEST_F(MembersRacksRunning, AnAbortThatNobodyAnswersIsSaidFiveTimes) {
  up = [](std::size_t, const Bytes&) { return false; };
  say(all[3], all[3].abort("x"));
  wait(9 * kSecond);
  EXPECT_EQ(count_in(went_up, PacketType::kAbort), 5U);
}

TEST_F(MembersRacksRunning, AnOperatorAtTheParentEndsItEverywhere) {
  ASSERT_TRUE(parent.members->abort("resnet", "maintenance", now()));
  run();
  expect_all_gone("ended by an operator: maintenance");
}

TEST_F(MembersRacksRunning, AnOperatorAtTheBoxOfARackEndsItEverywhere) {
  ASSERT_TRUE(racks[0].members->abort("resnet", "maintenance", now()));
  wait(0);
  EXPECT_EQ(all[0].told, "ended by an operator: maintenance");
  EXPECT_EQ(all[4].told, "rack 0: ended by an operator: maintenance");
}

TEST_F(MembersRacksRunning, ABoxFromWhichTheJobIsWithdrawnTellsTheParent) {
  ASSERT_TRUE(racks[0].members->withdraw("resnet"));
  run();
  EXPECT_EQ(all[4].told, "rack 0: the job was withdrawn from the box");
}

TEST_F(MembersRacksRunning, ASilentWorkerIsNamedByItsNumber) {
  pass(11 * kSecond, &all[3], false);
  EXPECT_THAT(all[4].told, HasSubstr("rank 3 at "));
  EXPECT_THAT(all[0].told, HasSubstr("rack 1: rank 3 at "));
  EXPECT_EQ(running(), 0U);
}

TEST_F(MembersRacksRunning, SizesThatDifferAreToldByNumbersAndByRacks) {
  racks[1].members->report_mismatch(ids[1], Epoch{all[2].epoch}, Rank{1}, 0b101, 16, 32, 16, 32, now());
  wait(0);
  EXPECT_THAT(all[4].told, HasSubstr("the ranks issued different operations: rank 3 sent"));
  EXPECT_THAT(all[4].told, HasSubstr("ranks 2 and 4"));
  pass(2 * kSecond);
  ASSERT_EQ(running(), 5U);
  parent.members->report_mismatch(id, Epoch{all[2].epoch}, Rank{1}, 0b1, 16, 32, 16, 32, now());
  run();
  EXPECT_THAT(told(), Each(HasSubstr("the racks issued different operations: rack 1 sent")));
}

TEST_F(MembersRacksRunning, AWorkerThatLostItsMembershipEndsTheJob) {
  RackWorker& w = all[2];
  w.last = {};
  w.epoch = 0;
  say(w, w.heartbeat());  // nothing to say with
  say(all[3], all[3].heartbeat());
  wait(kSecond);
  say(all[2], all[2].join());  // its first JOINED may not have arrived
  w.last.generation = Be<std::uint64_t>(7);
  w.last.largest_window = w.last.lookahead = Be<std::uint32_t>(16);
  w.last.elements = Be<std::uint16_t>(16);
  w.epoch = 0;
  say(w, w.join());
  wait(0);
  EXPECT_EQ(all[3].told, "rank 2 lost its membership and joined anew");
  EXPECT_EQ(all[0].told, "rack 1: rank 2 lost its membership and joined anew");
}

TEST_F(MembersRacksRunning, ARankIsHeldByItsProcessUntilItsLeaseHasEnded) {
  RackWorker& w = all[3];
  w.restart();
  say(w, w.join());
  EXPECT_THAT(w.told, HasSubstr("rank 3 is held by a live process"));
  pass(15 * kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
  EXPECT_THAT(all[0].told, HasSubstr("rack 1: rank 3 at "));
}

TEST_F(MembersRacksRunning, ACallOfTheParentReachesAllWorkersAndTheGenerationGoesOn) {
  const std::uint32_t epoch = all[0].epoch;
  const GenerationRecord record = all[0].last;
  for (std::size_t w = 0; w < all.size(); ++w) {
    all[w].next = 1'000 + static_cast<std::uint32_t>(w);
    all[w].lowest = 900;
  }
  forget_what_was_said();
  ASSERT_TRUE(parent.members->resize("resnet", 64, now()));
  run();
  EXPECT_EQ(running(), 0U);
  EXPECT_EQ(status(1).racks->state, members::ParentState::kCalledBack);
  ASSERT_TRUE(form());
  expect_one_epoch();
  EXPECT_NE(all[0].epoch, epoch);
  EXPECT_EQ(all[0].last, record);
  EXPECT_THAT(told(), Each(""));
  EXPECT_EQ(row(0)->window, 64U);
  // Each rack told its oldest and newest; the furthest is the first to ask.
  EXPECT_EQ(status_of_parent().ranks[0].next, Chunk{1'001});
  EXPECT_EQ(row(1)->parent.most_advanced, Rank{2});
}

TEST_F(MembersRacksRunning, TheMostAdvancedRackAndRankAreTold) {
  for (RackWorker& w : all) w.next = w.number == 3 ? 500 : 100;
  ASSERT_TRUE(parent.members->resize("resnet", 64, now()));
  run();
  std::vector<Sent> sent;
  for (RackWorker& w : all)
    for (Sent& s : say(w, w.join())) sent.push_back(std::move(s));
  for (Sent& s : wait(kSecond)) sent.push_back(std::move(s));
  int told = 0;
  for (const Sent& s : sent) {
    if (s.type() != PacketType::kJoined || s.status() != JoinStatus::kRunning) continue;
    ++told;
    EXPECT_EQ(wire_at<RacksText>(s.payload.data() + sizeof(JoinedPayload)).most_advanced, 1U);
    EXPECT_EQ(s.joined().most_advanced.host(), s.text()[0] == 1 ? 1U : 0U);
  }
  EXPECT_EQ(told, 5);
}

TEST_F(MembersRacksRunning, ARackThatIsSlowToComeBackIsWaitedFor) {
  auto hour = config(1);
  hour.lease = 60 * kSecond;
  ASSERT_TRUE(racks[1].members->change(hour, now()));
  run();
  pass(3 * kSecond);
  ASSERT_EQ(running(), 5U);
  ASSERT_TRUE(parent.members->resize("resnet", 64, now()));
  run();
  for (const std::size_t w : {0U, 1U, 2U, 3U}) say(all[w], all[w].join());
  for (int i = 0; i < 30; ++i) {  // longer than the parent's lease
    wait(kSecond);
    for (const std::size_t w : {0U, 1U, 2U, 3U}) say(all[w], all[w].join());
  }
  EXPECT_EQ(status_of_parent().phase, JobPhase::kForming);
  say(all[4], all[4].join());
  EXPECT_EQ(running(), 5U);
}

TEST_F(MembersRacksRunning, ACallThatIsLostIsRepeatedAtTheNextBeat) {
  down = [](std::size_t, const Bytes& d) { return type_of(d) != PacketType::kReject; };
  ASSERT_TRUE(parent.members->resize("resnet", 64, now()));
  run();
  EXPECT_EQ(running(), 5U);
  down = [](std::size_t, const Bytes&) { return true; };
  pass(4 * kSecond);
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(row(0)->window, 64U);
  expect_one_epoch();
}

TEST_F(MembersRacksRunning, NumbersThatRanFarRenewTheEpochFromTheParent) {
  const std::uint32_t epoch = all[0].epoch;
  all[3].next = 1U << 29U;
  say(all[3], all[3].heartbeat());
  EXPECT_EQ(running(), 5U) << "the box of a rack renews nothing by itself";
  wait(kSecond);
  EXPECT_EQ(running(), 0U);
  ASSERT_TRUE(form());
  EXPECT_NE(all[0].epoch, epoch);
}

TEST_F(MembersRacksRunning, AnotherWindowAtTheBoxOfARackIsANewEpochForAll) {
  const std::uint32_t epoch = all[0].epoch;
  ASSERT_TRUE(racks[0].members->resize("resnet", 32, now()));
  run();
  EXPECT_EQ(running(), 3U);
  pass(3 * kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
  EXPECT_NE(all[4].epoch, epoch);
  EXPECT_EQ(row(0)->window, 32U);
  EXPECT_EQ(row(1)->window, 256U);
}

TEST_F(MembersRacksRunning, LeavesWhenItsLastWorkerHasLeft) {
  forget_what_was_said();
  say(all[0], all[0].leave());
  wait(kSecond);
  EXPECT_EQ(count_in(went_up, PacketType::kLeave), 0U);
  EXPECT_EQ(status(0).phase, JobPhase::kDraining);
  say(all[1], all[1].leave());
  wait(0);
  EXPECT_EQ(status(0).phase, JobPhase::kEnded);
  EXPECT_EQ(row(0), nullptr);
  EXPECT_EQ(status_of_parent().phase, JobPhase::kDraining);
  EXPECT_EQ(count_in(went_up, PacketType::kLeave), 1U);
  wait(5 * kSecond);
  EXPECT_EQ(count_in(went_up, PacketType::kLeave), 1U) << "the parent has answered";
  for (std::size_t w = 2; w < 5; ++w) say(all[w], all[w].leave());
  wait(0);
  EXPECT_EQ(status_of_parent().phase, JobPhase::kEnded);
  EXPECT_EQ(parent.row(id), nullptr);
}

TEST_F(MembersRacksRunning, ALeaveThatIsLostIsRepeated) {
  int lost = 0;
  up = [&](std::size_t, const Bytes& d) { return type_of(d) != PacketType::kLeave || ++lost > 2; };
  for (RackWorker& w : all) say(w, w.leave());
  wait(2 * kSecond);
  EXPECT_EQ(status_of_parent().phase, JobPhase::kEnded);
}

TEST_F(MembersRacksRunning, WorkersThatDrainGoOnWhileAnotherRackLeaves) {
  for (const std::size_t w : {0U, 1U}) say(all[w], all[w].leave());
  say(all[2], all[2].leave());
  for (int i = 0; i < 20; ++i) {
    for (const std::size_t w : {3U, 4U}) EXPECT_EQ(say(all[w], all[w].heartbeat()).size(), 1U);
    wait(kSecond);
  }
  EXPECT_EQ(status(1).phase, JobPhase::kDraining);
  EXPECT_NE(row(1), nullptr);
}

TEST_F(MembersRacksRunning, SilenceOfTheParentEndsTheJobAfterItsLease) {
  up = [](std::size_t, const Bytes&) { return false; };
  pass(9 * kSecond);
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(status(0).racks->state, members::ParentState::kDoubted);
  pass(3 * kSecond, nullptr, false);
  EXPECT_EQ(running(), 0U);
  EXPECT_THAT(told(), Each(HasSubstr("the parent at 10.9.0.9 was silent for 10.")));
}

TEST_F(MembersRacksRunning, AParentThatMovedIsFoundAndTheRowsSayWhereItIs) {
  down = [](std::size_t, const Bytes&) { return false; };
  up = down;
  pass(6 * kSecond);
  up = down = [](std::size_t, const Bytes&) { return true; };
  // From another port, with another MAC.
  jobs::Binding moved = place_of_parent();
  moved.mac[5] = 77;
  moved.port = PortIndex{3};
  for (int i = 0; i < 4; ++i) {
    for (std::size_t r = 0; r < 2; ++r) {
      racks[r].now = parent.now = now();
      for (const Upward& said : std::exchange(racks[r].upwards, {}))
        parent.members->receive(said.datagram, place_of(r), now());
    }
    for (const Sent& s : parent.settle()) {
      for (std::size_t r = 0; r < 2; ++r) {
        if (s.to != place_of(r)) continue;
        Bytes d(kHeaderBytes);
        wire_put(d.data(), s.header);
        d.insert(d.end(), s.payload.begin(), s.payload.end());
        racks[r].members->receive(d, moved, now());
        racks[r].settle();
      }
    }
    const TimeNs then = now() + kSecond;
    for (std::size_t r = 0; r < 2; ++r) {
      racks[r].now = then;
      racks[r].members->tick(then);
      racks[r].settle();
    }
    parent.now = then;
    parent.members->tick(then);
  }
  EXPECT_EQ(row(0)->parent.binding, moved);
  EXPECT_EQ(raw(row(0)->epoch), all[0].epoch);
}

TEST_F(MembersRacksRunning, CopiesOfWhatTheParentSaidChangeNothing) {
  pass(2 * kSecond);
  ASSERT_TRUE(parent.members->resize("resnet", 64, now()));
  run();
  ASSERT_TRUE(form());
  pass(2 * kSecond);
  ASSERT_TRUE(parent.members->resize("resnet", 128, now()));
  run();
  ASSERT_TRUE(form());
  pass(2 * kSecond);
  const std::uint32_t epoch = all[0].epoch;
  const auto before = status(0);
  for (const auto& [rack, d] : std::vector(went_down)) {
    racks[rack].members->receive(d, place_of_parent(), now());
    run();
  }
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(all[0].epoch, epoch);
  EXPECT_EQ(status(0).phase, before.phase);
  expect_one_epoch();
  for (const auto& [rack, d] : std::vector(went_up)) {
    parent.members->receive(d, place_of(rack), now());
    run();
  }
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(all[0].epoch, epoch);
  pass(20 * kSecond);
  EXPECT_EQ(all[0].epoch, epoch);
}

TEST_F(MembersRacksRunning, ForgedControlOfTheParentIsDropped) {
  pass(2 * kSecond);
  const std::uint32_t epoch = all[0].epoch;
  for (const PacketType type :
       {PacketType::kHeartbeat, PacketType::kAbort, PacketType::kReject, PacketType::kLeave}) {
    Header h;
    h.type = type;
    h.job = Be<std::uint16_t>(raw(id));
    h.rank = Be<std::uint16_t>(raw(kSwitchRank));
    h.epoch = Be<std::uint32_t>(epoch);
    h.cookie = Be<std::uint64_t>(raw(parent.row(id)->result_cookie));
    h.slot = Be<std::uint32_t>(static_cast<std::uint32_t>(RejectReason::kEpoch));
    Bytes body(sizeof(CountedPayload));
    wire_put(body.data(), CountedPayload{Be<std::uint64_t>(1U << 30U)});
    racks[0].members->receive(tagged(h, body, auth::Key{}), place_of_parent(), now());
    // Bare, as a data core says it.
    if (type == PacketType::kReject) racks[0].members->receive(sealed(h), place_of_parent(), now());
  }
  EXPECT_EQ(dropped(0, MembershipDrop::kTag), 3U);
  EXPECT_EQ(dropped(0, MembershipDrop::kType), 1U);    // LEAVE: it did not say that it leaves
  EXPECT_EQ(dropped(0, MembershipDrop::kLength), 1U);  // the bare one
  run();
  EXPECT_EQ(running(), 5U);
}

TEST_F(MembersRacksRunning, WhatAParentSaysIsTakenFromItsAddressAlone) {
  pass(2 * kSecond);
  const Bytes echo = newest_down(0, PacketType::kHeartbeat);
  jobs::Binding elsewhere = place_of_parent();
  elsewhere.address = mapped({10, 9, 0, 8});
  const std::uint64_t before = dropped(0, MembershipDrop::kLength);
  racks[0].members->receive(echo, elsewhere, now());
  EXPECT_EQ(dropped(0, MembershipDrop::kLength), before + 1) << "a HEARTBEAT of a worker has a name";
  const std::uint64_t replays = dropped(0, MembershipDrop::kReplay);
  racks[0].members->receive(echo, place_of_parent(), now());
  EXPECT_EQ(dropped(0, MembershipDrop::kReplay), replays + 1);
}

TEST_F(MembersRacksRunning, AJoinedThatNobodyAskedForIsDropped) {
  const Bytes joined = newest_down(0, PacketType::kJoined);
  const std::uint64_t before = dropped(0, MembershipDrop::kOldAttempt);
  racks[0].members->receive(joined, place_of_parent(), now());
  EXPECT_EQ(dropped(0, MembershipDrop::kOldAttempt), before + 1);
}

TEST_F(MembersRacksRunning, ABoxMayBeTheParentOfAnotherJobOfItsParent) {
  // The parent of this job is, at the same address, the box of a rack of another that rack 0's box is the parent of.
  auto other = config({});
  other.name = "vgg";
  const JobId vgg = racks[0].declare(other);
  Peer box(0, 2);
  box.job = "vgg";
  box.binding = place_of_parent();
  ++box.attempt;
  box.nonce = 5;
  JoinPayload p = box.join_payload();
  p.rack_workers = 2;
  Bytes body(sizeof p);
  wire_put(body.data(), p);
  for (const std::byte b : bytes_of(box.job)) body.push_back(b);
  Header h;
  h.type = PacketType::kJoin;
  const Sent s = only(racks[0].send(box, tagged(h, body, box.job_key())), PacketType::kJoined, box);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(racks[0].status(vgg).missing, 2U);
}

TEST_F(MembersRacksRunning, TheCoresListenToParentsOfDeclaredJobsAlone) {
  EXPECT_FALSE(parent.table->has_parents());
  ASSERT_TRUE(racks[0].table->is_parent(place_of_parent().address));
  ASSERT_TRUE(racks[0].members->withdraw("resnet"));
  racks[0].settle();
  EXPECT_FALSE(racks[0].table->is_parent(place_of_parent().address));
}

}  // namespace
}  // namespace tally::members_test
