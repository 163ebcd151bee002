// Early repair: a chunk that later ones overtook is sent again before its timer runs out.
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

constexpr TimeNs kRtt = 100 * kMicrosecond;
constexpr TimeNs kRto = 20 * kMillisecond;  // the floor

// Rank 1 of 4 by hand, window 32: the lead is 4 sendings. One chunk has been answered, after kRtt.
class Early : public testing::Test {
 protected:
  explicit Early(std::uint8_t shards = 1) : box_(shape(shards)) {
    engine::EngineOptions options = options_of(shape(shards), 1);
    options.rto_floor = kRto;
    engine_ = std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()));
    const auto join = drain(*engine_, 0);
    JoinPayload p;
    std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
    engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), 0);
    send(1, 0);
    answer({0}, kRtt);
  }
  static JobShape shape(std::uint8_t shards) {
    JobShape s;
    s.world = 4;
    s.window = s.largest_window = s.lookahead = 32;
    s.shards = shards;
    s.lease_ms = 1'000'000;
    return s;
  }
  // The next n chunks, a barrier each.
  void send(std::size_t n, TimeNs now) {
    for (std::size_t i = 0; i < n; ++i) (void)engine_->barrier(now);
    for (const Out& o : drain(*engine_, now)) sent_.push_back(o.bytes);
  }
  void answer(std::initializer_list<std::uint32_t> chunks, TimeNs now) {
    for (const std::uint32_t chunk : chunks) engine_->receive(box_.result_of(sent_.at(chunk)), now);
  }
  // Chunks that are due now, heartbeats left out; all sent again.
  std::vector<std::uint32_t> again(TimeNs now) {
    std::vector<std::uint32_t> chunks;
    for (const Out& o : drain(*engine_, now)) {
      const Header h = header_of(o.bytes);
      if (h.type == PacketType::kHeartbeat) continue;
      EXPECT_EQ(h.type, PacketType::kContribute);
      EXPECT_NE(h.flags & kFlagRetransmit, 0);
      chunks.push_back(h.chunk.host());
    }
    return chunks;
  }
  using Chunks = std::vector<std::uint32_t>;
  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::vector<Bytes> sent_;
};

class EarlyTwoShards : public Early {
 protected:
  EarlyTwoShards() : Early(2) {}
};

TEST_F(Early, WhatFourLaterOnesOvertookIsSentAgainAtOnce) {
  send(8, kRtt);  // chunks 1 to 8
  answer({2, 3, 4}, 2 * kRtt);
  EXPECT_GT(engine_->deadline(), 2 * kRtt);
  EXPECT_EQ(again(2 * kRtt), Chunks{});
  answer({5}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 0U);
  EXPECT_EQ(again(2 * kRtt), Chunks{1});
  EXPECT_GT(engine_->deadline(), 2 * kRtt) << "once";
  EXPECT_EQ(engine_->statistics().early, 1U);
  EXPECT_EQ(engine_->statistics().retransmissions, 1U);
  EXPECT_EQ(engine_->statistics().rto, kRto) << "nothing ran out: no back-off";
  answer({1}, 3 * kRtt);
  EXPECT_EQ(engine_->statistics().results, 6U);
}

// Behind the last ones no four can come, so three are enough; not while more are on their way.
TEST_F(Early, OfTheLastOnesThreeLaterOnesAreEnough) {
  send(8, kRtt);
  answer({1, 2, 3, 4, 6, 7}, 2 * kRtt);
  EXPECT_EQ(again(2 * kRtt), Chunks{});
  answer({8}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 0U);
  EXPECT_EQ(again(2 * kRtt), Chunks{5});
  EXPECT_GT(engine_->deadline(), 2 * kRtt);
}

TEST_F(EarlyTwoShards, OnlyTheSameShardOvertakes) {
  send(8, kRtt);
  answer({2, 4, 6, 8}, 2 * kRtt);  // another core is faster
  EXPECT_EQ(again(2 * kRtt), Chunks{});
  answer({5}, 2 * kRtt);
  EXPECT_EQ(again(2 * kRtt), Chunks{1});
}

// The box may have had that result stored: it says nothing of what the other ranks have sent since.
TEST_F(Early, WhatWasSentTwiceOvertakesNothing) {
  send(8, kRtt);
  const TimeNs ran_out = engine_->deadline();
  EXPECT_EQ(again(ran_out), (Chunks{1, 2, 3, 4, 5, 6, 7, 8}));
  answer({5, 6, 7, 8}, ran_out + kRtt);
  EXPECT_EQ(again(ran_out + kRtt), Chunks{});
}

TEST_F(Early, LostAgainItWaitsForARoundTripAndNotForTheTimer) {
  send(8, kRtt);
  answer({2, 3, 4, 5, 6, 7, 8}, 2 * kRtt);
  TimeNs now = 2 * kRtt;
  ASSERT_EQ(again(now), Chunks{1});
  for (const std::uint64_t sendings : {2U, 3U}) {
    const TimeNs due = engine_->deadline();
    EXPECT_EQ(due - now, kMillisecond) << "the least";
    EXPECT_EQ(again(now = due), Chunks{1});
    EXPECT_EQ(engine_->statistics().early, sendings);
  }
  // Three times are enough: it is not loss. From now on its timer, three times before anybody is asked.
  EXPECT_EQ(again(now += kRto - 1), Chunks{});
  EXPECT_EQ(again(now += 1), Chunks{1});
  EXPECT_EQ(engine_->statistics().early, 3U);
  EXPECT_EQ(engine_->deadline() - now, 2 * kRto) << "with back-off";
  EXPECT_EQ(again(now += 2 * kRto), Chunks{1});
  EXPECT_EQ(again(now += 4 * kRto), Chunks{1});
  EXPECT_EQ(engine_->statistics().queries, 0U);
  answer({1}, now);
  EXPECT_EQ(engine_->deadline(), kSecond) << "only a heartbeat is left";
}

TEST_F(Early, ANewEpochStartsAnew) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  ASSERT_EQ(again(2 * kRtt), Chunks{1});
  engine_->receive(box_.reject(RejectReason::kEpoch, header_of(sent_[1])), 2 * kRtt);
  const auto join = drain(*engine_, kSecond);
  ASSERT_EQ(join.size(), 1U);
  JoinPayload p;
  std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
  ++box_.epoch;
  engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), kSecond);
  EXPECT_EQ(again(kSecond), (Chunks{1, 6, 7, 8})) << "what has no result, once each";
  EXPECT_EQ(engine_->statistics().early, 1U);
}

}  // namespace
}  // namespace tally::testbed
