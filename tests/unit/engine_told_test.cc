// What RESULTs say of the chunks before them (docs/protocol.md, 8, 'Before'): a lost RESULT is asked for at once, and
// what lacks a contribution is left to its repair.
#include <gtest/gtest.h>

#include "engine_early.h"

namespace tally::testbed {
namespace {

// Results tell which of those before them are finished. Chunks 1 to 8 are under way.
class Told : public Early {
 protected:
  explicit Told(std::uint8_t shards = 1, Discipline discipline = Discipline::kPool)
      : Early(shards, discipline) {
    send(8, kRtt);
  }
  // Bit i of `before`: chunk - (i + 1) x shards.
  void result(std::uint32_t chunk, std::uint32_t before, TimeNs now, std::uint8_t flags = 0) {
    const Bytes bytes = box_.result_of(sent_.at(chunk));
    Header h = header_of(bytes);
    h.slot = Be{before};
    h.flags |= flags;
    engine_->receive(sealed(h, payload_of(bytes)), now);
  }
};

class ToldTwoShards : public Told {
 protected:
  ToldTwoShards() : Told(2) {}
};

// What is not named may be at a server.
class ToldOfSharedSlots : public Told {
 protected:
  ToldOfSharedSlots() : Told(1, Discipline::kShared) {}
};

TEST_F(Told, AResultThatThreeOthersNameIsAskedForAtOnce) {
  result(4, 0b100, 2 * kRtt);
  result(5, 0b1001, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "the network may have changed their order";
  result(6, 0b10011, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 0U);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1}}));
  EXPECT_EQ(named_, 0);
  result(7, 0b100111, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "once";
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
}

TEST_F(Told, SeveralLostResultsAreAskedForTogether) {
  for (const std::uint32_t chunk : {6U, 7U, 8U}) result(chunk, (1U << (chunk - 1)) - 1, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1, 2, 3}})) << "those that three others are behind";
}

TEST_F(Told, AResultNextToItMayHaveOvertakenIt) {
  result(2, 0b1, 2 * kRtt);
  result(3, 0b11, 2 * kRtt);
  result(4, 0, 2 * kRtt);
  EXPECT_GE(engine_->deadline(), 2 * kRtt + kLeast);
}

// Somebody's contribution is lost. Its rank is told so, and its repair is on its way when the next ones leave
// here: only what these show is worth a question.
TEST_F(Told, WhatLacksAContributionIsAskedForWhenItsRepairIsLostToo) {
  for (const std::uint32_t chunk : {2U, 3U, 4U, 5U, 6U, 7U, 8U})
    result(chunk, (1U << (chunk - 2)) - 1, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{});
  send(6, 2 * kRtt);  // 9 to 14
  for (const std::uint32_t chunk : {9U, 10U, 11U}) result(chunk, 0x7F, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), Said{}) << "fewer than the lead";
  result(12, 0x7F, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), (Said{{}, {1}}));
}

TEST_F(Told, WhereNothingFollowsItIsAskedForAfterAWhile) {
  for (const std::uint32_t chunk : {2U, 3U, 4U, 5U, 6U, 7U, 8U})
    result(chunk, (1U << (chunk - 2)) - 1, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  EXPECT_EQ(due, 2 * kRtt + kLeast);
  EXPECT_EQ(said(due), (Said{{}, {1}}));
}

TEST_F(Told, WhatLackedAContributionAndIsFinishedNowIsLost) {
  result(4, 0, 2 * kRtt);
  for (const std::uint32_t chunk : {5U, 6U}) result(chunk, 1U << (chunk - 2), 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{});
  result(7, 1U << 5, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1}}));
}

// The box answers in order: an answer that has not come when what was sent later has its result is lost.
TEST_F(Told, AnAnswerThatLaterOnesOvertookIsAskedForAgain) {
  for (const std::uint32_t chunk : {4U, 5U, 6U}) result(chunk, 1U << (chunk - 2), 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1}}));
  send(3, 2 * kRtt);  // 9 to 11
  for (const std::uint32_t chunk : {7U, 8U, 9U, 10U}) result(chunk, 0x1FF, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), (Said{{}, {2, 3}})) << "of these it is the first question";
  result(11, 0x3FF, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), (Said{{}, {1}}));
}

TEST_F(Told, ARepeatedResultTellsNothing) {
  for (const std::uint32_t chunk : {4U, 5U, 6U}) result(chunk, 0b1001, 2 * kRtt, kFlagRetransmit);
  EXPECT_EQ(said(2 * kRtt), Said{});
}

TEST_F(ToldTwoShards, OnlyOfItsShard) {
  send(6, kRtt);
  for (const std::uint32_t chunk : {4U, 6U, 8U}) result(chunk, 0, 2 * kRtt);  // chunk 2 lacks somebody
  result(7, 0b101, 2 * kRtt);                                                 // 5 and 1 have results
  EXPECT_EQ(said(2 * kRtt), Said{});
  for (const std::uint32_t chunk : {9U, 11U}) result(chunk, chunk == 9 ? 0b1010 : 0b10100, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1}}));
}

// A question in between does not make a sample doubtful: its answer would say that it is a repetition. Or a
// path whose round trip has grown would never be measured again where each chunk is alone.
TEST_F(Told, AChunkAloneIsASampleThoughItWasAskedFor) {
  for (std::uint32_t chunk = 1; chunk < 9; ++chunk) result(chunk, 0xFF, 2 * kRtt);
  TimeNs now = 2 * kRtt;
  const TimeNs slow = 5 * kMillisecond;
  for (std::uint32_t chunk = 9; chunk < 60; ++chunk) {
    send(1, now);
    const TimeNs due = now + slow;
    while (engine_->deadline() < due) (void)said(engine_->deadline());
    now = due;
    result(static_cast<std::uint32_t>(sent_.size()) - 1, 0, now);
  }
  EXPECT_GT(engine_->statistics().asks, 50U);
  EXPECT_GT(engine_->statistics().srtt, slow * 9 / 10);
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
}

// ... and the answer to a question is none.
TEST_F(Told, AnAnswerIsNoSample) {
  for (std::uint32_t chunk = 1; chunk < 9; ++chunk) result(chunk, 0xFF, 2 * kRtt);
  const TimeNs before = engine_->statistics().srtt;
  send(1, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt + kLeast), (Said{{}, {9}}));
  result(9, 0, 2 * kRtt + 2 * kLeast, kFlagRetransmit);
  EXPECT_EQ(engine_->statistics().srtt, before);
  EXPECT_EQ(engine_->statistics().results, 10U);
}

TEST_F(ToldOfSharedSlots, AResultThatThreeOthersNameIsAskedForAtOnce) {
  result(4, 0b100, 2 * kRtt);
  result(5, 0b1001, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{});
  result(6, 0b10011, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{}, {1}}));
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
}

TEST_F(ToldOfSharedSlots, WhatIsNotNamedHasItsTimerAndIsOvertakenAsWithoutAWord) {
  for (const std::uint32_t chunk : {2U, 3U, 4U, 5U, 6U, 7U, 8U}) result(chunk, 0, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  EXPECT_GT(due, 2 * kRtt);
  EXPECT_EQ(said(due), (Said{{}, {1}})) << "it was overtaken, after the patience";
  EXPECT_LT(due, 4 * kRtt);
}

}  // namespace
}  // namespace tally::testbed
