// What ends for a box that is not the home: an epoch by the next one, the job by an operator, the box itself
// (docs/protocol_boxes.md, 17.3).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_boxes_guest.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::HasSubstr;

TEST_F(MembersBoxesGuest, AnotherEpochTakesThePlaceOfThePresentOne) {
  ASSERT_TRUE(enlist_all(1));
  const std::vector<Member> before = all;
  const jobs::LineRange lines = row(1)->slots;
  guest().freed.clear();
  another_epoch();
  Member& m = worker(0);
  EXPECT_EQ(only(enlist(m, 1), PacketType::kJoined, m).joined().missing.host(), 0b11U);
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(status(1).phase, JobPhase::kForming);
  // Everybody enlists anew: who lives in the former one hears that it is forgotten.
  Member late = before[1];
  const Sent s = only(guest().send_bare(late, late.beat(1)), PacketType::kReject, late);
  EXPECT_TRUE(auth::verify(late.job_key(), s.header, s.payload));
  ASSERT_TRUE(enlist_all(1));
  EXPECT_EQ(row(1)->epoch, Epoch{m.epoch});
  EXPECT_EQ(row(1)->slots, lines) << "it kept its slot memory";
  ASSERT_EQ(guest().freed.size(), 1U) << "which is zeroed before the next row";
  EXPECT_EQ(guest().freed[0].lines, lines);
}

// Its JOINED, challenge and ENLIST were all right, and then it was stopped for a moment.
TEST_F(MembersBoxesGuest, WhoIsLateDoesNotBringAFormerEpochBack) {
  guest().send_bare(worker(0), worker(0).enlist(1));
  Member& late = worker(1);
  late.take_box(1, guest().send_bare(late, late.enlist(1)));
  const Bytes old = late.enlist(1);
  Member was = late;
  another_epoch();
  ASSERT_TRUE(enlist_all(1));
  const std::uint64_t challenges = dropped(1, MembershipDrop::kChallenge);
  const auto sent = guest().send_bare(was, old);
  EXPECT_EQ(count_of(sent, PacketType::kChallenge, was), 1U);
  EXPECT_EQ(dropped(1, MembershipDrop::kChallenge), challenges + 1);
  EXPECT_EQ(row(1)->epoch, Epoch{late.epoch});
  EXPECT_EQ(guest().send_bare(worker(0), worker(0).beat(1)).size(), 1U);
}

// Two members come with a challenge that was given before either enlisted: one of them is enough to begin.
TEST_F(MembersBoxesGuest, AChallengeOfTheFormerEpochIsGoodForThePresentOne) {
  for (Member& m : all) m.take_box(1, guest().send_bare(m, m.enlist(1)));
  for (Member& m : all)
    EXPECT_EQ(only(guest().send_bare(m, m.enlist(1)), PacketType::kJoined, m).status(), JoinStatus::kForming);
}

TEST_F(MembersBoxesGuest, WhoMakesEpochsUpIsHeldToAFew) {
  ASSERT_TRUE(enlist_all(1));
  Member hostile = worker(0);  // it has the token
  std::size_t begun = 0;
  constexpr int kSeconds = 5;
  for (int i = 0; i < 500 * kSeconds; ++i) {
    guest().advance(2 * kMillisecond);
    hostile.epoch = static_cast<std::uint32_t>(100 + i);
    const std::uint64_t before = accepted(1, PacketType::kEnlist);
    enlist(hostile, 1);
    begun += accepted(1, PacketType::kEnlist) - before;
  }
  EXPECT_GE(begun, 8U);
  EXPECT_LE(begun, 8U + 4U * kSeconds + 1);
  EXPECT_GE(dropped(1, MembershipDrop::kRate), 500U * kSeconds - 40);
  // It held none of them open, and the true one comes back in time.
  guest().advance(2 * kSecond);
  EXPECT_TRUE(enlist_all(1));
}

TEST_F(MembersBoxesGuest, AnEpochOfAnotherJobsNumberIsRefused) {
  Peer alone(0, 1);
  alone.job = "other0";
  ASSERT_TRUE(guest().form({&alone}));
  Member m = worker(0);
  m.epoch = alone.epoch;
  EXPECT_THAT(refused(enlist(m, 1), m).text(), HasSubstr("another job of this box"));
  EXPECT_EQ(dropped(1, MembershipDrop::kEpoch), 1U);
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared);
}

TEST_F(MembersBoxesGuest, PagesOfNoUseAreDroppedByName) {
  Member& m = worker(0);
  nothing_but(m, m.page(0), MembershipDrop::kPlan);  // nobody was told of it
  enlist(m, 1);
  nothing_but(m, m.wish(0), MembershipDrop::kPlan);  // it answers nobody
  Member other = m;
  other.planned.plan[0] ^= 1U;
  nothing_but(m, other.page(0), MembershipDrop::kPlan);
  other = m;
  other.planned.bytes = Be<std::uint32_t>(m.planned.bytes.host() + 1);
  nothing_but(m, other.page(0), MembershipDrop::kPlan);
  other = m;
  other.token = "guessed";
  nothing_but(m, other.page(0), MembershipDrop::kTag);
  other = m;
  other.binding.udp_port ^= 1U;
  nothing_but(other, m.page(0), MembershipDrop::kSource);
  nothing_but(worker(1), worker(1).page(0), MembershipDrop::kSource);  // it has not enlisted

  PlanPayload fixed{.plan = m.planned.plan, .bytes = m.planned.bytes, .page = 0, .name_bytes = 6};
  const auto send_page = [&](std::uint8_t page, std::size_t bytes, std::size_t told, MembershipDrop why) {
    fixed.page = page;
    fixed.page_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(told));
    nothing_but(m, m.page_as(fixed, Bytes(bytes)), why);
  };
  send_page(0, kPlanPageBytes - 1, kPlanPageBytes - 1, MembershipDrop::kLength);
  send_page(0, kPlanPageBytes, kPlanPageBytes - 1, MembershipDrop::kLength);
  send_page(1, kPlanPageBytes, kPlanPageBytes, MembershipDrop::kLength);  // the last one is shorter
  send_page(2, 10, 10, MembershipDrop::kField);
  send_page(0, kPlanPageBytes + kMaxNameBytes + 1, kPlanPageBytes, MembershipDrop::kLength);

  guest().send_bare(m, m.page(0));
  nothing_but(m, m.page(0), MembershipDrop::kPlan);  // twice
  // What is not what the name says is thrown away whole.
  send_page(1, m.planned.bytes.host() - kPlanPageBytes, m.planned.bytes.host() - kPlanPageBytes,
            MembershipDrop::kPlan);
  EXPECT_EQ(status(1).boxes->missing_pages, 0b11U);
  EXPECT_EQ(row(1), nullptr);
  enlist(m, 1);
  bring_pages(m, 1);
  EXPECT_NE(row(1), nullptr);
  nothing_but(m, m.page(0), MembershipDrop::kPlan);  // it has the plan
}

TEST_F(MembersBoxesGuest, APlanThatIsNotForThisBoxIsRefused) {
  // Told by one who has the token: the home's own are right.
  const auto refused_plan = [&](Member& m, Plan plan, BoxIndex box) {
    m.epoch += 1;
    m.plan_bytes = write_plan(plan);
    m.planned.plan = auth::plan_id(m.plan_bytes);
    m.planned.bytes = Be<std::uint32_t>(static_cast<std::uint32_t>(m.plan_bytes.size()));
    const auto tell = [&] {
      ++m.seats[1].attempt;
      EnlistPayload p = m.enlist_payload(1);
      p.box = box;
      p.world = Be<std::uint16_t>(2);
      const auto sent = guest().send_bare(m, m.enlist_as(p));
      m.take_box(1, sent);
      return count_of(sent, PacketType::kChallenge, m);
    };
    if (tell() != 0) tell();
    const Sent s = refused(bring_pages(m, 1), m);
    EXPECT_EQ(status(1).phase, JobPhase::kDeclared);
    EXPECT_EQ(status(1).reason, s.text());
    EXPECT_EQ(row(1), nullptr);
    return s.text();
  };
  Member m = worker(0);
  const Plan good = *m.plan;
  EXPECT_THAT(refused_plan(m, good, 0),
              HasSubstr("box 0 of its plan is not this one, whose address is 10.9.0.2"));
  EXPECT_THAT(refused_plan(m, good, 2), HasSubstr("is not this one"));
  Plan plan = good;
  plan.table_of.push_back(0);
  EXPECT_THAT(refused_plan(m, plan, 1), HasSubstr("for 3 workers and 2 servers, and here it has 2 and 2"));
  plan = good;
  plan.server_count = 3;
  EXPECT_THAT(refused_plan(m, plan, 1), HasSubstr("for 2 workers and 3 servers"));
  plan = good;
  plan.servers[9] = 2;
  EXPECT_THAT(refused_plan(m, plan, 1), HasSubstr("what its home calls a plan is none"));
  worker(0).seats[1] = m.seats[1];
  EXPECT_TRUE(enlist_all(1)) << "the next epoch may be better";
}

TEST_F(MembersBoxesGuest, ARestartedDataPlaneForgetsTheEpoch) {
  ASSERT_TRUE(enlist_all(1));
  guest().members->restart_data_plane(guest().now);
  const auto sent = guest().settle();
  for (const Member& m : all) {
    const Sent s = only(sent, PacketType::kReject, m);
    EXPECT_TRUE(auth::verify(m.key_of(1), s.header, s.payload));
    EXPECT_EQ(s.header.epoch.host(), m.epoch);
    EXPECT_EQ(s.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kEpoch));
  }
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(status(1).live, 0U);
  EXPECT_TRUE(enlist_all(1));
  // What is not in the data plane is not lost with it.
  another_epoch();
  enlist(worker(0), 1);
  guest().members->restart_data_plane(guest().now);
  EXPECT_TRUE(guest().settle().empty());
  EXPECT_TRUE(enlist_all(1));
}

TEST_F(MembersBoxesGuest, ADisagreementIsToldToAllWhoAreEnlisted) {
  guest().cores_wait = true;
  enlist(server(0), 1);
  bring_pages(server(0), 1);
  guest().members->quiesced(guest().version, guest().now);
  server(0).take_box(1, guest().settle());
  enlist(worker(0), 1);  // waits for the other server
  const auto mismatch = [&](Epoch epoch) {
    guest().members->report_mismatch(ids[1], epoch, Rank{0}, 0b10, 16, 32, 100, 100, guest().now);
    return guest().settle();
  };
  EXPECT_TRUE(mismatch(Epoch{worker(0).epoch + 1}).empty());
  const auto sent = mismatch(Epoch{worker(0).epoch});
  const Sent abort = only(sent, PacketType::kAbort, server(0));
  EXPECT_TRUE(auth::verify(server(0).key_of(1), abort.header, abort.payload));
  EXPECT_THAT(abort.text(), HasSubstr("different operations"));
  EXPECT_EQ(refused(sent, worker(0)).text(), abort.text());
  EXPECT_EQ(sent.size(), 2U);
  EXPECT_EQ(status(1).phase, JobPhase::kAborted);
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(status(1).slots.count, 0U);
  // Who has not heard is told again, by whatever it says.
  const Sent again = only(guest().send_bare(server(0), server(0).beat(1)), PacketType::kAbort, server(0));
  EXPECT_TRUE(auth::verify(server(0).key_of(1), again.header, again.payload));
  guest().cores_wait = false;
  const auto answer = enlist(server(0), 1);
  const Sent third = only(answer, PacketType::kAbort, server(0));
  EXPECT_TRUE(auth::verify(server(0).key_of(1), third.header, third.payload));
  EXPECT_EQ(refused(answer, server(0)).text(), abort.text());
  EXPECT_EQ(dropped(1, MembershipDrop::kAborted), 2U);
  // Another epoch begins as ever.
  another_epoch();
  EXPECT_TRUE(enlist_all(1));
}

TEST_F(MembersBoxesGuest, AJobThatIsWithdrawnGoesOnWithoutThisBox) {
  enlist(server(0), 1);
  bring_pages(server(0), 1);
  enlist(worker(0), 1);
  const JobId id = ids[1];
  ASSERT_TRUE(guest().members->withdraw("resnet", "taken out of service"));
  const auto sent = guest().settle();
  const Sent s = only(sent, PacketType::kReject, server(0));
  EXPECT_TRUE(auth::verify(server(0).key_of(1), s.header, s.payload)) << "forgotten, and no end of the job";
  EXPECT_EQ(refused(sent, worker(0)).text(), "taken out of service");
  EXPECT_EQ(guest().row(id), nullptr);
  EXPECT_THAT(refused(enlist(server(0), 1), server(0)).text(), HasSubstr("not declared"));
}

TEST_F(MembersBoxesGuest, ABoxThatClosesSendsItsMembersAway) {
  ASSERT_TRUE(enlist_all(1));
  EXPECT_EQ(guest().members->close("the box is shut down"), 0U) << "nobody has to wait for the job";
  const auto sent = guest().settle();
  for (const Member& m : all) EXPECT_EQ(count_of(sent, PacketType::kReject, m), 1U);
  EXPECT_EQ(refused(enlist(worker(0), 1), worker(0)).text(), "the box is shut down");
}

TEST_F(MembersBoxesGuest, OperatorsAreSentToTheHome) {
  ASSERT_TRUE(enlist_all(1));
  for (const auto& done :
       {guest().members->abort("resnet", "wrong data", guest().now),
        guest().members->resize("resnet", 16, guest().now), guest().members->replan("resnet", guest().now)}) {
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text(), HasSubstr("the box at 10.9.0.1"));
  }
  EXPECT_EQ(status(1).phase, JobPhase::kRunning);
}

TEST_F(MembersBoxesGuest, OnlyWhatThisBoxGoesByChangesAtOnce) {
  ASSERT_TRUE(enlist_all(1));
  members::NativeConfig wanted = config(1);
  wanted.packet_rate = 2'000'000;
  wanted.quota.reserved_ppm = 500'000;
  wanted.token = "another";
  ASSERT_TRUE(guest().members->change(wanted, guest().now));
  guest().settle();
  EXPECT_TRUE(row(1)->limits_packets);
  EXPECT_EQ(row(1)->reserved, 50U);
  EXPECT_TRUE(status(1).deferred);
  EXPECT_EQ(guest().send_bare(worker(0), worker(0).beat(1)).size(), 1U) << "under the token that it has";
  for (Member& m : all) guest().send_bare(m, m.leave_box(1));
  EXPECT_FALSE(status(1).deferred);
  EXPECT_THAT(refused(enlist(worker(0), 1), worker(0)).text(), HasSubstr("wrong token"));
}

// The first ENLIST of another epoch finds nobody in the job any more: what waited for that takes effect first.
TEST_F(MembersBoxesGuest, AChangeTakesEffectBetweenTwoEpochs) {
  ASSERT_TRUE(enlist_all(1));
  members::NativeConfig wanted = config(1);
  wanted.elements = 64;
  ASSERT_TRUE(guest().members->change(wanted, guest().now));
  guest().send_bare(worker(0), worker(0).leave_box(1));
  ASSERT_TRUE(status(1).deferred);
  another_epoch();
  EXPECT_TRUE(enlist(worker(0), 1).empty());
  EXPECT_EQ(dropped(1, MembershipDrop::kWait), 1U);
  EXPECT_FALSE(status(1).deferred);
  EXPECT_EQ(status(1).slots.count, 0U);
  EXPECT_TRUE(enlist_all(1));
}

}  // namespace

}  // namespace tally::members_test
