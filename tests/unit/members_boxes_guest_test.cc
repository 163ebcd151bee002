// A box that is not the home of its job, and the members that enlist there, beat and leave (docs/protocol_boxes.md, 17.3).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_boxes_guest.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::HasSubstr;

TEST_F(MembersBoxesGuest, WhoEnlistsIsAskedForAChallengeFirst) {
  Member& m = worker(0);
  const auto sent = guest().send_bare(m, m.enlist(1));
  EXPECT_EQ(only(sent, PacketType::kChallenge, m).payload.size(), sizeof(ChallengePayload));
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared) << "nothing is remembered of it";
  m.take_box(1, sent);
  EXPECT_EQ(only(guest().send_bare(m, m.enlist(1)), PacketType::kJoined, m).status(), JoinStatus::kForming);
  // It is good for this binding alone, and for a moment.
  Member moved = m;
  moved.binding.udp_port ^= 1U;
  EXPECT_EQ(count_of(guest().send_bare(moved, moved.enlist(1)), PacketType::kChallenge, moved), 1U);
  guest().advance(9 * kSecond);
  EXPECT_EQ(count_of(guest().send_bare(m, m.enlist(1)), PacketType::kChallenge, m), 1U);
}

TEST_F(MembersBoxesGuest, ThePlanComesPageByPage) {
  Member& m = worker(1);
  ASSERT_EQ(plan_pages(m.planned.bytes.host()), 2U);
  const Sent first = only(enlist(m, 1), PacketType::kJoined, m);
  EXPECT_EQ(first.status(), JoinStatus::kForming);
  EXPECT_EQ(first.joined().missing.host(), 0b11U);
  EXPECT_EQ(first.joined().world.host(), 2U);
  EXPECT_TRUE(guest().send_bare(m, m.page(1)).empty());
  EXPECT_EQ(status(1).boxes->missing_pages, 0b01U);
  EXPECT_EQ(only(enlist(m, 1), PacketType::kJoined, m).joined().missing.host(), 0b01U);
  EXPECT_EQ(row(1), nullptr);
  // Any member brings what is missing.
  enlist(server(0), 1);
  guest().send_bare(server(0), server(0).page(0));
  EXPECT_EQ(status(1).boxes->missing_pages, 0U);
  ASSERT_NE(row(1), nullptr);
  EXPECT_EQ(accepted(1, PacketType::kPlan), 2U);
}

TEST_F(MembersBoxesGuest, AWorkerIsToldWhenAllServersAreThere) {
  Member& w = worker(0);
  enlist(w, 1);
  bring_pages(w, 1);
  ASSERT_NE(row(1), nullptr);
  EXPECT_EQ(status(1).phase, JobPhase::kRunning);
  const Sent waits = only(enlist(w, 1), PacketType::kJoined, w);
  EXPECT_EQ(waits.status(), JoinStatus::kForming);
  EXPECT_EQ(waits.joined().missing.host(), 0U) << "no page is missing";
  // A server is told at once, which is no reason to tell a worker while the other one is not here.
  const auto one = enlist(server(0), 1);
  EXPECT_TRUE(server(0).seats[1].running);
  EXPECT_EQ(count_of(one, PacketType::kJoined, w), 0U);
  guest().cores_wait = true;
  EXPECT_EQ(count_of(enlist(server(1), 1), PacketType::kJoined, w), 0U) << "the cores do not know it yet";
  guest().members->quiesced(guest().version, guest().now);
  const auto two = guest().settle();
  EXPECT_TRUE(w.take_box(1, two)) << "unasked, with the nonce of its newest ENLIST";
  EXPECT_TRUE(server(1).take_box(1, two));
}

TEST_F(MembersBoxesGuest, JoinedRunningSaysWhatIsOfThisBox) {
  ASSERT_TRUE(enlist_all(1));
  for (Member& m : all) {
    const Sent s = only(enlist(m, 1), PacketType::kJoined, m);
    const JoinedPayload p = s.joined();
    EXPECT_EQ(p.status, JoinStatus::kRunning);
    EXPECT_EQ(s.header.job_id(), ids[1]);
    EXPECT_NE(ids[1], ids[0]);
    EXPECT_EQ(s.header.epoch.host(), m.epoch);
    EXPECT_EQ(s.header.cookie.host(), m.result_cookie);
    EXPECT_EQ(s.header.priority, m.priority);
    EXPECT_EQ(s.header.flags, 0);
    EXPECT_TRUE(s.text().empty());
    EXPECT_EQ(p.cookie.host(), m.cookie);
    EXPECT_EQ(p.record, m.last);
    EXPECT_EQ(p.window.host(), m.window);
    EXPECT_EQ(p.lease_ms.host(), m.lease_ms);
    EXPECT_EQ(p.shards, guest().options.shards);
    EXPECT_EQ(p.box_mac, guest().options.box_mac);
    EXPECT_EQ(p.discipline, Discipline::kShared);
    EXPECT_EQ(p.shared_slots.host(), 100U);
  }
}

TEST_F(MembersBoxesGuest, TheRowHasWhoIsEnlistedSoFar) {
  enlist(server(1), 1);
  bring_pages(server(1), 1);
  enlist(worker(1), 1);
  const jobs::NativeJob* r = row(1);
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(r->epoch, Epoch{worker(0).epoch});
  EXPECT_EQ(r->generation, Generation{worker(0).last.generation.host()});
  EXPECT_EQ(r->result_cookie, Cookie{worker(0).result_cookie});
  EXPECT_EQ(r->window, worker(0).window);
  EXPECT_EQ(r->span, 2 * worker(0).last.largest_window.host());
  EXPECT_EQ(r->elements, worker(0).last.elements.host());
  EXPECT_EQ(r->max_priority, worker(0).priority);
  EXPECT_EQ(r->discipline, Discipline::kShared);
  EXPECT_EQ(r->servers, 2);
  EXPECT_EQ(r->members, 0b11U);
  EXPECT_EQ(r->enlisted, 0b10U);
  EXPECT_EQ(r->enlisted_servers, 0b10U);
  EXPECT_EQ(r->part->here, jobs::part_of(*worker(0).plan, 1).here);
  EXPECT_EQ(r->key_sum, r->ranks[0].key + r->ranks[1].key);
  EXPECT_EQ(r->ranks[1].cookie, Cookie{worker(1).cookie});
  EXPECT_EQ(r->ranks[1].binding, worker(1).binding);
  EXPECT_EQ(r->server_ranks[1].binding, server(1).binding);
  // Who is not here is nobody, and can be guessed by nobody.
  EXPECT_EQ(r->ranks[0].binding, jobs::Binding{});
  EXPECT_NE(r->ranks[0].cookie, Cookie{});
  EXPECT_NE(r->ranks[0].cookie, Cookie{worker(0).cookie});
  EXPECT_NE(r->server_ranks[0].cookie, Cookie{server(0).cookie});
  EXPECT_EQ(status(1).live, 0b10U);
  EXPECT_TRUE(status(1).ranks[1].joined && !status(1).ranks[0].joined);
}

TEST_F(MembersBoxesGuest, WhatMembersSayOfTheEpochMustBeEqual) {
  ASSERT_TRUE(enlist_all(1));
  Member& m = worker(0);
  const auto differs = [&](auto change) {
    return refusal(m, MembershipDrop::kField, [&](EnlistPayload& p, Member&) { change(p); });
  };
  const auto says = HasSubstr("rank 0 says of the epoch what others do not");
  EXPECT_THAT(differs([](auto& p) { p.window = Be<std::uint32_t>(16); }), says);
  EXPECT_THAT(differs([](auto& p) { p.result_cookie = Be<std::uint64_t>(5); }), says);
  EXPECT_THAT(differs([](auto& p) { p.record.generation = Be<std::uint64_t>(5); }), says);
  EXPECT_THAT(differs([](auto& p) { p.record.elements = Be<std::uint16_t>(16); }), says);
  EXPECT_THAT(differs([](auto& p) { p.lease_ms = Be<std::uint32_t>(5'000); }), says);
  guest().advance(kSecond);  // refusals are limited
  EXPECT_THAT(differs([](auto& p) { p.plan[3] ^= 1U; }), says);
  EXPECT_THAT(differs([](auto& p) { p.plan_bytes = Be<std::uint32_t>(5'000); }), says);
  EXPECT_THAT(differs([](auto& p) { p.box = 0; }), says);
  EXPECT_THAT(differs([](auto& p) { p.max_priority = 3; }), says);
  EXPECT_EQ(row(1)->enlisted, 0b11U) << "whoever was enlisted still is";
}

TEST_F(MembersBoxesGuest, WhoMayNotEnlistIsToldWhy) {
  Member& m = worker(0);
  EXPECT_THAT(refusal(m, MembershipDrop::kWorld, [](auto& p, auto&) { p.world = Be<std::uint16_t>(3); }),
              HasSubstr("job 'resnet' has 2 workers here, and 3 at its home"));
  EXPECT_THAT(refusal(m, MembershipDrop::kRank, [](auto&, Member& said) { said.rank = raw(server_rank(2)); }),
              HasSubstr("has no server 2 here"));
  ASSERT_TRUE(enlist_all(1));
  EXPECT_THAT(refusal(m, MembershipDrop::kCookie, [](auto&, Member& said) { said.cookie ^= 1U; }),
              HasSubstr("another secret"));
  EXPECT_THAT(refusal(m, MembershipDrop::kHeld,
                      [&](EnlistPayload& p, Member& said) {
                        said.instance = 77;  // another process, which has a challenge of its own
                        p.instance = Be<std::uint64_t>(77);
                        guest().send_bare(said, said.enlist_as(p));
                        said.take_box(1, guest().send_bare(said, said.enlist_as(p)));
                        p.challenge = said.seats[1].challenge;
                      }),
              HasSubstr("held by a live process"));
}

TEST_F(MembersBoxesGuest, WhoLacksTheTokenHearsNothingThatBearsATag) {
  Member m = worker(0);
  m.token = "guessed";
  const Sent s = refused(enlist(m, 1), m);
  EXPECT_THAT(s.text(), HasSubstr("wrong token"));
  EXPECT_EQ(Bytes(s.payload.end() - kTagBytes, s.payload.end()), Bytes(kTagBytes));
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared);
  m.job = "resnte";
  EXPECT_THAT(refused(enlist(m, 1), m).text(), HasSubstr("not declared"));
  EXPECT_EQ(dropped(1, MembershipDrop::kUnknownJob), 1U);
}

TEST_F(MembersBoxesGuest, NobodyEnlistsAtTheHomeOrForAJobOfOneBox) {
  Member& m = worker(0);
  EXPECT_THAT(refused(enlist(m, 0), m).text(), HasSubstr("has its home here"));
  Member other = m;
  other.job = "other0";
  EXPECT_THAT(refused(enlist(other, 1), other).text(), HasSubstr("of this box alone"));
  EXPECT_EQ(dropped(0, MembershipDrop::kType) + dropped(1, MembershipDrop::kType), 2U);
}

TEST_F(MembersBoxesGuest, WhatIsOutOfRangeIsDropped) {
  Member& m = worker(0);
  enlist(m, 1);
  const auto drops = [&](auto change) {
    ++m.seats[1].attempt;
    EnlistPayload p = m.enlist_payload(1);
    change(p);
    nothing_but(m, m.enlist_as(p), MembershipDrop::kField);
  };
  drops([](auto& p) { p.instance = {}; });
  drops([](auto& p) { p.window = Be<std::uint32_t>(48); });
  drops([](auto& p) { p.window = Be<std::uint32_t>(512); });  // above the largest of the generation
  drops([](auto& p) { p.result_cookie = {}; });
  drops([](auto& p) { p.record = {}; });
  drops([](auto& p) { p.world = {}; });
  drops([](auto& p) { p.world = Be<std::uint16_t>(65); });
  drops([](auto& p) { p.lease_ms = Be<std::uint32_t>(99); });
  drops([](auto& p) { p.plan_bytes = Be<std::uint32_t>(plan_bytes(1, 2, 1) - 1); });
  drops([](auto& p) { p.plan_bytes = Be<std::uint32_t>(kMaxPlanBytes + 1); });
  drops([](auto& p) { p.box = 64; });
  drops([](auto& p) { p.max_priority = 255; });
  drops([](auto& p) { p.zero = 1; });
  Member other = m;
  other.epoch = 0;
  nothing_but(m, other.enlist(1), MembershipDrop::kField);
  other = m;
  other.cookie = 0;
  nothing_but(m, other.enlist(1), MembershipDrop::kField);
  other = m;
  other.rank = 2;
  nothing_but(m, other.enlist(1), MembershipDrop::kField);
  ++m.seats[1].attempt;
  EnlistPayload p = m.enlist_payload(1);
  ++p.name_bytes;
  nothing_but(m, m.enlist_as(p), MembershipDrop::kLength);
}

TEST_F(MembersBoxesGuest, AnEnlistIsTakenOnce) {
  ASSERT_TRUE(enlist_all(1));
  enlist(worker(0), 1);
  nothing_but(worker(0), worker(0).enlist_again(1), MembershipDrop::kOldAttempt);
}

TEST_F(MembersBoxesGuest, AMemberThatMovedIsToldWhenTheCoresKnowIt) {
  ASSERT_TRUE(enlist_all(1));
  guest().cores_wait = true;
  Member& m = worker(0);
  m.binding.udp_port ^= 1U;
  enlist(m, 1);
  EXPECT_EQ(only(enlist(m, 1), PacketType::kJoined, m).status(), JoinStatus::kForming);
  EXPECT_EQ(row(1)->ranks[0].binding, m.binding);
  guest().members->quiesced(guest().version, guest().now);
  EXPECT_EQ(only(guest().settle(), PacketType::kJoined, m).status(), JoinStatus::kRunning);
}

// As at the home, which gave it the secret of its rank.
TEST_F(MembersBoxesGuest, AServersNextProcessTakesItsPlace) {
  ASSERT_TRUE(enlist_all(1));
  server(0).instance = 4711;
  server(0).seats[1] = {};
  EXPECT_EQ(only(enlist(server(0), 1), PacketType::kJoined, server(0)).status(), JoinStatus::kRunning);
  EXPECT_EQ(status(1).servers[0].instance, 4711U);
  EXPECT_EQ(guest().send_bare(server(0), server(0).beat(1)).size(), 1U);
}

TEST_F(MembersBoxesGuest, HeartbeatsComeBackUnderTheKeyOfThisBox) {
  ASSERT_TRUE(enlist_all(1));
  Member& m = worker(0);
  const Sent echo = only(guest().send_bare(m, m.beat(1)), PacketType::kHeartbeat, m);
  EXPECT_TRUE(auth::verify(m.key_of(1), echo.header, echo.payload));
  EXPECT_FALSE(m.believes(echo)) << "not that of the home";
  EXPECT_EQ(echo.header.contributors.host(), 0b11U) << "only the home knows who has left";
  EXPECT_EQ(echo.header.epoch.host(), m.epoch);
  EXPECT_EQ(echo.header.cookie.host(), m.result_cookie);
  const Bytes beat = m.beat(1);
  guest().send_bare(m, beat);
  nothing_but(m, beat, MembershipDrop::kReplay);
  Member other = m;
  other.token = "guessed";
  nothing_but(m, other.beat(1), MembershipDrop::kTag);
  other = m;
  other.cookie ^= 1U;
  nothing_but(m, other.beat(1), MembershipDrop::kCookie);
  other = m;
  other.binding.udp_port ^= 1U;
  nothing_but(other, m.beat(1), MembershipDrop::kSource);
  // These are for the home.
  other = m;
  other.job_id = raw(ids[1]);
  nothing_but(m, other.abort("tired"), MembershipDrop::kType);
  nothing_but(m, other.lost(1, 0), MembershipDrop::kType);
  other.rank = 5;
  nothing_but(m, other.beat(1), MembershipDrop::kRank);
}

TEST_F(MembersBoxesGuest, ABoxThatKnowsNothingSaysSoUnderTheJobsKey) {
  ASSERT_TRUE(enlist_all(1));
  guest().forget_everything();
  Member& m = worker(0);
  const Bytes beat = m.beat(1);
  const Sent s = only(guest().send_bare(m, beat), PacketType::kReject, m);
  EXPECT_TRUE(auth::verify(m.job_key(), s.header, s.payload));
  EXPECT_EQ(s.counter(), m.seats[1].sent) << "of the HEARTBEAT that it answers";
  EXPECT_EQ(s.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kJob));
  EXPECT_EQ(s.header.epoch.host(), m.epoch);
  // The job's id there may be another by now.
  m.seats[1].job_id = 1'000;
  EXPECT_EQ(count_of(guest().send_bare(m, m.beat(1)), PacketType::kReject, m), 1U);
  // It takes the same epoch again from who still lives in it.
  EXPECT_TRUE(enlist_all(1));
}

TEST_F(MembersBoxesGuest, WhoIsSilentForALeaseIsUnknownAgain) {
  ASSERT_TRUE(enlist_all(1));
  pass(9 * kSecond, &worker(1), 1);
  EXPECT_EQ(row(1)->enlisted, 0b11U);
  const Cookie known = row(1)->ranks[1].cookie;
  pass(3 * kSecond, &worker(1), 1);
  EXPECT_EQ(row(1)->enlisted, 0b01U);
  EXPECT_EQ(row(1)->ranks[1].binding, jobs::Binding{});
  EXPECT_NE(row(1)->ranks[1].cookie, known);
  EXPECT_EQ(status(0).phase, JobPhase::kRunning) << "at the home it is as alive as ever";
  const Sent s = only(guest().send_bare(worker(1), worker(1).beat(1)), PacketType::kReject, worker(1));
  EXPECT_TRUE(auth::verify(worker(1).job_key(), s.header, s.payload));
  worker(1).seats[1].running = false;
  enlist(worker(1), 1);
  EXPECT_TRUE(worker(1).seats[1].running);
}

TEST_F(MembersBoxesGuest, WhatDataCoresSeeKeepsAMemberEnlisted) {
  ASSERT_TRUE(enlist_all(1));
  for (int i = 0; i < 15; ++i) {
    pass(kSecond, &worker(0), 1);
    guest().saw(ids[1], Rank{0}, guest().now);
  }
  EXPECT_EQ(row(1)->enlisted, 0b11U);
}

TEST_F(MembersBoxesGuest, WhenNobodyIsLeftTheBoxForgetsTheJob) {
  const std::uint32_t free = status(1).slots.count;
  ASSERT_TRUE(enlist_all(1));
  EXPECT_GT(status(1).slots.count, free);
  guest().advance(11 * kSecond);
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(status(1).phase, JobPhase::kEnded);
  EXPECT_EQ(status(1).slots.count, 0U);
  EXPECT_EQ(status(1).reserved, 0U);
  EXPECT_THAT(status(1).reason, HasSubstr("rank 0 at 10.0.0.0 was silent for 10.0 s"));
  // Pages that came for nothing are gone as well.
  enlist(worker(0), 1);
  guest().send_bare(worker(0), worker(0).page(0));
  guest().advance(11 * kSecond);
  EXPECT_EQ(status(1).phase, JobPhase::kDeclared);
  EXPECT_EQ(only(enlist(worker(0), 1), PacketType::kJoined, worker(0)).joined().missing.host(), 0b11U);
}

TEST_F(MembersBoxesGuest, WhoLeavesIsEchoedAndUnknownFromThenOn) {
  ASSERT_TRUE(enlist_all(1));
  Member& m = worker(0);
  Bytes forged = m.leave_box(1);
  Member other = m;
  other.planned.home = 1;
  nothing_but(m,
              tagged(wire_at<Header>(forged.data()),
                     Bytes(forged.begin() + kHeaderBytes, forged.end() - kTagBytes), m.session_key()),
              MembershipDrop::kTag);  // the home's key says nothing here
  const Sent echo = only(guest().send_bare(m, m.leave_box(1)), PacketType::kLeave, m);
  EXPECT_TRUE(auth::verify(m.key_of(1), echo.header, echo.payload));
  EXPECT_EQ(status(1).phase, JobPhase::kDraining);
  EXPECT_EQ(row(1)->enlisted, 0b10U);
  EXPECT_EQ(guest().send_bare(worker(1), worker(1).beat(1)).size(), 1U) << "the others stay";
  for (std::size_t i = 1; i < all.size(); ++i) guest().send_bare(all[i], all[i].leave_box(1));
  EXPECT_EQ(row(1), nullptr);
  EXPECT_EQ(status(1).phase, JobPhase::kEnded);
  EXPECT_EQ(status(1).slots.count, 0U);
  EXPECT_EQ(guest().members->deadline(), kNever);
}

}  // namespace
}  // namespace tally::members_test
