// The parts of the engine by themselves: timeout, backoff, window, history, mapping of chunks to spans.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"
#include "engine/flight_window.h"
#include "engine/result_history.h"
#include "engine/rto.h"
#include "engine/seat.h"
#include "engine/worker_join.h"

namespace tally {
namespace {

TEST(Rto, FirstIsHundredMilliseconds) {
  EXPECT_EQ(engine::Rto(engine::kPollRtoFloor).timeout(), 100 * kMillisecond);
  EXPECT_EQ(engine::Rto(kSecond).timeout(), kSecond);
}

TEST(Rto, FollowsRfc6298) {
  engine::Rto rto(engine::kPollRtoFloor);
  rto.sample(8 * kMillisecond);  // srtt 8, rttvar 4
  EXPECT_EQ(rto.srtt(), 8 * kMillisecond);
  EXPECT_EQ(rto.timeout(), 24 * kMillisecond);
  rto.sample(16 * kMillisecond);  // rttvar 3/4*4 + 1/4*8 = 5, srtt 7/8*8 + 1/8*16 = 9
  EXPECT_EQ(rto.srtt(), 9 * kMillisecond);
  EXPECT_EQ(rto.timeout(), 29 * kMillisecond);
}

// Equal samples have no variance: one packet more in the queue would let all run out.
TEST(Rto, IsTheFloorAboveTheRoundTripUpToTheCeiling) {
  engine::Rto rto(engine::kAdaptiveRtoFloor);
  for (int i = 0; i < 100; ++i) rto.sample(10 * kMicrosecond);
  EXPECT_EQ(rto.timeout(), 10 * kMicrosecond + engine::kAdaptiveRtoFloor);
  rto.sample(5 * kSecond);
  EXPECT_EQ(rto.timeout(), engine::kRtoCeiling);
  rto.expired(0, kSecond);
  EXPECT_EQ(rto.timeout(), engine::kRtoCeiling);
}

TEST(Rto, DoublesOncePerRound) {
  engine::Rto rto(engine::kPollRtoFloor);
  // Three packets, sent at 0, 1 and 2 ms, all lost.
  rto.expired(0, rto.due(0));
  EXPECT_EQ(rto.timeout(), 200 * kMillisecond);
  EXPECT_EQ(rto.due(kMillisecond), 101 * kMillisecond) << "of the same round: the old timeout";
  rto.expired(kMillisecond, 101 * kMillisecond);
  rto.expired(2 * kMillisecond, 102 * kMillisecond);
  EXPECT_EQ(rto.timeout(), 200 * kMillisecond);
  EXPECT_EQ(rto.due(100 * kMillisecond), 300 * kMillisecond);
  rto.expired(100 * kMillisecond, 300 * kMillisecond);
  EXPECT_EQ(rto.timeout(), 400 * kMillisecond);
  rto.forget_back_off();
  EXPECT_EQ(rto.timeout(), 100 * kMillisecond);
  EXPECT_EQ(rto.due(300 * kMillisecond), 400 * kMillisecond);
}

TEST(Rto, ABackOffAnswersFewerTimeOutsAtATime) {
  constexpr std::uint32_t kWindow = 256;
  engine::Rto rto(engine::kPollRtoFloor);
  TimeNs now = 100 * kMillisecond;
  for (unsigned answered = 1; answered <= 128; ++answered) {  // 200 chunks sent at 0: one doubling
    EXPECT_EQ(rto.pause_end(kWindow), 0) << answered;
    rto.expired(0, now);
  }
  EXPECT_EQ(rto.pause_end(kWindow), 300 * kMillisecond) << "a timeout after the first of them";
  now = 300 * kMillisecond;
  rto.expired(0, now);  // the others, sent before the doubling
  EXPECT_EQ(rto.timeout(), 200 * kMillisecond);
  EXPECT_EQ(rto.pause_end(kWindow), 0);
  for (int doublings = 0; doublings < 9; ++doublings) rto.expired(now, now);
  for (int answered = 1; answered < 16; ++answered) {
    EXPECT_EQ(rto.pause_end(kWindow), 0) << "16 at least";
    rto.expired(0, now);
  }
  EXPECT_EQ(rto.pause_end(kWindow), now + kSecond);
  rto.forget_back_off();
  EXPECT_EQ(rto.pause_end(kWindow), 0);
}

TEST(Rto, DueIsInOrderOfSending) {
  engine::Rto rto(engine::kPollRtoFloor);
  rto.expired(10, 100 * kMillisecond);
  TimeNs before = 0;
  for (TimeNs sent = 0; sent < 300 * kMillisecond; sent += kMillisecond) {
    EXPECT_GE(rto.due(sent), before);
    before = rto.due(sent);
  }
}

TEST(Backoff, DoublesToOneSecondAndKeepsItsDistance) {
  engine::Backoff b;
  EXPECT_EQ(b.due(), kNever);
  b.start(0);
  TimeNs now = 0;
  std::vector<TimeNs> gaps;
  for (int i = 0; i < 6; ++i) {
    b.said(now);
    gaps.push_back(b.due() - now);
    now = b.due();
  }
  EXPECT_EQ(gaps, (std::vector<TimeNs>{100 * kMillisecond, 200 * kMillisecond, 400 * kMillisecond,
                                       800 * kMillisecond, kSecond, kSecond}));
  b.said(now);
  b.start(now + kMillisecond);
  EXPECT_EQ(b.due(), now + 100 * kMillisecond);
}

class Window : public testing::Test {
 protected:
  Window() {
    window_.start(16);
    window_.enter_epoch(16);
  }
  engine::Flight& send(TimeNs now) {
    engine::Flight& f = window_.take_up();
    window_.sent(f, now);
    return f;
  }
  engine::FlightWindow window_;
};

TEST_F(Window, ResultsAboveLowestDoNotMoveIt) {
  for (TimeNs t = 0; t < 16; ++t) send(t);
  EXPECT_EQ(window_.cursor(), window_.limit());
  for (std::uint64_t i = 1; i < 16; ++i) window_.done(window_.at(i));
  EXPECT_EQ(window_.lowest(), 0U);
  EXPECT_EQ(window_.limit(), 16U);
  window_.done(window_.at(0));
  EXPECT_EQ(window_.lowest(), 16U);
  EXPECT_EQ(window_.limit(), 32U);
  EXPECT_EQ(window_.offered_end(), 16U);
  EXPECT_EQ(window_.oldest_sent(), nullptr);
}

TEST_F(Window, ListIsInOrderOfLastSending) {
  for (TimeNs t = 0; t < 3; ++t) send(t);
  window_.sent(window_.at(0), 10);
  EXPECT_EQ(window_.oldest_sent()->index, 1U);
  window_.done(window_.at(1));
  EXPECT_EQ(window_.oldest_sent()->index, 2U);
  window_.done(window_.at(2));
  EXPECT_EQ(window_.oldest_sent()->index, 0U);
  EXPECT_EQ(window_.oldest_sent()->sends, 2U);
}

TEST_F(Window, NewEpochTakesUpWhatHasNoResult) {
  for (TimeNs t = 0; t < 10; ++t) send(t);
  window_.at(9).bad_results = 2;
  window_.done(window_.at(0));
  window_.done(window_.at(3));
  window_.enter_epoch(16);
  EXPECT_EQ(window_.cursor(), 1U);
  EXPECT_EQ(window_.offered_end(), 10U);
  EXPECT_EQ(window_.oldest_sent(), nullptr);
  EXPECT_TRUE(window_.at(1).offered);
  EXPECT_EQ(window_.at(1).sends, 0U);
  EXPECT_EQ(window_.at(3).state, engine::FlightState::kDone);
  EXPECT_EQ(window_.at(9).bad_results, 2);
}

TEST(WindowShrinks, LimitFollowsTheEpoch) {
  engine::FlightWindow w;
  w.start(64);
  w.enter_epoch(16);
  EXPECT_EQ(w.limit(), 16U);
  w.enter_epoch(64);
  EXPECT_EQ(w.limit(), 64U);
  EXPECT_TRUE(w.contains(63));
  EXPECT_FALSE(w.contains(64));
}

TEST(History, KeepsASpanBelowAndAWindowAbove) {
  engine::ResultHistory h;
  EXPECT_EQ(h.find(0), nullptr);
  ASSERT_TRUE(h.start(16, 32));
  std::array<std::byte, 128> values{};
  Header header;
  header.elements = Be<std::uint16_t>{32};
  header.flags = kFlagOverflow | kFlagRetransmit;
  header.exponent = 5;
  for (std::uint64_t i = 0; i < 48; ++i) {
    values[0] = static_cast<std::byte>(i);
    std::copy(values.begin(), values.end(), h.room(i));
    h.keep(i, header);
  }
  for (std::uint64_t i = 0; i < 48; ++i) {
    ASSERT_NE(h.find(i), nullptr);
    EXPECT_EQ(h.values(i)[0], static_cast<std::byte>(i));
    EXPECT_EQ(h.values(i).size(), 128U);
  }
  EXPECT_EQ(h.find(0)->flags, kFlagOverflow) << "RETRANSMIT is of the packet, not of the result";
  EXPECT_EQ(h.find(48), nullptr);
  std::copy(values.begin(), values.end(), h.room(48));
  EXPECT_EQ(h.find(0), nullptr) << "its place is being written to";
  EXPECT_EQ(h.find(48), nullptr) << "not verified yet";
  EXPECT_NE(h.find(1), nullptr);
  h.keep(48, header);
  EXPECT_EQ(h.find(0), nullptr);
  EXPECT_NE(h.find(48), nullptr);
  ASSERT_TRUE(h.start(16, 32));
  EXPECT_EQ(h.find(48), nullptr);
}

TEST(Answers, FirstComeFirstServedAndBounded) {
  engine::AnswerQueue q;
  std::uint64_t taken = 0;
  while (q.push({taken, Rank{1}})) ++taken;
  EXPECT_EQ(taken, 128U);
  for (std::uint64_t i = 0; i < taken; ++i) EXPECT_EQ(q.pop()->index, i);
  EXPECT_TRUE(q.empty());
  EXPECT_TRUE(q.push({5, Rank{2}}));
  EXPECT_EQ(q.pop()->asker, Rank{2});
}

std::vector<engine::Segment> segments(const std::vector<std::uint64_t>& lengths) {
  std::vector<engine::Segment> out;
  out.reserve(lengths.size());
  for (const auto n : lengths) out.push_back({nullptr, nullptr, n});
  return out;
}

TEST(OperationChunks, FloatIsPrimedThenSent) {
  engine::EngineOperation op(engine::OperationId{1}, ElementType::kFloat32, Dtype::kFloat32, segments({100}),
                             {}, 0);
  op.number(1000, 32, 16, 1);  // 4 data chunks
  EXPECT_EQ(op.stats.chunks, 8U);
  EXPECT_EQ(op.end(), 1008U);
  for (std::uint64_t m = 0; m < 4; ++m) {
    EXPECT_TRUE(op.primes(m));
    EXPECT_FALSE(op.data_chunk(m));
    EXPECT_EQ(op.wire_elements(m), 0U);
    EXPECT_FALSE(op.primes(m + 4));
    EXPECT_EQ(op.data_chunk(m + 4), m);
  }
  EXPECT_EQ(op.wire_elements(6), 32U);
  EXPECT_EQ(op.wire_elements(7), 16U) << "4 elements, padded";
  EXPECT_EQ(op.range(3).count, 4U);
}

TEST(OperationChunks, LookaheadBoundsThePriming) {
  engine::EngineOperation op(engine::OperationId{1}, ElementType::kFloat32, Dtype::kFloat32,
                             segments({32 * 40}), {}, 0);
  op.number(0, 32, 16, 1);
  EXPECT_EQ(op.stats.chunks, 56U);
  EXPECT_TRUE(op.primes(39)) << "a data chunk carries exponents too";
  EXPECT_FALSE(op.primes(40));
  EXPECT_EQ(op.data_chunk(16), 0U);
}

TEST(OperationChunks, IntegersAreNotPrimed) {
  engine::EngineOperation op(engine::OperationId{1}, ElementType::kInt32, Dtype::kInt32, segments({33}), {},
                             0);
  op.number(0, 32, 16, 1);
  EXPECT_EQ(op.stats.chunks, 2U);
  EXPECT_EQ(op.data_chunk(0), 0U);
  EXPECT_FALSE(op.primes(0));
}

TEST(OperationChunks, NothingIsOneEmptyChunk) {
  for (const ElementType type : {ElementType::kInt32, ElementType::kFloat32}) {
    engine::EngineOperation op(engine::OperationId{1}, type, engine::wire_dtype(type, WireType::kInt32),
                               segments({0, 0}), {}, 0);
    op.number(0, 32, 16, 1);
    EXPECT_EQ(op.stats.chunks, 1U);
    EXPECT_EQ(op.wire_elements(0), 0U);
    EXPECT_FALSE(op.data_chunk(0));
    EXPECT_FALSE(op.primes(0));
  }
}

TEST(OperationChunks, PiecesSkipEmptySpans) {
  engine::EngineOperation op(engine::OperationId{1}, ElementType::kInt32, Dtype::kInt32,
                             segments({0, 5, 0, 0, 7, 0, 30, 0}), {}, 0);
  op.number(0, 16, 16, 1);
  std::vector<std::array<std::uint64_t, 3>> pieces;
  op.for_each_piece({3, 12}, [&](const engine::Segment& s, std::uint64_t offset, std::uint32_t n) {
    pieces.push_back({s.length, offset, n});
  });
  EXPECT_EQ(pieces, (std::vector<std::array<std::uint64_t, 3>>{{5, 3, 2}, {7, 0, 7}, {30, 0, 3}}));
  EXPECT_EQ(op.place_of(0).span, 1U);
  EXPECT_EQ(op.place_of(12).span, 6U);
  EXPECT_EQ(op.place_of(12).offset, 0U);
  EXPECT_EQ(op.place_of(41).offset, 29U);
}

TEST(Names, RanksForPeople) {
  EXPECT_EQ(engine::name_ranks(0), "");
  EXPECT_EQ(engine::name_ranks(1), "rank 0");
  EXPECT_EQ(engine::name_ranks(0x8000000000000012ULL), "ranks 1, 4, 63");
}

}  // namespace
}  // namespace tally
