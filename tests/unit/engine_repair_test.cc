// Repair by one worker: timers, QUERY of named peers after k plain retransmissions, ANSWER from history,
// silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

// Rank 1 of 4 by hand: the box never answers data.
class Alone : public testing::Test {
 protected:
  Alone() : box_(shape()) {
    engine_ = std::move(*engine::WorkerEngine::create(options_of(shape(), 1), kernels::best_kernels()));
    const auto join = drain(*engine_, 0);
    JoinPayload p;
    std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
    engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), 0);
  }
  static JobShape shape() {
    JobShape s;
    s.world = 4;
    s.most_advanced = 2;
    s.lease_ms = 1'000'000;  // the box's silence does not end the test
    return s;
  }
  // What is due now beside heartbeats: one datagram.
  Bytes one(TimeNs now) {
    auto out = drain(*engine_, now);
    std::erase_if(out, [](const auto& o) { return header_of(o.bytes).type == PacketType::kHeartbeat; });
    EXPECT_EQ(out.size(), 1U);
    return out.empty() ? Bytes(kHeaderBytes) : out[0].bytes;
  }
  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
};

TEST_F(Alone, QueriesNamedPeersInTurnAfterThreePlainRetransmissions) {
  (void)engine_->barrier(0);
  const Header first = header_of(one(0));
  EXPECT_EQ(first.type, PacketType::kContribute);
  EXPECT_EQ(first.flags & kFlagRetransmit, 0);
  std::vector<std::string> story;
  std::vector<TimeNs> gaps;
  std::uint32_t contributed = 1;
  TimeNs now = 0;
  for (int i = 0; i < 11; ++i) {
    TimeNs due = engine_->deadline();
    // A heartbeat each second, alone or together with the timer.
    std::vector<Out> sent = drain(*engine_, due);
    while (sent.size() == 1 && header_of(sent[0].bytes).type == PacketType::kHeartbeat) {
      due = engine_->deadline();
      sent = drain(*engine_, due);
    }
    std::erase_if(sent, [](const Out& o) { return header_of(o.bytes).type == PacketType::kHeartbeat; });
    ASSERT_EQ(sent.size(), 1U);
    gaps.push_back((due - now) / kMillisecond);
    now = due;
    const Header h = header_of(sent[0].bytes);
    EXPECT_EQ(h.chunk.host(), 0U);
    EXPECT_EQ(h.slot.host(), h.type == PacketType::kQuery ? 0U : ++contributed) << "slot, or sequence";
    EXPECT_EQ(h.cookie.host(), box_.cookie_of(1));
    EXPECT_EQ(h.epoch.host(), box_.epoch);
    EXPECT_EQ(h.rank.host(), 1);
    if (h.type == PacketType::kQuery) {
      EXPECT_EQ(h.sum1.host() | h.sum2.host() | h.elements.host(), 0U);
      story.push_back("ask " + std::to_string(std::countr_zero(h.contributors.host())));
    } else {
      EXPECT_NE(h.flags & kFlagRetransmit, 0);
      story.emplace_back("plain");
    }
  }
  EXPECT_EQ(story, (std::vector<std::string>{"plain", "plain", "plain", "ask 2", "plain", "ask 3", "plain",
                                             "ask 0", "plain", "ask 2", "plain"}));
  EXPECT_EQ(gaps, (std::vector<TimeNs>{100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000}));
  EXPECT_EQ(engine_->statistics().queries, 4U);
  EXPECT_EQ(engine_->statistics().retransmissions, 7U);
}

// Control renews an epoch by what heartbeats say of the numbers, so a long lease must not make them rare.
TEST_F(Alone, HeartbeatsComeAtLeastOnceASecond) {
  std::vector<TimeNs> beats;
  while (beats.size() < 3) {
    const TimeNs due = engine_->deadline();
    for (const Out& o : drain(*engine_, due)) {
      if (header_of(o.bytes).type == PacketType::kHeartbeat) beats.push_back(due);
    }
  }
  EXPECT_EQ(beats, (std::vector<TimeNs>{kSecond, 2 * kSecond, 3 * kSecond}));
}

// A worker that was stopped: its results may lie in the socket. It says at once that it lives, and lets them
// in before it believes its timers.
TEST_F(Alone, StoppedItReadsWhatHasArrivedBeforeItRepeats) {
  (void)engine_->barrier(0);
  const Bytes sent = one(0);
  constexpr TimeNs kStopped = 5 * kSecond;
  EXPECT_EQ(header_of(drain(*engine_, kStopped).at(0).bytes).type, PacketType::kHeartbeat);
  engine_->receive(box_.result_of(sent), kStopped);
  EXPECT_TRUE(engine_->next_completion().has_value());
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
}
TEST_F(Alone, StoppedItRepeatsSoonAfterwards) {
  (void)engine_->barrier(0);
  (void)one(0);
  (void)drain(*engine_, 5 * kSecond);
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
  EXPECT_LE(engine_->deadline(), 5 * kSecond + kMillisecond);
  (void)drain(*engine_, engine_->deadline());
  EXPECT_EQ(engine_->statistics().retransmissions, 1U);
}

TEST_F(Alone, KarnsRuleSamplesOnlyWhatWasSentOnce) {
  (void)engine_->barrier(0);
  (void)engine_->barrier(0);
  const auto out = drain(*engine_, 0);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(drain(*engine_, 100 * kMillisecond).size(), 2U);
  engine_->receive(box_.result_of(out[0].bytes), 101 * kMillisecond);
  EXPECT_EQ(engine_->statistics().srtt, 0U) << "which of the two sendings was answered?";
  EXPECT_EQ(engine_->statistics().rto, 200 * kMillisecond) << "it may have been too short";
  (void)engine_->barrier(101 * kMillisecond);
  const Bytes third = one(101 * kMillisecond);
  engine_->receive(box_.result_of(third), 103 * kMillisecond);
  EXPECT_EQ(engine_->statistics().srtt, 2 * kMillisecond);
  EXPECT_EQ(engine_->statistics().rto, 6 * kMillisecond) << "a sample ends the back-off";
}

// Where memory is so scarce that nothing is answered that was sent once, nothing else would end the back-off.
TEST_F(Alone, WhatIsSentAgainAfterTheLongestTimeoutIsASample) {
  (void)engine_->barrier(0);
  const Bytes sent = one(0);
  TimeNs before = 0;
  TimeNs now = engine_->deadline();
  const auto again = [&] {
    for (std::uint64_t n = engine_->statistics().retransmissions; engine_->statistics().retransmissions == n;)
      (void)drain(*engine_, now = engine_->deadline());
  };
  for (; now - before < kSecond; again()) before = now;
  ASSERT_EQ(engine_->statistics().rto, kSecond);
  engine_->receive(box_.result_of(sent), now + 2 * kMillisecond);
  EXPECT_EQ(engine_->statistics().srtt, 2 * kMillisecond);
  EXPECT_EQ(engine_->statistics().rto, 6 * kMillisecond);
}

// A path of 300 ms: the first timeouts are too short, and must grow until a chunk is answered that was sent
// once.
TEST_F(Alone, TheTimeoutGrowsBeyondARoundTripThatNobodyCouldSample) {
  constexpr TimeNs kRoundTrip = 300 * kMillisecond;
  std::multimap<TimeNs, Bytes> under_way;
  std::uint64_t sent = 0;
  for (TimeNs now = 0; now < 20 * kSecond; now += kMillisecond) {
    if (now % (50 * kMillisecond) == 0) (void)engine_->barrier(now);
    for (auto& o : drain(*engine_, now)) {
      ++sent;
      under_way.emplace(now + kRoundTrip, box_.result_of(o.bytes));
    }
    for (; !under_way.empty() && under_way.begin()->first <= now; under_way.erase(under_way.begin()))
      engine_->receive(under_way.begin()->second, now);
  }
  EXPECT_GE(engine_->statistics().srtt, kRoundTrip);
  EXPECT_LT(engine_->statistics().retransmissions, 40U) << "of " << sent;
}

TEST_F(Alone, AnswersFromHistoryWithTheWireValues) {
  std::vector<std::int32_t> x(40, 5);
  x[0] = 0x7ffffff0;
  (void)engine_->allreduce(std::span<std::int32_t>(x), 0);
  const auto out = drain(*engine_, 0);
  ASSERT_EQ(out.size(), 2U);
  for (const auto& o : out) {
    Bytes result = box_.result_of(o.bytes);
    if (&o == &out[0]) {
      Header h = header_of(result);
      h.flags = kFlagOverflow | kFlagRetransmit;
      result = sealed(h, payload_of(result));
    }
    engine_->receive(result, 1);
  }
  EXPECT_TRUE(engine_->next_completion()->result->overflow);
  for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
    Header q = box_.from_box(PacketType::kQuery);
    q.rank = Be<std::uint16_t>{3};
    q.chunk = Be<std::uint32_t>{chunk};
    q.contributors = Be<std::uint64_t>{2};
    engine_->receive(sealed(q), 2);
    EXPECT_EQ(engine_->deadline(), 0U);
    const Bytes answer = one(2);
    const Header a = header_of(answer);
    const Header r = header_of(box_.result_of(out[chunk].bytes));
    EXPECT_EQ(a.type, PacketType::kAnswer);
    EXPECT_EQ(a.rank.host(), 1);
    EXPECT_EQ(a.cookie.host(), box_.cookie_of(1));
    EXPECT_EQ(a.slot.host(), 3U) << "who asked";
    EXPECT_EQ(a.contributors.host(), 15U);
    EXPECT_EQ(a.flags, chunk == 0 ? kFlagOverflow : 0);
    EXPECT_EQ(a.chunk, r.chunk);
    EXPECT_EQ(a.elements, r.elements);
    EXPECT_EQ(a.dtype, r.dtype);
    EXPECT_EQ(a.exponent, r.exponent);
    EXPECT_EQ(a.total, r.total);
    EXPECT_EQ(a.sum1, r.sum1);
    EXPECT_EQ(a.sum2, r.sum2);
    EXPECT_EQ(payload_of(answer), payload_of(out[chunk].bytes));
  }
  EXPECT_EQ(engine_->statistics().answers, 2U);
}

TEST_F(Alone, SilentWithoutTheResult) {
  (void)engine_->barrier(0);
  (void)one(0);
  Header q = box_.from_box(PacketType::kQuery);
  q.rank = Be<std::uint16_t>{3};
  q.contributors = Be<std::uint64_t>{2};
  for (const std::uint32_t chunk : {0U, 1U, 4000U, 0xFFFFFFFFU, 0x80000000U}) {
    q.chunk = Be<std::uint32_t>{chunk};
    engine_->receive(sealed(q), 1);
  }
  EXPECT_TRUE(drain(*engine_, 1).empty());
  EXPECT_EQ(engine_->statistics().queries_silent, 5U);
  EXPECT_EQ(engine_->statistics().refused_total(), 0U);
}

TEST_F(Alone, HistoryHoldsTheSpanBelowLowest) {
  for (int i = 0; i < 200; ++i) {
    (void)engine_->barrier(0);
    const Bytes sent = one(0);
    engine_->receive(box_.result_of(sent), 1);
  }
  Header q = box_.from_box(PacketType::kQuery);
  q.rank = Be<std::uint16_t>{0};
  q.contributors = Be<std::uint64_t>{2};
  for (std::uint32_t chunk = 200 - 2 * 16; chunk < 200; ++chunk) {
    q.chunk = Be<std::uint32_t>{chunk};
    engine_->receive(sealed(q), 2);
    EXPECT_EQ(header_of(one(2)).chunk.host(), chunk);
  }
  q.chunk = Be<std::uint32_t>{100};
  engine_->receive(sealed(q), 2);
  EXPECT_TRUE(drain(*engine_, 2).empty());
}

TEST_F(Alone, AnswerIsForgottenWhenItsResultIsOverwritten) {
  for (int i = 0; i < 48; ++i) {
    (void)engine_->barrier(0);
    engine_->receive(box_.result_of(one(0)), 1);
  }
  for (int i = 0; i < 16; ++i) (void)engine_->barrier(1);
  const auto out = drain(*engine_, 1);
  ASSERT_EQ(out.size(), 16U);
  Header q = box_.from_box(PacketType::kQuery);
  q.rank = Be<std::uint16_t>{0};
  q.contributors = Be<std::uint64_t>{2};
  q.chunk = Be<std::uint32_t>{15};  // older than the span, but still here
  engine_->receive(sealed(q), 2);
  engine_->receive(box_.result_of(out[15].bytes), 2);  // chunk 63 takes its place
  for (const Out& o : drain(*engine_, 2)) EXPECT_NE(header_of(o.bytes).type, PacketType::kAnswer);
  EXPECT_EQ(engine_->statistics().answers, 0U);
}

TEST_F(Alone, NewEpochForgetsWhoWasMissing) {
  (void)engine_->barrier(0);
  const Bytes sent = one(0);
  engine_->receive(box_.reject(RejectReason::kWaiting, header_of(sent), box_.result_cookie(), 0b0010), 1);
  EXPECT_EQ(engine_->missing(), 0b1101U);
  engine_->receive(box_.call_back(1), 1);
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  EXPECT_EQ(engine_->missing(), 0U);
  const Bytes join = one(kSecond);
  JoinPayload p;
  std::memcpy(&p, join.data() + kHeaderBytes, sizeof p);
  EXPECT_EQ(p.next.host(), 1U);
  box_.epoch += 1;
  engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), kSecond);
  EXPECT_EQ(engine_->missing(), 0U);
  const Header again = header_of(one(kSecond));
  EXPECT_EQ(again.epoch.host(), box_.epoch);
  EXPECT_NE(again.flags & kFlagRetransmit, 0);
}

TEST_F(Alone, QueryStormIsBounded) {
  (void)engine_->barrier(0);
  engine_->receive(box_.result_of(one(0)), 1);
  Header q = box_.from_box(PacketType::kQuery);
  q.rank = Be<std::uint16_t>{0};
  q.contributors = Be<std::uint64_t>{2};
  for (int i = 0; i < 1000; ++i) engine_->receive(sealed(q), 2);
  EXPECT_EQ(drain(*engine_, 2).size(), 128U);
  EXPECT_EQ(engine_->statistics().answers_dropped, 872U);
}

TEST_F(Alone, WaitingNamesTheMissing) {
  (void)engine_->barrier(0);
  const Bytes sent = one(0);
  engine_->receive(box_.reject(RejectReason::kWaiting, header_of(sent), box_.result_cookie(), 0b0011), 1);
  EXPECT_EQ(engine_->missing(), 0b1100U);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
  engine_->receive(box_.result_of(sent), 2);
  EXPECT_EQ(engine_->missing(), 0U);
}

TEST_F(Alone, ThreeWrongSumsFailTheOperationByName) {
  std::vector<std::int32_t> x(16, 5);
  const auto id = *engine_->allreduce(std::span<std::int32_t>(x), 0);
  Bytes result = box_.result_of(one(0));
  result.back() ^= std::byte{1};
  engine_->receive(result, 1);
  engine_->receive(result, 2);
  EXPECT_EQ(engine_->statistics().of(Refused::kSum), 2U);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
  EXPECT_EQ(x, std::vector<std::int32_t>(16, 5)) << "verified before writing";
  engine_->receive(result, 3);
  EXPECT_EQ(engine_->state(), engine::EngineState::kClosed);
  const auto c = engine_->next_completion();
  EXPECT_EQ(c->id, id);
  EXPECT_EQ(c->result.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(c->result.error().what, testing::HasSubstr("operation 1"));
  EXPECT_EQ(header_of(one(3)).type, PacketType::kAbort);
  EXPECT_EQ(x, std::vector<std::int32_t>(16, 5));
}

TEST_F(Alone, ImpossibleExponentIsRefused) {
  std::vector<float> zeros(16, 0.0F);
  (void)engine_->allreduce(std::span<float>(zeros), 0);
  const Bytes primed = one(0);
  EXPECT_EQ(header_of(primed).exponent, -127);
  Header h = header_of(box_.result_of(primed));
  h.exponent = -100;  // between a zero block and 2^-96
  engine_->receive(sealed(h), 1);
  EXPECT_EQ(engine_->statistics().of(Refused::kExponent), 1U);
  h.exponent = -96;
  engine_->receive(sealed(h), 1);
  EXPECT_EQ(engine_->statistics().results, 1U);
}

TEST_F(Alone, SumsFindWhatPlainSumsWouldNot) {
  std::vector<std::int32_t> x(16, 1);
  (void)engine_->allreduce(std::span<std::int32_t>(x), 0);
  const Bytes sent = one(0);
  // The right values, but rank 3 counted twice and rank 2 not at all; or the sum of another chunk.
  Header h = header_of(box_.result_of(sent));
  const std::uint32_t right = h.sum1.host();
  const auto key = [&](std::uint16_t r) { return rank_key(Generation{box_.generation}, Rank{r}); };
  h.sum1 = Be<std::uint32_t>{right + keyed(key(3), Chunk{0}) - keyed(key(2), Chunk{0})};
  engine_->receive(sealed(h, payload_of(sent)), 1);
  std::uint32_t other = plain_sum1(values_of(sent));
  for (std::uint16_t r = 0; r < 4; ++r) other += keyed(key(r), Chunk{1});
  h.sum1 = Be<std::uint32_t>{other};
  engine_->receive(sealed(h, payload_of(sent)), 1);
  EXPECT_EQ(engine_->statistics().of(Refused::kSum), 2U);
  EXPECT_EQ(engine_->pending_operations(), 1U);
}

}  // namespace
}  // namespace tally::testbed
