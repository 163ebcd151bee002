// A box that is not the home of its job, and the members that enlist there (docs/protocol_boxes.md, 17.3).

#include <algorithm>
#include <bit>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_boxes_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::HasSubstr;

struct MembersBoxesGuest : testing::Test, Boxes {
  MembersBoxesGuest() : Boxes(2) { EXPECT_TRUE(form()); }

  Bench& guest() { return boxes[1]; }
  Member& worker(std::size_t i) { return all[i]; }
  Member& server(std::size_t i) { return all[workers + i]; }
  void nothing_but(const Peer& from, const Bytes& datagram, MembershipDrop why) {
    const std::uint64_t before = dropped(1, why);
    EXPECT_TRUE(guest().send_bare(from, datagram).empty());
    EXPECT_EQ(dropped(1, why), before + 1) << members::name_of(why);
  }
  // The member's next ENLIST as `change` makes it, with a fresh challenge; the refusal's text.
  template <class Change>
  std::string refusal(Member& m, MembershipDrop why, Change change) {
    enlist(m, 1);
    Member said = m;
    Seat& seat = said.seats[1];
    m.seats[1].attempt = ++seat.attempt;
    EnlistPayload payload = said.enlist_payload(1);
    change(payload, said);
    const std::uint64_t before = dropped(1, why);
    const auto sent = guest().send_bare(m, said.enlist_as(payload));
    EXPECT_EQ(dropped(1, why), before + 1) << members::name_of(why);
    if (sent.size() != 1 || sent[0].type() != PacketType::kJoined) return "no answer";
    EXPECT_EQ(sent[0].status(), JoinStatus::kRefused);
    EXPECT_TRUE(auth::verify(m.job_key(), sent[0].header, sent[0].payload));
    return sent[0].text();
  }
  Sent refused(const std::vector<Sent>& sent, const Member& m) {
    Sent s = only(sent, PacketType::kJoined, m);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    return s;
  }
  // The home begins another epoch, and its members are in it.
  void another_epoch() {
    ASSERT_TRUE(home().members->replan("resnet", home().now));
    home().settle();
    ASSERT_TRUE(form());
  }
};

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
