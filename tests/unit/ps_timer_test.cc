// The timer of an incomplete state: FLUSH, RESEND, give up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_support.h"

namespace tally::psbed {
namespace {

using testing::ElementsAre;

class PsTimer : public testing::Test {
 protected:
  PsTimer() : server({job}) { server.join(job); }
  // Runs until `end`; what was sent at which millisecond.
  std::vector<std::string> story(TimeNs end) {
    std::vector<std::string> told;
    const TimeNs start = server.now;
    while (server.engine->deadline() < end) {
      server.now = server.engine->deadline();
      for (const Out& out : server.drain()) {
        const Header h = out.header();
        const std::string what = h.type == PacketType::kFlush ? "flush"
                                 : h.type == PacketType::kResend
                                     ? "resend " + std::to_string(h.contributors.host())
                                     : "other";
        told.push_back(std::to_string((server.now - start) / kMillisecond) + " " + what);
      }
    }
    server.now = end;
    return told;
  }
  BoxJob job;
  Server server;
};

TEST_F(PsTimer, RoundsOfFlushAndResendDoubleAndEnd) {
  server.hear(job.contribution(1, Chunk{4}));
  EXPECT_THAT(story(server.now + 300 * kMillisecond),
              ElementsAre("2 flush", "4 resend 5", "8 flush", "12 resend 5", "20 flush", "28 resend 5",
                          "44 flush", "60 resend 5"));
  EXPECT_EQ(server.counted().fruitless, 1U);
  EXPECT_EQ(server.engine->memory().incomplete, 0U);
  EXPECT_EQ(server.counted().flushes, 4U);
  EXPECT_EQ(server.counted().resends, 4U);
  // Offered again, it begins again.
  for (std::uint16_t r = 0; r < 3; ++r) server.hear(job.contribution(r, Chunk{4}));
  job.expect_result(server.drain().at(0).bytes, 0b111, Chunk{4});
}

TEST_F(PsTimer, EveryPartBeginsTheRoundsAnew) {
  server.hear(job.contribution(1, Chunk{4}));
  EXPECT_THAT(story(server.now + 10 * kMillisecond), ElementsAre("2 flush", "4 resend 5", "8 flush"));
  server.hear(job.contribution(2, Chunk{4}));
  EXPECT_THAT(story(server.now + 10 * kMillisecond), testing::Each(testing::Not("0 flush")));
  EXPECT_EQ(server.counted().fruitless, 0U);
  EXPECT_EQ(server.engine->memory().incomplete, 1U);
}

// A replay changes nothing, so it keeps no state alive.
TEST_F(PsTimer, WhatIsInsideDoesNot) {
  server.hear(job.contribution(1, Chunk{4}));
  for (int i = 0; i < 200 && server.engine->memory().incomplete != 0; ++i) {
    server.now += kMillisecond;
    server.hear(job.contribution(1, Chunk{4}));
    (void)server.drain();
  }
  EXPECT_EQ(server.counted().fruitless, 1U);
}

// Contributions that come all the time are not disturbed.
TEST_F(PsTimer, AChunkThatGrowsIsNotFlushed) {
  BoxJob many;
  many.world = 40;
  many.epoch = 101;
  many.generation = 5;
  server.hear(job.reject(RejectReason::kEpoch));
  server.now += kSecond;
  server.join(many);
  for (std::uint16_t r = 0; r < 40; ++r) {
    server.none();
    server.hear(many.contribution(r, Chunk{4}));
    server.now += kMillisecond;
  }
  EXPECT_EQ(server.drain().size(), 2U);
  EXPECT_EQ(server.counted().flushes, 1U) << "the one after the result";
  EXPECT_EQ(server.counted().resends, 0U);
}

// Beyond the least wait, twice what the box takes to answer a FLUSH.
TEST_F(PsTimer, WaitsTwiceTheTimeThatAnswersTake) {
  for (std::uint32_t c = 0; c < 60; ++c) {
    server.hear(job.contribution(1, Chunk{c}));
    while (server.counted().flushes == 2 * c) {
      server.now = server.engine->deadline();
      (void)server.drain();
    }
    server.now += 5 * kMillisecond;
    server.hear(job.partial(0b101, Chunk{c}));  // completes
    (void)server.drain();
  }
  EXPECT_GT(server.counted().flush_time, 4 * kMillisecond);
  EXPECT_LT(server.counted().flush_time, 6 * kMillisecond);
  server.hear(job.contribution(1, Chunk{60}));
  const TimeNs start = server.now;
  while (server.drain().empty()) server.now = server.engine->deadline();
  EXPECT_GT(server.now - start, 8 * kMillisecond);
  EXPECT_LT(server.now - start, 12 * kMillisecond);
}

// A FLUSH was lost, and the entry was swept long after: that says nothing of how long answers take.
TEST_F(PsTimer, WhatComesMuchLaterIsNoAnswer) {
  server.hear(job.contribution(1, Chunk{0}));
  while (server.counted().flushes == 0) {
    server.now = server.engine->deadline();
    (void)server.drain();
  }
  server.now += 50 * kMillisecond;
  server.hear(job.partial(0b101, Chunk{0}));
  EXPECT_EQ(server.counted().completed, 1U);
  EXPECT_EQ(server.counted().flush_time, 0U);
}

TEST_F(PsTimer, AStateASpanBehindIsDropped) {
  server.hear(job.contribution(1, Chunk{4}));
  server.hear(job.contribution(1, Chunk{36}));
  server.now += 2 * kMillisecond;
  job.expect_bare(server.one(), PacketType::kFlush, 0, Chunk{36});
  EXPECT_EQ(server.counted().outdated, 1U);
  EXPECT_EQ(server.engine->memory().incomplete, 1U);
}

TEST_F(PsTimer, ACompleteStateHasNone) {
  server.hear(job.contribution(1, Chunk{4}));
  server.hear(job.partial(0b101, Chunk{4}));
  ASSERT_EQ(server.drain().size(), 2U);
  EXPECT_TRUE(story(server.now + 300 * kMillisecond).empty());
  EXPECT_EQ(server.engine->memory().complete, 1U);
}

}  // namespace
}  // namespace tally::psbed
