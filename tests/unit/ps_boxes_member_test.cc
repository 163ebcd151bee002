// A server's membership at the boxes of a plan (docs/protocol_boxes.md, 17.1 to 17.4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_boxes_fleet.h"

namespace tally::psbed {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PlannedJob three_boxes() {
  PlannedJob job;
  job.job.world = 6;
  job.job.shards = 1;
  job.plan = racks(6, 3);
  return job;
}

class PsBoxesMember : public testing::Test {
 protected:
  PsBoxesMember() : fleet({three_boxes()}), job(fleet.jobs[0]) {}
  void join() {
    (void)fleet.settle();
    (void)fleet.events();
  }
  [[nodiscard]] Ipv6 box(BoxIndex at) const { return job.plan.boxes[at]; }
  static std::vector<FleetOut> only(std::vector<FleetOut> all, PacketType type) {
    std::erase_if(all, [=](const FleetOut& out) { return out.type() != type; });
    return all;
  }
  // The last part of a chunk; the others come through their boxes.
  void complete(std::uint32_t chunk) {
    for (BoxIndex b = 0; b < 3; ++b)
      fleet.hear(job, b, job.at(b).partial(std::uint64_t{0b11} << (2 * b), Chunk{chunk}));
  }
  Fleet fleet;
  PlannedJob& job;
};

TEST_F(PsBoxesMember, FetchesThePlanAndEnlistsAtEveryOtherBox) {
  const auto joins = fleet.drain();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_EQ(joins[0].box, box(kA));
  fleet.answer(joins[0]);
  EXPECT_TRUE(fleet.server->member(0).joining()) << "no plan, no epoch";
  EXPECT_EQ(fleet.counted().epochs, 0U);
  const auto wishes = fleet.drain();
  ASSERT_EQ(wishes.size(), plan_pages(job.bytes().size()));
  for (const FleetOut& out : wishes) {
    EXPECT_EQ(out.type(), PacketType::kPlan);
    EXPECT_EQ(out.box, box(kA));
    fleet.answer(out);
  }
  EXPECT_FALSE(fleet.server->member(0).joining());
  EXPECT_THAT(fleet.events(), ElementsAre("runs with 6 workers, 32 elements, span 32, over 3 boxes"));
  const auto enlists = fleet.drain();
  ASSERT_EQ(enlists.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Header h = enlists[i].header();
    const EnlistPayload p = enlist_payload(enlists[i].bytes);
    EXPECT_EQ(enlists[i].box, job.plan.boxes[p.box]);
    EXPECT_EQ(h.rank_id(), server_rank(0));
    EXPECT_EQ(h.epoch.host(), job.job.epoch);
    EXPECT_EQ(h.cookie.host(), job.job.cookie());
    EXPECT_EQ(h.job.host(), 0U);
    EXPECT_EQ(p.result_cookie.host(), job.job.result_cookie());
    EXPECT_EQ(p.record, job.job.membership().record());
    EXPECT_EQ(p.world.host(), 6U) << "a server's too";
    EXPECT_EQ(p.plan, auth::plan_id(job.bytes()));
    EXPECT_EQ(job_of_enlist(enlists[i].bytes), job.job.name);
    EXPECT_TRUE(auth::verify(job.job.job_key(), h, payload_of(enlists[i].bytes)));
  }
  EXPECT_NE(enlist_payload(enlists[0].bytes).box, enlist_payload(enlists[1].bytes).box);
  for (const FleetOut& out : enlists) fleet.answer(out);
  EXPECT_EQ(fleet.counted().enlisted, 2U);
  EXPECT_THAT(fleet.quiet(), IsEmpty());
}

TEST_F(PsBoxesMember, PassesOnThePagesThatABoxLacks) {
  fleet.silent = {box(kB), box(kC)};
  const auto said = only(fleet.settle(), PacketType::kEnlist);
  ASSERT_EQ(said.size(), 2U);
  const FleetOut& at_b = said[0].box == box(kB) ? said[0] : said[1];
  fleet.hear(job, kB, job.lacks(kB, enlist_payload(at_b.bytes).nonce.host(), 0b11));
  auto out = fleet.quiet();
  ASSERT_GE(out.size(), 2U);
  for (std::uint8_t page = 0; page < 2; ++page) {
    EXPECT_EQ(out[page].box, box(kB));
    const Header h = out[page].header();
    ASSERT_EQ(h.type, PacketType::kPlan);
    const Bytes payload = payload_of(out[page].bytes);
    const auto body = auth::body_of(payload);
    const auto p = wire_at<PlanPayload>(body.data());
    EXPECT_EQ(p.page, page);
    const auto content = body.subspan(sizeof p + p.name_bytes);
    const Bytes all = job.bytes();
    EXPECT_EQ(Bytes(content.begin(), content.end()),
              Bytes(all.begin() + page * 1280, all.begin() + page * 1280 + 1280));
  }
}

TEST_F(PsBoxesMember, SumsGoInAndOutByEachBoxsIdAddressAndPorts) {
  join();
  complete(4);
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 3U);
  for (BoxIndex b = 0; b < 3; ++b) {
    EXPECT_EQ(out[b].box, box(b));
    job.at(b).expect_result(out[b].bytes, std::uint64_t{0b11} << (2 * b), Chunk{4});
    EXPECT_EQ(out[b].port, kBasePort + 4 % job.at(b).shards);
  }
}

// The ids of a job are each box's own: only the address tells two apart.
TEST(PsBoxesMembers, TheSameIdIsAnotherJobAtAnotherBox) {
  PlannedJob a;
  a.job.world = 2;
  a.plan = racks(2, 2);
  PlannedJob b = a;
  b.job.name = "b";
  b.job.epoch = 200;
  b.job.generation = 0xBBBB;
  std::swap(b.plan.boxes[0], b.plan.boxes[1]);  // its home is the other box
  b.home = 0;
  Fleet fleet({a, b}, {a.plan.boxes[0], a.plan.boxes[1]});
  (void)fleet.settle();
  ASSERT_EQ(fleet.counted(0).enlisted + fleet.counted(1).enlisted, 2U);
  ASSERT_EQ(a.at(0).id, b.at(0).id);
  for (const PlannedJob& job : {a, b}) {
    fleet.hear(job, 0, job.at(0).partial(0b01, Chunk{4}));
    fleet.hear(job, 1, job.at(1).partial(0b10, Chunk{4}));
    const auto out = fleet.quiet();
    ASSERT_EQ(out.size(), 2U);
    for (BoxIndex box = 0; box < 2; ++box) {
      EXPECT_EQ(out[box].box, job.plan.boxes[box]);
      job.at(box).expect_result(out[box].bytes, std::uint64_t{1} << box, Chunk{4});
    }
  }
  fleet.expect_refused(b.plan.boxes[0], a.at(0).partial(0b01, Chunk{5}), Refused::kEpoch);
}

TEST_F(PsBoxesMember, WhatComesFromNoBoxOfThePlanIsRefused) {
  join();
  fleet.expect_refused(mapped({10, 9, 9, 9}), job.at(kB).partial(0b1100, Chunk{4}), Refused::kJob);
  fleet.expect_refused(box(kA), job.at(kB).partial(0b1100, Chunk{4}), Refused::kJob);
  fleet.expect_refused(mapped({10, 9, 9, 9}), job.echo(kB), Refused::kJob);
}

// A box that has not taken the server in yet knows no cookie of it: nothing may go there.
TEST_F(PsBoxesMember, ABoxGetsNothingBeforeItHasTakenTheServerIn) {
  fleet.silent = {box(kC)};
  join();
  fleet.hear(job, kA, job.at(kA).partial(0b000011, Chunk{4}));
  fleet.hear(job, kB, job.at(kB).partial(0b001100, Chunk{4}));
  fleet.expect_refused(box(kC), job.at(kC).partial(0b110000, Chunk{4}), Refused::kJob);
  for (const std::uint16_t rank : {std::uint16_t{4}, std::uint16_t{5}})
    fleet.hear(job, kB, job.at(kB).contribution(rank, Chunk{4}));
  const auto out = only(fleet.quiet(), PacketType::kResult);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(fleet.counted().unreached, 2U);
}

TEST_F(PsBoxesMember, BeatsAtEveryBoxAsOftenAsItsLimitNeeds) {
  join();
  const auto beats = only(fleet.live(10 * kSecond), PacketType::kHeartbeat);
  std::array<int, 3> at{};
  for (const FleetOut& out : beats) {
    for (BoxIndex b = 0; b < 3; ++b) at[b] += out.box == box(b) ? 1 : 0;
  }
  EXPECT_THAT(at, ElementsAre(testing::Ge(9), testing::Ge(39), testing::Ge(39)))
      << "each second at home, each quarter of a tenth of the lease at others";
  EXPECT_EQ(fleet.counted().boxes_lost, 0U);
}

TEST_F(PsBoxesMember, ASilentBoxIsLostAndTheHomeHearsOfItUntilThereIsAnotherEpoch) {
  join();
  fleet.silent = {box(kB)};
  const auto said = fleet.live(3 * kSecond);
  const auto lost = only(said, PacketType::kLost);
  ASSERT_GE(lost.size(), 2U) << "at once, and with each HEARTBEAT";
  for (const FleetOut& out : lost) {
    EXPECT_EQ(out.box, box(kA));
    EXPECT_EQ(lost_payload(out.bytes).gone.host(), 0b010U);
    EXPECT_EQ(lost_payload(out.bytes).forgot.host(), 0U);
    EXPECT_EQ(out.header().cookie.host(), job.job.cookie());
    EXPECT_TRUE(auth::verify(job.job.membership().session, out.header(), payload_of(out.bytes)));
  }
  EXPECT_THAT(fleet.events(), ElementsAre("box 10.0.0.2 has not answered for 1000 ms"));
  EXPECT_EQ(fleet.counted().boxes_lost, 1U);
  complete(4);
  const auto out = fleet.quiet();
  EXPECT_EQ(only(out, PacketType::kResult).size(), 2U) << "what B's ranks lack they have in the next epoch";
  EXPECT_EQ(fleet.counted().unreached, 1U);
}

TEST_F(PsBoxesMember, ABoxThatForgotIsAnotherMatterThanOneThatIsGone) {
  join();
  std::uint64_t counter = 0;
  while (counter == 0) {
    fleet.now = fleet.server->deadline();
    for (const FleetOut& out : fleet.drain()) {
      if (out.box == box(kC) && out.type() == PacketType::kHeartbeat)
        counter = counter_of(out.bytes);
      else
        fleet.answer(out);
    }
  }
  fleet.hear(job, kC, job.forgot(kC, counter));
  const auto lost = only(fleet.quiet(), PacketType::kLost);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost_payload(lost[0].bytes).gone.host(), 0U);
  EXPECT_EQ(lost_payload(lost[0].bytes).forgot.host(), 0b100U);
  EXPECT_THAT(fleet.events(), ElementsAre("box 10.0.0.3 has forgotten the epoch"));
}

TEST_F(PsBoxesMember, ABoxThatRefusesIsGone) {
  fleet.silent = {box(kB)};
  const auto enlists = only(fleet.settle(), PacketType::kEnlist);
  (void)fleet.events();
  for (const FleetOut& out : enlists) {
    if (out.box != box(kB)) continue;
    fleet.hear(job, kB, job.refuses(kB, enlist_payload(out.bytes).nonce.host(), "no room"));
  }
  EXPECT_THAT(fleet.events(), ElementsAre("box 10.0.0.2 refuses it: no room"));
  const auto lost = only(fleet.quiet(), PacketType::kLost);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost_payload(lost[0].bytes).gone.host(), 0b010U);
}

// The box's control may be slow; that data comes from it proves that it lives.
TEST_F(PsBoxesMember, WhatABoxHandsOverCountsAsAnAnswer) {
  join();
  fleet.silent = {box(kB)};
  for (std::uint32_t i = 0; i < 30; ++i) {
    (void)fleet.live(100 * kMillisecond);
    fleet.hear(job, kB, job.at(kB).partial(0b001100, Chunk{i}));
  }
  EXPECT_EQ(fleet.counted().boxes_lost, 0U);
  (void)fleet.live(2 * kSecond);
  EXPECT_EQ(fleet.counted().boxes_lost, 1U);
}

// The process was stopped, or its machine too busy: boxes whose answers it did not read are not lost.
TEST_F(PsBoxesMember, WhoDidNotRunForAWhileBlamesNoBox) {
  join();
  (void)fleet.live(2 * kSecond);
  fleet.now += 5 * kSecond;
  for (const FleetOut& out : fleet.drain()) fleet.answer(out);
  (void)fleet.live(2 * kSecond);
  EXPECT_EQ(fleet.counted().boxes_lost, 0U);
  EXPECT_THAT(fleet.events(), IsEmpty());
}

TEST_F(PsBoxesMember, CalledBackItSaysNothingToOthersAndGoesOnSumming) {
  join();
  const PlannedJob before = job;
  fleet.silent = {box(kA)};
  fleet.hear(job, kA, job.at(kA).reject(RejectReason::kEpoch));
  const auto said = fleet.live(3 * kSecond);
  EXPECT_THAT(only(said, PacketType::kJoin), testing::Not(IsEmpty()));
  for (const FleetOut& out : said) EXPECT_EQ(out.type(), PacketType::kJoin) << "and no ENLIST, no HEARTBEAT";
  complete(4);
  EXPECT_EQ(only(fleet.quiet(), PacketType::kResult).size(), 3U);
  // The next plan does without B.
  fleet.silent.clear();
  ++job.job.epoch;
  job.plan = plan_of(6, 2, [](std::uint16_t rank, std::uint32_t) {
    return Route{rank < 3 ? kA : kB, false};
  });
  job.plan.boxes[1] = before.plan.boxes[2];
  fleet.hear(before, kB, before.at(kB).partial(0b001100, Chunk{5}));
  EXPECT_EQ(fleet.server->memory().incomplete, 1U);
  (void)fleet.live(2 * kSecond);
  EXPECT_EQ(fleet.server->memory().incomplete, 0U) << "a new epoch drops the states";
  EXPECT_EQ(fleet.counted().epochs, 2U);
  EXPECT_EQ(fleet.counted().generations, 1U);
  fleet.expect_refused(before.plan.boxes[1], before.at(kB).partial(0b001100, Chunk{5}), Refused::kJob);
  fleet.expect_refused(before.plan.boxes[2], before.at(kC).partial(0b110000, Chunk{5}), Refused::kJob);
  fleet.hear(job, 0, job.at(0).partial(0b000111, Chunk{5}));
  fleet.hear(job, 1, job.at(1).partial(0b111000, Chunk{5}));
  EXPECT_EQ(only(fleet.quiet(), PacketType::kResult).size(), 2U);
}

TEST_F(PsBoxesMember, CalledBackForNothingItGoesOnWhereItWas) {
  join();
  complete(4);
  (void)fleet.quiet();
  fleet.hear(job, kA, job.at(kA).reject(RejectReason::kEpoch));
  (void)fleet.live(2 * kSecond);
  EXPECT_EQ(fleet.counted().epochs, 1U);
  EXPECT_EQ(fleet.counted().enlisted, 2U) << "nobody enlists again in the same epoch";
  fleet.hear(job, kB, job.at(kB).query(3, Chunk{4}));
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 1U);
  job.at(kB).expect_result(out[0].bytes, 0b001000, Chunk{4});
}

TEST_F(PsBoxesMember, ABoxThatEndsTheJobEndsItAtTheHome) {
  join();
  fleet.hear(job, kB, job.ends(kB, "rank 2 sent 32 elements"));
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].type(), PacketType::kAbort);
  EXPECT_EQ(out[0].box, box(kA));
  EXPECT_THAT(fleet.events(), Contains(HasSubstr("box 10.0.0.2: rank 2 sent 32 elements")));
  fleet.hear(job, kA, job.at(kA).abort("server 0: ..."));
  for (const FleetOut& said : fleet.quiet()) EXPECT_EQ(said.type(), PacketType::kJoin);
  fleet.expect_refused(box(kB), job.at(kB).partial(0b001100, Chunk{5}), Refused::kState);
  fleet.expect_refused(box(kB), job.ends(kB, "again"), Refused::kState);
}

TEST(PsBoxesMembers, AnyBoxOfTheJobLeadsToItsHome) {
  PlannedJob job = three_boxes();
  job.home = kC;
  Fleet fleet({job}, {job.plan.boxes[kA]});
  const auto said = fleet.settle();
  ASSERT_GE(said.size(), 2U);
  EXPECT_EQ(said[0].box, job.plan.boxes[kA]);
  EXPECT_EQ(said[1].box, job.plan.boxes[kC]);
  EXPECT_EQ(fleet.counted().enlisted, 2U);
  EXPECT_EQ(fleet.server->member(0).address(0), job.plan.boxes[kC]);
  fleet.hear(job, kA, job.at(kA).partial(0b000011, Chunk{4}));  // a guest, where it first asked
  fleet.hear(job, kB, job.at(kB).partial(0b001100, Chunk{4}));
  fleet.hear(job, kC, job.at(kC).partial(0b110000, Chunk{4}));
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 3U);
  for (BoxIndex b = 0; b < 3; ++b) {
    EXPECT_EQ(out[b].box, job.plan.boxes[b]);
    job.at(b).expect_result(out[b].bytes, std::uint64_t{0b11} << (2 * b), Chunk{4});
  }
}

TEST(PsBoxesMembers, AHomeThatIsNoBoxOfThePlanOnlyControls) {
  PlannedJob job = three_boxes();
  job.home = PlannedText::kNoBox;
  job.home_address = mapped({10, 0, 0, 99});
  Fleet fleet({job});
  (void)fleet.settle();
  EXPECT_EQ(fleet.counted().enlisted, 3U);
  fleet.expect_refused(job.home_address, job.job.partial(0b000011, Chunk{4}), Refused::kState);
  for (BoxIndex b = 0; b < 3; ++b)
    fleet.hear(job, b, job.at(b).partial(std::uint64_t{0b11} << (2 * b), Chunk{4}));
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 3U);
  for (const FleetOut& each : out) EXPECT_NE(each.box, job.home_address);
}

// Pages of a plan are longer than all else: a server that cannot pass them on is no use to such a job, and must not
// stop its other ones.
TEST(PsBoxesMembers, APathThatIsTooNarrowForPlansServesJobsOfOneBoxOnly) {
  PlannedJob job = three_boxes();
  BoxJob one;
  one.name = "one";
  ps::PsOptions options = options_of({job.job, one}, 64, 32);
  options.boxes = {job.at_home()};
  options.path_bytes = 1'439;
  Fleet fleet({job});
  fleet.server = std::move(*ps::PsEngine::create(options, kernels::best_kernels()));
  const auto said = fleet.settle();
  for (const FleetOut& out : said) {
    if (out.type() == PacketType::kJoin)
      fleet.hear(out.box, one.joined(JoinStatus::kRunning, join_payload(out.bytes).nonce.host()));
  }
  EXPECT_FALSE(fleet.server->member(1).joining());
  EXPECT_TRUE(fleet.server->member(0).joining());
  EXPECT_EQ(fleet.counted().epochs, 0U);
  EXPECT_EQ(fleet.server->max_datagram_bytes(), engine::max_datagram_bytes(32));
  (void)fleet.live(3 * kSecond);
  std::vector<std::string> told = fleet.events();
  std::erase_if(told, [](const std::string& text) { return text.starts_with("runs"); });
  EXPECT_THAT(told, ElementsAre(HasSubstr("take datagrams of 1440 bytes; this path carries 1439")));
}

// Sixty-four boxes and their pages, twice: no box keeps another one waiting.
TEST(PsBoxesMembers, SixtyFourBoxes) {
  PlannedJob job;
  job.job.world = 64;
  job.job.id = 100;
  job.job.shards = 1;
  job.plan = racks(64, 64);
  Fleet fleet({job});
  (void)fleet.settle();
  EXPECT_EQ(fleet.counted().enlisted, 63U);
  (void)fleet.live(3 * kSecond);
  EXPECT_EQ(fleet.counted().boxes_lost, 0U);
  for (BoxIndex b = 0; b < 64; ++b) fleet.hear(job, b, job.at(b).partial(std::uint64_t{1} << b, Chunk{4}));
  const auto out = fleet.quiet();
  ASSERT_EQ(out.size(), 64U);
  for (BoxIndex b = 0; b < 64; ++b) {
    EXPECT_EQ(out[b].box, job.plan.boxes[b]);
    job.at(b).expect_result(out[b].bytes, std::uint64_t{1} << b, Chunk{4});
  }
}

}  // namespace
}  // namespace tally::psbed
