// A chunk whose contributions come through several boxes (docs/protocol_boxes.md, 17.4): what is added, and what
// goes out to whom. Boxes A, B, C are 0, 1, 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_boxes_support.h"

namespace tally::psbed {
namespace {

BoxJob four() {
  BoxJob job;
  job.world = 4;
  return job;
}

class PsBoxesSums : public testing::Test {
 protected:
  // Ranks 0 and 1 at A, 2 and 3 at B.
  PsBoxesSums() : boxes(four(), racks(4, 2)) {}
  void partial(BoxIndex box, std::uint64_t ranks, Chunk chunk) {
    boxes.hear(box, boxes.at(box).partial(ranks, chunk));
  }
  void contribution(BoxIndex box, std::uint16_t rank, Chunk chunk) {
    boxes.hear(box, boxes.at(box).contribution(rank, chunk));
  }
  void expect_result(const BoxOut& out, BoxIndex box, std::uint64_t ranks, Chunk chunk,
                     std::uint8_t flags = 0) {
    EXPECT_EQ(out.box, box);
    boxes.at(box).expect_result(out.bytes, ranks, chunk);
    EXPECT_EQ(out.header().flags, flags);
    EXPECT_EQ(out.port, kBasePort + raw(chunk) % 32 % boxes.at(box).shards);
  }
  void expect_bare(const BoxOut& out, BoxIndex box, PacketType type, std::uint64_t ranks, Chunk chunk) {
    EXPECT_EQ(out.box, box);
    boxes.at(box).expect_bare(out.bytes, type, ranks, chunk);
    EXPECT_EQ(out.port, kBasePort + raw(chunk) % 32 % boxes.at(box).shards);
  }
  SeveralBoxes boxes;
};

TEST_F(PsBoxesSums, EachBoxGetsTheResultForItsOwnRanks) {
  for (const Chunk chunk : {Chunk{4}, Chunk{5}, Chunk{15}}) {
    partial(kA, 0b0011, chunk);
    boxes.none();
    partial(kB, 0b1100, chunk);
    const auto out = boxes.drain();
    ASSERT_EQ(out.size(), 2U) << "and no FLUSH: neither box has an entry any more";
    expect_result(out[0], kA, 0b0011, chunk);
    expect_result(out[1], kB, 0b1100, chunk);
  }
  EXPECT_EQ(boxes.counted.completed, 3U);
  EXPECT_EQ(boxes.counted.results, 6U);
}

TEST_F(PsBoxesSums, ThroughWhichBoxAContributionCameDoesNotMatter) {
  contribution(kB, 0, Chunk{4});
  contribution(kA, 1, Chunk{4});
  contribution(kA, 2, Chunk{4});
  contribution(kA, 3, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 4U);
  expect_result(out[0], kA, 0b0011, Chunk{4});
  expect_result(out[1], kB, 0b1100, Chunk{4});
}

TEST_F(PsBoxesSums, TheSameThroughTwoBoxesIsAddedOnce) {
  partial(kA, 0b0011, Chunk{4});
  contribution(kB, 0, Chunk{4});
  EXPECT_EQ(boxes.counted.inside, 1U);
  partial(kB, 0b1100, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 2U);
  expect_result(out[0], kA, 0b0011, Chunk{4});
}

// A may hold something: 0 and 1 came alone, so others of A may be in an entry by now, if they were sent again.
TEST_F(PsBoxesSums, TheFlushBehindAResultGoesWhereAnEntryMayBe) {
  contribution(kA, 0, Chunk{4});
  contribution(kA, 1, Chunk{4});
  partial(kB, 0b1100, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 3U);
  expect_bare(out[2], kA, PacketType::kFlush, 0, Chunk{4});
}

TEST_F(PsBoxesSums, APartOfWhatABoxHoldsDoesNotSayThatItHoldsNothing) {
  partial(kB, 0b0100, Chunk{4});
  partial(kA, 0b0011, Chunk{4});
  contribution(kB, 3, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 3U);
  expect_bare(out[2], kB, PacketType::kFlush, 0, Chunk{4});
}

// What was known of the entries of one chunk says nothing of the next one in the same state.
TEST_F(PsBoxesSums, ANewStateKnowsNothingOfTheEntriesOfTheFormerOne) {
  SeveralBoxes one(four(), racks(4, 2), 1);
  one.hear(kA, one.at(kA).partial(0b0011, Chunk{9}));
  one.hear(kA, one.at(kA).contribution(0, Chunk{4}));  // an earlier one takes its place
  one.hear(kA, one.at(kA).contribution(1, Chunk{4}));
  one.hear(kB, one.at(kB).partial(0b1100, Chunk{4}));
  const auto out = one.drain();
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[2].box, kA);
  EXPECT_EQ(out[2].header().type, PacketType::kFlush);
}

TEST_F(PsBoxesSums, WhoAsksIsAnsweredThroughItsBoxAlone) {
  partial(kA, 0b0011, Chunk{4});
  partial(kB, 0b1100, Chunk{4});
  ASSERT_EQ(boxes.drain().size(), 2U);
  boxes.hear(kB, boxes.at(kB).query(3, Chunk{4}));
  auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  expect_result(out[0], kB, 0b1000, Chunk{4}, kFlagRetransmit);
  contribution(kA, 1, Chunk{4});
  out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  expect_result(out[0], kA, 0b0010, Chunk{4}, kFlagRetransmit);
}

TEST_F(PsBoxesSums, AnOverlapAsksItsOtherRanksThroughTheirBoxes) {
  partial(kA, 0b0001, Chunk{4});
  partial(kA, 0b1011, Chunk{4});
  EXPECT_EQ(boxes.counted.merged, 2U) << "that contains the state";
  partial(kB, 0b1100, Chunk{4});
  auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  expect_bare(out[0], kB, PacketType::kResend, 0b0100, Chunk{4});
  partial(kB, 0b0110, Chunk{5});
  partial(kB, 0b1111, Chunk{6});
  (void)boxes.drain();
  partial(kA, 0b1101, Chunk{5});
  out = boxes.drain();
  ASSERT_EQ(out.size(), 2U);
  expect_bare(out[0], kA, PacketType::kResend, 0b0001, Chunk{5});
  expect_bare(out[1], kB, PacketType::kResend, 0b1000, Chunk{5});
}

// A worker kept the sum and answered a RESEND with it. Who was in the state may have it from nowhere.
TEST_F(PsBoxesSums, AFinishedSumGoesToThoseOfTheStateThroughTheirBoxes) {
  contribution(kA, 1, Chunk{4});
  contribution(kB, 2, Chunk{4});
  boxes.hear(kA, boxes.at(kA).result(Chunk{4}));
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 4U);
  expect_result(out[0], kA, 0b0010, Chunk{4}, kFlagRetransmit);
  expect_result(out[1], kB, 0b0100, Chunk{4}, kFlagRetransmit);
  expect_bare(out[2], kA, PacketType::kFlush, 0, Chunk{4});
  expect_bare(out[3], kB, PacketType::kFlush, 0, Chunk{4});
  boxes.hear(kB, boxes.at(kB).result(Chunk{4}));
  boxes.none();
}

TEST_F(PsBoxesSums, DirectRanksAreAnsweredThroughTheirBoxWhichIsNeverFlushed) {
  // 0 and 1 are added up at A, 2 and 3 only pass through B, and 4 through A.
  BoxJob job;
  job.world = 5;
  boxes.enter(job, plan_of(5, 2, [](std::uint16_t rank, std::uint32_t) {
                const bool at_b = rank == 2 || rank == 3;
                return Route{at_b ? kB : kA, rank >= 2};
              }));
  for (std::uint16_t rank = 0; rank < 5; ++rank)
    contribution(rank == 2 || rank == 3 ? kB : kA, rank, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 3U);
  expect_result(out[0], kA, 0b10011, Chunk{4});
  expect_result(out[1], kB, 0b01100, Chunk{4});
  expect_bare(out[2], kA, PacketType::kFlush, 0, Chunk{4});
}

// Who is alone at its box is passed on as it comes, and never waits there.
TEST_F(PsBoxesSums, ABoxWithOneRankHasNoEntryToFlush) {
  BoxJob job;
  job.world = 3;
  boxes.enter(job, plan_of(3, 2, [](std::uint16_t rank, std::uint32_t) {
                return Route{rank == 2 ? kB : kA, false};
              }));
  contribution(kB, 2, Chunk{4});
  partial(kA, 0b011, Chunk{4});
  auto out = boxes.drain();
  ASSERT_EQ(out.size(), 2U);
  expect_result(out[0], kA, 0b011, Chunk{4});
  expect_result(out[1], kB, 0b100, Chunk{4});
  contribution(kB, 2, Chunk{6});
  partial(kA, 0b011, Chunk{5});
  EXPECT_EQ(boxes.story(boxes.now + 3 * kMillisecond), std::vector<std::string>{"2 resend 4 to 1"});
}

TEST_F(PsBoxesSums, EachGroupOfChunksHasItsOwnBoxes) {
  // A group's number is where rank 0 goes; the others one further each.
  BoxJob job;
  job.world = 3;
  boxes.enter(job, plan_of(3, 3, [](std::uint16_t rank, std::uint32_t group) {
                return Route{static_cast<BoxIndex>((group + rank) % 3), false};
              }));
  for (const std::uint32_t n : {0U, 1U, 2U, 1023U, 1024U}) {
    SCOPED_TRACE(n);
    const Chunk chunk{n};
    const std::uint32_t group = n % kPlanGroups;
    for (std::uint16_t r = 0; r < 3; ++r)
      partial(static_cast<BoxIndex>((group + r) % 3), bit_of(Rank{r}), chunk);
    const auto out = boxes.drain();
    ASSERT_EQ(out.size(), 3U);
    for (std::uint16_t r = 0; r < 3; ++r)
      expect_result(out[r], static_cast<BoxIndex>((group + r) % 3), bit_of(Rank{r}), chunk);
  }
}

// A box that is not there (yet, or any more) costs its own ranks a question, and others nothing.
TEST_F(PsBoxesSums, WhereTheServerIsNoMemberNothingIsSent) {
  boxes.sums.close(kB);
  partial(kA, 0b0011, Chunk{4});
  contribution(kA, 2, Chunk{4});
  contribution(kA, 3, Chunk{4});
  auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  expect_result(out[0], kA, 0b0011, Chunk{4});
  EXPECT_EQ(boxes.counted.unreached, 2U) << "RESULT and FLUSH";
  boxes.sums.open(kB, JobId{boxes.at(kB).id}, boxes.at(kB).shards);
  boxes.hear(kB, boxes.at(kB).query(2, Chunk{4}));
  out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  expect_result(out[0], kB, 0b0100, Chunk{4}, kFlagRetransmit);
}

TEST_F(PsBoxesSums, ANewPlanIsANewEpochAndDropsTheStates) {
  partial(kA, 0b0011, Chunk{4});
  partial(kA, 0b0011, Chunk{5});
  BoxJob next = four();
  ++next.epoch;
  // A is lost; all ranks of it go to C, which takes its number.
  boxes.enter(next, plan_of(4, 2, [](std::uint16_t rank, std::uint32_t) {
                return Route{rank < 3 ? kB : kA, false};
              }));
  EXPECT_EQ(boxes.waiting(), 0U);
  EXPECT_TRUE(boxes.story(boxes.now + 2 * kSecond).empty());
  partial(kB, 0b0111, Chunk{4});
  partial(kA, 0b1000, Chunk{4});
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 2U);
  expect_result(out[0], kB, 0b0111, Chunk{4});
  expect_result(out[1], kA, 0b1000, Chunk{4});
}

// What was owed in an epoch is not said in the next one, also if the first box of several had it already.
TEST_F(PsBoxesSums, WhatIsOwedEndsWithItsEpoch) {
  partial(kA, 0b0011, Chunk{4});
  partial(kB, 0b1100, Chunk{4});
  BoxJob next = four();
  ++next.epoch;
  boxes.enter(next, racks(4, 2));
  boxes.none();
  EXPECT_EQ(boxes.counted.overtaken, 1U);
}

// However many boxes a result is for, it takes one place in the queue: no box can crowd another one out.
TEST_F(PsBoxesSums, AResultForManyBoxesTakesOnePlaceInTheQueue) {
  BoxJob job;
  job.world = 32;
  job.window = 2048;
  job.shards = 1;
  constexpr std::uint32_t kRoom = ps::SendQueue::kRoom;
  SeveralBoxes many(job, racks(32, 16), kRoom);
  for (std::uint32_t chunk = 0; chunk < kRoom; ++chunk) {
    many.hear(0, many.at(0).partial(0x3FFF'FFFF, Chunk{chunk}));
    many.hear(15, many.at(15).partial(0xC000'0000, Chunk{chunk}));
  }
  EXPECT_EQ(many.counted.queue_full, kRoom) << "a RESULT and a FLUSH for each chunk";
  std::vector<std::uint32_t> results(16);
  for (const BoxOut& out : many.drain()) {
    const Header h = out.header();
    if (h.type != PacketType::kResult) continue;
    ++results[out.box];
    EXPECT_EQ(h.contributors.host(), std::uint64_t{0b11} << 2 * out.box);
  }
  EXPECT_THAT(results, testing::Each(kRoom / 2));
}

// Jobs of one box know nothing of all this.
TEST_F(PsBoxesSums, WithoutAPlanAllIsAsEver) {
  boxes.sums.enter(joined_as(four()));
  boxes.hear(kA, boxes.at(kA).partial(0b0011, Chunk{4}));
  boxes.hear(kA, boxes.at(kA).partial(0b1100, Chunk{4}));
  auto out = boxes.drain();
  ASSERT_EQ(out.size(), 2U);
  expect_result(out[0], kA, 0b1111, Chunk{4});
  expect_bare(out[1], kA, PacketType::kFlush, 0, Chunk{4});
  boxes.hear(kA, boxes.at(kA).contribution(0, Chunk{5}));
  EXPECT_THAT(boxes.story(boxes.now + 5 * kMillisecond),
              testing::ElementsAre("2 flush to 0", "4 resend 14 to 0"));
}

}  // namespace
}  // namespace tally::psbed
