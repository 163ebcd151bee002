// Repair before timers: what the box lacks is contributed again, what later ones overtook is asked for.
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
  using Chunks = std::vector<std::uint32_t>;
  // Chunks that are due now: contributed again, or asked for at the box alone. Heartbeats are left out.
  struct Said {
    Chunks again;
    Chunks asked;
    bool operator==(const Said&) const = default;
  };
  Said said(TimeNs now) {
    Said all;
    for (const Out& o : drain(*engine_, now)) {
      const Header h = header_of(o.bytes);
      if (h.type == PacketType::kHeartbeat) continue;
      const bool asks = h.type == PacketType::kQuery;
      EXPECT_TRUE(!asks || h.contributors.host() == 0U) << "names nobody";
      EXPECT_TRUE(asks || (h.type == PacketType::kContribute && (h.flags & kFlagRetransmit) != 0));
      if (!asks) sent_.push_back(o.bytes);
      (asks ? all.asked : all.again).push_back(h.chunk.host());
    }
    return all;
  }
  // The box lacks `first` and what the other bits stand for.
  void nack(std::uint32_t first, std::uint64_t missing, std::uint32_t shard, TimeNs now) {
    Header h = box_.from_box(PacketType::kNack);
    h.slot = Be{first};
    h.contributors = Be{missing};
    h.total = Be{shard};
    engine_->receive(sealed(h), now);
  }
  void waiting(std::uint32_t chunk, std::uint64_t there, TimeNs now) {
    Header h = header_of(sent_.at(chunk));
    h.chunk = Be{chunk};
    engine_->receive(box_.reject(RejectReason::kWaiting, h, box_.result_cookie(), there), now);
  }
  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::vector<Bytes> sent_;
};

class EarlyTwoShards : public Early {
 protected:
  EarlyTwoShards() : Early(2) {}
};

TEST_F(Early, WhatTheBoxLacksIsContributedAtOnce) {
  send(8, kRtt);  // chunks 1 to 8, sequences 2 to 9
  nack(3, 0b101, 0, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 0U);
  EXPECT_EQ(said(2 * kRtt), (Said{{2, 4}, {}}));
  EXPECT_EQ(engine_->statistics().early, 2U);
  EXPECT_EQ(engine_->statistics().nacks, 1U);
  EXPECT_EQ(engine_->statistics().rto, kRto) << "nothing ran out: no back-off";
  EXPECT_EQ(header_of(sent_.back()).sequence(), 11U) << "each sending has its own";
  nack(3, 0b101, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "those sendings are not the last any more";
  nack(11, 1, 0, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), (Said{{4}, {}}));
}

TEST_F(Early, ANackOfWhatHasItsResultIsIgnored) {
  send(8, kRtt);
  answer({1, 2, 3, 4}, 2 * kRtt);
  nack(1, ~std::uint64_t{0}, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{5, 6, 7, 8}, {}}));
}

TEST_F(Early, ANackOfWhatWasNeverSentIsIgnored) {
  send(8, kRtt);
  nack(10, ~std::uint64_t{0}, 0, 2 * kRtt);
  nack(0xFFFF'FFC8, 0xFF, 0, 2 * kRtt);
  nack(2, 1, 1, 2 * kRtt);  // no such shard
  EXPECT_EQ(said(2 * kRtt), Said{});
  EXPECT_EQ(engine_->statistics().of(Refused::kNotWaited), 1U);
}

// What the box asked for ran no timer out: the first QUERY to a peer comes after three that did.
TEST_F(Early, NacksDoNotCountTowardsQueries) {
  send(1, kRtt);
  TimeNs now = kRtt;
  for (std::uint32_t sequence = 2; sequence < 8; ++sequence) {
    nack(sequence, 1, 0, now);
    EXPECT_EQ(said(now), (Said{{1}, {}}));
  }
  for (int n = 0; n < 3; ++n) EXPECT_EQ(said(now = engine_->deadline()), (Said{{1}, {}}));
  const auto fourth = drain(*engine_, engine_->deadline());
  ASSERT_EQ(fourth.size(), 1U);
  EXPECT_EQ(header_of(fourth[0].bytes).type, PacketType::kQuery);
  EXPECT_NE(header_of(fourth[0].bytes).contributors.host(), 0U);
}

TEST_F(EarlyTwoShards, EachShardHasItsOwnSequences) {
  send(8, kRtt);  // odd chunks go to shard 1: sequences 1 to 4; even ones to shard 0: 2 to 5
  nack(1, 1, 1, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{1}, {}}));
  nack(2, 1, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{2}, {}}));
}

TEST_F(Early, WhatFourLaterOnesOvertookIsAskedForAfterARoundTrip) {
  send(8, kRtt);
  answer({2, 3, 4}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), kRtt + kRto) << "the timer";
  answer({5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  EXPECT_GT(due, 2 * kRtt) << "a NACK may be on its way";
  EXPECT_LT(due, 5 * kRtt);
  EXPECT_EQ(said(due - 1), Said{});
  EXPECT_EQ(said(due), (Said{{}, {1}}));
  EXPECT_GT(engine_->deadline(), due) << "once";
  EXPECT_EQ(engine_->statistics().asks, 1U);
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
  answer({1}, due);
  EXPECT_EQ(engine_->statistics().results, 6U);
}

TEST_F(Early, WhoIsNotInTheChunkContributes) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  waiting(1, 0b0101, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "nobody has asked";
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0b0101, due);
  EXPECT_EQ(said(due), (Said{{1}, {}}));
  waiting(1, 0b0101, due);
  EXPECT_EQ(said(due), Said{}) << "once for a question";
}

TEST_F(Early, WhoIsInTheChunkWaits) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0b0011, due);
  EXPECT_EQ(said(due), Said{});
  EXPECT_EQ(engine_->missing(), 0b1100U);
}

TEST_F(Early, WhatNobodyKnowsIsContributed) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0, due);
  EXPECT_EQ(said(due), (Said{{1}, {}}));
  EXPECT_EQ(engine_->missing(), 0U) << "it says nothing of the others";
}

// Behind the last ones no four can come, so three are enough; not while more are on their way.
TEST_F(Early, OfTheLastOnesThreeLaterOnesAreEnough) {
  send(8, kRtt);
  answer({1, 2, 3, 4, 6, 7}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), kRtt + kRto);
  answer({8}, 2 * kRtt);
  EXPECT_EQ(said(engine_->deadline()), (Said{{}, {5}}));
}

TEST_F(EarlyTwoShards, OnlyTheSameShardOvertakes) {
  send(8, kRtt);
  answer({2, 4, 6, 8}, 2 * kRtt);  // another core is faster
  EXPECT_EQ(engine_->deadline(), kRtt + kRto);
  answer({5}, 2 * kRtt);
  EXPECT_EQ(said(engine_->deadline()), (Said{{}, {1}}));
}

// The box may have had that result stored: it says nothing of what the other ranks have sent since.
TEST_F(Early, WhatWasSentTwiceOvertakesNothing) {
  send(8, kRtt);
  const TimeNs ran_out = engine_->deadline();
  EXPECT_EQ(said(ran_out), (Said{{1, 2, 3, 4, 5, 6, 7, 8}, {}}));
  answer({5, 6, 7, 8}, ran_out + kRtt);
  EXPECT_EQ(said(ran_out + kMillisecond), Said{});
}

TEST_F(Early, LostAgainItWaitsForARoundTripAndNotForTheTimer) {
  send(8, kRtt);
  answer({2, 3, 4, 5, 6, 7, 8}, 2 * kRtt);
  TimeNs now = engine_->deadline();
  ASSERT_EQ(said(now), (Said{{}, {1}}));
  for (const std::uint64_t sendings : {2U, 3U}) {
    const TimeNs due = engine_->deadline();
    EXPECT_EQ(due - now, kMillisecond) << "the least";
    EXPECT_EQ(said(now = due), (Said{{}, {1}}));
    EXPECT_EQ(engine_->statistics().asks, sendings);
  }
  // Three times are enough: it is not loss. From now on its timer, three times before a peer is asked.
  EXPECT_EQ(said(now += kRto - 1), Said{});
  EXPECT_EQ(said(now += 1), (Said{{1}, {}}));
  EXPECT_EQ(engine_->deadline() - now, 2 * kRto) << "with back-off";
  EXPECT_EQ(said(now += 2 * kRto), (Said{{1}, {}}));
  EXPECT_EQ(said(now += 4 * kRto), (Said{{1}, {}}));
  EXPECT_EQ(engine_->statistics().queries, 3U) << "of the box alone";
  answer({1}, now);
  EXPECT_EQ(engine_->deadline(), kSecond) << "only a heartbeat is left";
}

TEST_F(Early, ANewEpochStartsAnew) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  engine_->receive(box_.call_back(1), 2 * kRtt);
  const auto join = drain(*engine_, kSecond);
  ASSERT_EQ(join.size(), 1U);
  JoinPayload p;
  std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
  ++box_.epoch;
  engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), kSecond);
  EXPECT_EQ(said(kSecond), (Said{{1, 6, 7, 8}, {}})) << "what has no result, once each";
  EXPECT_EQ(header_of(sent_.back()).sequence(), 4U) << "counted from 1 again";
  EXPECT_EQ(engine_->statistics().early, 0U);
}

}  // namespace
}  // namespace tally::testbed
