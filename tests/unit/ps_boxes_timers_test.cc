// When a server of several boxes asks for what a chunk lacks, and whom (docs/protocol_boxes.md, 17.4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_boxes_support.h"

namespace tally::psbed {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

BoxJob six() {
  BoxJob job;
  job.world = 6;
  return job;
}

class PsBoxesTimers : public testing::Test {
 protected:
  // Ranks 0, 1 at A; 2, 3 at B; 4, 5 at C.
  PsBoxesTimers() : boxes(six(), racks(6, 3)) {}
  void partial(BoxIndex box, std::uint64_t ranks, std::uint32_t chunk) {
    boxes.hear(box, boxes.at(box).partial(ranks, Chunk{chunk}));
  }
  void contribution(BoxIndex box, std::uint16_t rank, std::uint32_t chunk) {
    boxes.hear(box, boxes.at(box).contribution(rank, Chunk{chunk}));
  }
  void query(BoxIndex box, std::uint16_t rank, std::uint32_t chunk) {
    boxes.hear(box, boxes.at(box).query(rank, Chunk{chunk}));
  }
  std::vector<std::string> story(TimeNs time) { return boxes.story(boxes.now + time); }
  SeveralBoxes boxes;
};

// Racks that are slower than others are not asked for what they have not offered yet.
TEST_F(PsBoxesTimers, NobodyIsAskedBeforeSomethingNewerOfItHasCome) {
  partial(kA, 0b000011, 4);
  partial(kA, 0b000011, 5);
  EXPECT_THAT(story(900 * kMillisecond), IsEmpty());
  EXPECT_EQ(boxes.waiting(), 2U);
  EXPECT_LE(boxes.turns, 30U) << "each state looks no more often than 15 times";
  partial(kB, 0b001100, 4);
  partial(kC, 0b110000, 4);
  EXPECT_EQ(boxes.drain().size(), 3U);
}

TEST_F(PsBoxesTimers, WhoIsLateIsAskedAsEver) {
  partial(kA, 0b000011, 4);
  partial(kB, 0b001100, 5);
  EXPECT_THAT(story(100 * kMillisecond),
              ElementsAre("2 flush to 1", "4 resend 12 to 1", "8 flush to 1", "12 resend 12 to 1",
                          "20 flush to 1", "28 resend 12 to 1", "44 flush to 1", "60 resend 12 to 1"));
  EXPECT_EQ(boxes.counted.fruitless, 1U) << "C's part had all the time that a state has";
}

// B's part of chunk 4 stands in a queue in front of B, and chunk 5 goes by A.
TEST_F(PsBoxesTimers, WhatIsNewerAndCameByAnotherBoxMakesNobodyLate) {
  boxes.enter(six(), plan_of(6, 3, [](std::uint16_t rank, std::uint32_t group) {
                return Route{group == 5 ? kA : static_cast<BoxIndex>(rank / 2)};
              }));
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  partial(kA, 0b111111, 5);
  EXPECT_EQ(boxes.drain().size(), 1U) << "chunk 5 is whole";
  EXPECT_THAT(story(900 * kMillisecond), IsEmpty());
  partial(kB, 0b001100, 6);
  EXPECT_THAT(story(150 * kMillisecond), testing::Contains(testing::EndsWith("resend 12 to 1")));
}

// Found late while the state only waited: it is looked at soon, and sooner the shorter it has waited.
TEST_F(PsBoxesTimers, WhoBecomesLateIsAskedAtTheNextLook) {
  partial(kA, 0b000011, 4);
  EXPECT_THAT(story(10 * kMillisecond), IsEmpty());
  partial(kC, 0b110000, 5);
  EXPECT_THAT(story(10 * kMillisecond), ElementsAre("4 flush to 2", "6 resend 48 to 2"));
  partial(kB, 0b001100, 4);
  EXPECT_THAT(story(5 * kMillisecond), ElementsAre("2 flush to 2", "4 resend 48 to 2"));
}

// 2 has newer chunks, but 3 has not: B keeps what 2 gave it, and waits for 3 with good reason.
TEST_F(PsBoxesTimers, ABoxThatMayWaitForOneOfItsRanksIsLeftAlone) {
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  contribution(kB, 2, 5);
  EXPECT_THAT(story(500 * kMillisecond), IsEmpty());
  contribution(kB, 3, 6);
  EXPECT_THAT(story(150 * kMillisecond), testing::Contains(testing::EndsWith("resend 12 to 1")));
}

TEST_F(PsBoxesTimers, ARankWhoseOwnPartHasComeKeepsItsBoxFromNothing) {
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  contribution(kB, 3, 4);
  contribution(kB, 2, 5);
  EXPECT_THAT(story(5 * kMillisecond), ElementsAre("2 flush to 1", "4 resend 4 to 1"));
}

TEST_F(PsBoxesTimers, DirectRanksAreAskedOneByOneAndTheirBoxIsNotFlushed) {
  // As before, but 2 and 3 only pass through B.
  boxes.enter(six(), plan_of(6, 3, [](std::uint16_t rank, std::uint32_t) {
                return Route{static_cast<BoxIndex>(rank / 2), rank / 2 == kB};
              }));
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  contribution(kB, 2, 5);
  EXPECT_THAT(story(13 * kMillisecond),
              ElementsAre("2 resend 4 to 1", "4 resend 4 to 1", "8 resend 4 to 1", "12 resend 4 to 1"));
  EXPECT_EQ(boxes.counted.flushes, 0U);
}

TEST_F(PsBoxesTimers, WhoIsInNoEntryIsAskedAtOnceAndOthersAfterTheirBox) {
  boxes.enter(six(), plan_of(6, 3, [](std::uint16_t rank, std::uint32_t) {
                return Route{static_cast<BoxIndex>(rank / 2), rank == 2};
              }));
  partial(kA, 0b000011, 4);
  contribution(kB, 2, 5);
  contribution(kB, 3, 5);  // alone at B
  partial(kC, 0b110000, 5);
  EXPECT_THAT(story(5 * kMillisecond),
              ElementsAre("2 flush to 2", "2 resend 12 to 1", "4 resend 12 to 1", "4 resend 48 to 2"));
}

TEST_F(PsBoxesTimers, AllThatIsLateIsAskedThroughItsOwnBoxes) {
  partial(kA, 0b000011, 4);
  partial(kB, 0b001100, 5);
  partial(kC, 0b110000, 5);
  EXPECT_THAT(story(5 * kMillisecond),
              ElementsAre("2 flush to 1", "2 flush to 2", "4 resend 12 to 1", "4 resend 48 to 2"));
}

// Nothing newer will come of the last chunk. After a second all are asked, and then the state is given up, as
// 11.7 has it: no state of a rank that is gone stays.
TEST_F(PsBoxesTimers, AfterASecondOfWaitingAllThatAreMissingAreAskedAndItEnds) {
  partial(kA, 0b000011, 4);
  const auto told = story(1500 * kMillisecond);
  ASSERT_EQ(told.size(), 16U);
  EXPECT_EQ(told[0], "1026 flush to 1");
  EXPECT_EQ(told[1], "1026 flush to 2");
  EXPECT_EQ(told[2], "1028 resend 12 to 1");
  EXPECT_EQ(told[15], "1084 resend 48 to 2");
  EXPECT_EQ(boxes.counted.fruitless, 1U);
  EXPECT_EQ(boxes.waiting(), 0U);
}

TEST_F(PsBoxesTimers, EveryPartBeginsThePatienceAnew) {
  partial(kA, 0b000011, 4);
  EXPECT_THAT(story(900 * kMillisecond), IsEmpty());
  contribution(kB, 2, 4);
  EXPECT_THAT(story(900 * kMillisecond), IsEmpty());
}

// What waits at A for the server lies before the question; what B and C have is another matter.
TEST_F(PsBoxesTimers, AQuestionAsksForWhatItsOwnBoxHasHandedOver) {
  contribution(kA, 0, 4);
  query(kA, 0, 4);
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].box, kA);
  boxes.at(kA).expect_bare(out[0].bytes, PacketType::kResend, 0b000010, Chunk{4});
  query(kA, 0, 4);
  boxes.none();
}

TEST_F(PsBoxesTimers, AQuestionAsksAlsoForWhoIsLate) {
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 5);
  query(kA, 0, 4);
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].box, kC);
  boxes.at(kC).expect_bare(out[0].bytes, PacketType::kResend, 0b110000, Chunk{4});
}

// The last chunk, of which B's part was lost: a rank of B finds out, and need not wait for anybody's timer.
TEST_F(PsBoxesTimers, AQuestionOfARankThatIsMissingBringsItsWholeBox) {
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  query(kB, 2, 4);
  const auto out = boxes.drain();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].box, kB);
  boxes.at(kB).expect_bare(out[0].bytes, PacketType::kResend, 0b001100, Chunk{4});
}

// A answers within a millisecond, C takes seven, and its answers count although A's come first.
TEST_F(PsBoxesTimers, WaitsForTheBoxThatTakesLongest) {
  std::uint32_t chunk = 0;
  const auto flush = [&] {  // A and C are late with this chunk
    partial(kB, 0b001100, chunk);
    partial(kA, 0b000011, chunk + 1);
    partial(kC, 0b110000, chunk + 1);
    partial(kB, 0b001100, chunk + 1);
    (void)boxes.drain();
    const TimeNs began = boxes.now;
    for (const std::uint64_t before = boxes.counted.flushes; boxes.counted.flushes == before;) {
      boxes.now = boxes.sums.deadline();
      (void)boxes.drain();
    }
    return boxes.now - began;
  };
  for (; chunk < 120; chunk += 2) {
    (void)flush();
    const TimeNs flushed = boxes.now;
    (void)boxes.story(flushed + kMillisecond);
    partial(kA, 0b000011, chunk);
    (void)boxes.story(flushed + 7 * kMillisecond);
    partial(kC, 0b110000, chunk);
    EXPECT_EQ(boxes.counted.completed, chunk + 2);
  }
  EXPECT_GT(boxes.counted.flush_time, 6 * kMillisecond);
  EXPECT_LE(boxes.counted.flush_time, 7 * kMillisecond);
  EXPECT_GT(flush(), 12 * kMillisecond);
  EXPECT_THAT(story(20 * kMillisecond),
              ElementsAre(testing::EndsWith("resend 3 to 0"), testing::EndsWith("resend 48 to 2")));
}

// Numbers go on, and all is offered again: nothing is overdue.
TEST_F(PsBoxesTimers, WhatCameInAFormerEpochMakesNobodyLate) {
  partial(kB, 0b001100, 9);
  partial(kC, 0b110000, 9);
  BoxJob next = six();
  ++next.epoch;
  boxes.enter(next, racks(6, 3));
  partial(kA, 0b000011, 4);
  EXPECT_THAT(story(500 * kMillisecond), IsEmpty());
}

// The boxes of another plan are others.
TEST_F(PsBoxesTimers, ANewEpochForgetsWhatTheBoxesTook) {
  contribution(kB, 2, 4);
  partial(kA, 0b000011, 5);
  partial(kA, 0b000011, 4);
  partial(kC, 0b110000, 4);
  contribution(kB, 2, 5);
  contribution(kB, 3, 6);
  while (boxes.counted.flushes == 0) {
    boxes.now = boxes.sums.deadline();
    (void)boxes.drain();
  }
  boxes.now += 5 * kMillisecond;
  partial(kB, 0b001000, 4);
  EXPECT_EQ(boxes.counted.flush_time, 5 * kMillisecond);
  BoxJob next = six();
  ++next.epoch;
  boxes.enter(next, racks(6, 3));
  partial(kA, 0b000011, 4);
  partial(kB, 0b001100, 5);
  EXPECT_THAT(story(3 * kMillisecond), ElementsAre("2 flush to 1"));
}

}  // namespace
}  // namespace tally::psbed
