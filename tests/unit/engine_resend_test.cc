// RESEND: a server asks for what it lacks. In flight: the contribution again, DIRECT. Finished: the sum.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

constexpr std::uint16_t kServer = 0xFF02;

// Rank 1 of 3 by hand: the box says only what a test lets it say.
class Resend : public testing::Test {
 protected:
  Resend() : box_(shape()), engine_(joined_engine(box_, options_of(shape(), 1))) {}

  static JobShape shape() {
    JobShape s;
    s.world = 3;
    s.shards = 3;
    s.discipline = Discipline::kShared;
    s.shared_slots = 64;
    s.max_priority = 200;
    s.lease_ms = 1'000'000;
    return s;
  }
  [[nodiscard]] Header resend(std::uint32_t chunk) const {
    Header h = box_.from_box(PacketType::kResend);
    h.rank = Be<std::uint16_t>{kServer};
    h.chunk = Be<std::uint32_t>{chunk};
    h.slot = Be<std::uint32_t>{box_.slot_of(chunk)};
    h.contributors = Be<std::uint64_t>{0b010};
    return h;
  }
  void expect_refused(const Header& h, Refused why) {
    const EngineStatistics before = engine_->statistics();
    engine_->receive(sealed(h), now_);
    EXPECT_EQ(engine_->statistics().of(why), before.of(why) + 1) << name_of(why);
    EXPECT_EQ(engine_->statistics().refused_total(), before.refused_total() + 1);
    EXPECT_TRUE(drain(*engine_, now_).empty());
  }

  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  TimeNs now_ = 100 * kMicrosecond;
};

TEST_F(Resend, UnfinishedGoesDirectWithTheSameValuesSumsAndExponent) {
  std::vector<float> x(60);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.3F * static_cast<float>(i) - 7;
  (void)engine_->allreduce(std::span<float>(x), 0);
  for (const Out& primed : drain(*engine_, 0)) engine_->receive(box_.result_of(primed.bytes), 0);
  std::vector<std::int32_t> big(16, 0x7fff'ffff);  // sets OVERFLOW
  (void)engine_->allreduce(std::span<std::int32_t>(big), 0);
  const auto sent = drain(*engine_, 0);
  ASSERT_EQ(sent.size(), 3U) << "two data chunks of the floats, one of the integers";
  for (const Out& first : sent) {
    const Header f = header_of(first.bytes);
    engine_->receive(sealed(resend(f.chunk.host())), now_);
    EXPECT_EQ(engine_->deadline(), 0U);
    const auto again = drain(*engine_, now_);
    ASSERT_EQ(again.size(), 1U);
    Header want = f;
    want.flags |= kFlagDirect | kFlagRetransmit;
    want.slot = header_of(again[0].bytes).slot;
    EXPECT_GT(want.sequence(), f.sequence()) << "a sending of its own";
    EXPECT_EQ(again[0].bytes, sealed(want, payload_of(first.bytes))) << "chunk " << f.chunk.host();
    EXPECT_EQ(again[0].port, first.port);
  }
  EXPECT_NE(header_of(sent[2].bytes).flags & kFlagOverflow, 0);
  EXPECT_EQ(engine_->statistics().direct, 3U);
  EXPECT_EQ(engine_->statistics().retransmissions, 3U);
  EXPECT_EQ(engine_->statistics().refused_total(), 0U);
}

// It goes on as after any retransmission: one timer, from the last sending; the next copy is a plain one.
TEST_F(Resend, TheNextCopyIsPlainAndKeepsItsTimer) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  const TimeNs rto = engine_->deadline();
  now_ = rto / 2;
  engine_->receive(sealed(resend(0)), now_);
  ASSERT_EQ(drain(*engine_, now_).size(), 1U);
  EXPECT_EQ(engine_->deadline(), now_ + rto);
  EXPECT_TRUE(drain(*engine_, rto).empty());
  const auto plain = drain(*engine_, now_ + rto);
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(header_of(plain[0].bytes).type, PacketType::kContribute);
  EXPECT_EQ(header_of(plain[0].bytes).flags, kFlagRetransmit);
}

// No timer ran out: three plain retransmissions still come before the first QUERY, and then every second one.
TEST_F(Resend, DoesNotBringTheQueryNearer) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  std::vector<PacketType> story;
  while (story.size() < 7) {
    now_ = engine_->deadline();
    for (const Out& out : drain(*engine_, now_)) {
      if (header_of(out.bytes).type != PacketType::kHeartbeat) story.push_back(header_of(out.bytes).type);
    }
    engine_->receive(sealed(resend(0)), now_);
    const auto asked = drain(*engine_, now_);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_NE(header_of(asked[0].bytes).flags & kFlagDirect, 0);
  }
  constexpr auto kPlain = PacketType::kContribute;
  constexpr auto kQuery = PacketType::kQuery;
  EXPECT_EQ(story, (std::vector{kPlain, kPlain, kPlain, kQuery, kPlain, kQuery, kPlain}));
}

TEST_F(Resend, FinishedAndKeptIsAnswered) {
  std::vector<std::int32_t> x(20, 9);
  (void)engine_->allreduce(std::span<std::int32_t>(x), 0);
  const auto sent = drain(*engine_, 0);
  ASSERT_EQ(sent.size(), 1U);
  const Bytes result = box_.result_of(sent[0].bytes);
  engine_->receive(result, 0);
  engine_->receive(sealed(resend(0)), now_);
  const auto out = drain(*engine_, now_);
  ASSERT_EQ(out.size(), 1U);
  Header want = header_of(result);
  want.type = PacketType::kAnswer;
  want.rank = Be<std::uint16_t>{1};
  want.priority = shape().max_priority;  // not the lowest class of the queue towards the server
  want.slot = Be<std::uint32_t>{kServer};
  want.cookie = Be<std::uint64_t>{box_.cookie_of(1)};
  EXPECT_EQ(out[0].bytes, sealed(want, payload_of(result)));
  EXPECT_EQ(out[0].port, sent[0].port);
  EXPECT_EQ(engine_->statistics().answers, 1U);
  EXPECT_EQ(engine_->statistics().direct, 0U);
}

TEST_F(Resend, SilentAboutWhatWasNeverOffered) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  const std::array<std::uint32_t, 5> unknown{1, 15, 4000, 0x8000'0000, 0xFFFF'FFFF};
  for (const std::uint32_t chunk : unknown) engine_->receive(sealed(resend(chunk)), now_);
  EXPECT_TRUE(drain(*engine_, now_).empty());
  EXPECT_EQ(engine_->statistics().resends_silent, unknown.size());
  EXPECT_EQ(engine_->statistics().refused_total(), 0U);
}

// A chunk whose result came between the question and the turn of the answer.
TEST_F(Resend, ForgottenWhenTheResultComesFirst) {
  (void)engine_->barrier(0);
  const auto sent = drain(*engine_, 0);
  engine_->receive(sealed(resend(0)), now_);
  engine_->receive(box_.result_of(sent[0].bytes), now_);
  EXPECT_TRUE(drain(*engine_, now_).empty());
  EXPECT_EQ(engine_->statistics().direct, 0U);
  EXPECT_EQ(engine_->statistics().results, 1U);
}

// What an earlier epoch's server asked for is none of the new one's business.
TEST_F(Resend, OfAnotherEpochIsRefusedAndOwedToNobody) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  Header foreign = resend(0);
  foreign.epoch = Be<std::uint32_t>{box_.epoch + 1};
  expect_refused(foreign, Refused::kEpoch);
  foreign = resend(0);
  foreign.job = Be<std::uint16_t>{8};
  expect_refused(foreign, Refused::kJob);
}

TEST_F(Resend, WithoutTheResultCookieIsRefused) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  Header h = resend(0);
  h.cookie = Be<std::uint64_t>{box_.result_cookie() ^ 1};
  expect_refused(h, Refused::kCookie);
  h.cookie = Be<std::uint64_t>{box_.cookie_of(1)};
  expect_refused(h, Refused::kCookie);
}

TEST_F(Resend, OnlyServersAskAndOnlyForThisRank) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  for (const std::uint16_t rank : std::vector<std::uint16_t>{0x0000, 0x0002, 0xFEFF, 0xFF10, 0xFFFF}) {
    Header h = resend(0);
    h.rank = Be<std::uint16_t>{rank};
    expect_refused(h, Refused::kRank);
  }
  for (const std::uint64_t ranks : {0b000U, 0b001U, 0b101U}) {
    Header h = resend(0);
    h.contributors = Be<std::uint64_t>{ranks};
    expect_refused(h, Refused::kPeer);
  }
  Header h = resend(0);
  h.contributors = Be<std::uint64_t>{0b111};
  engine_->receive(sealed(h), now_);
  EXPECT_EQ(drain(*engine_, now_).size(), 1U) << "several ranks are asked at once";
}

TEST_F(Resend, CarriesNoValues) {
  (void)engine_->barrier(0);
  ASSERT_EQ(drain(*engine_, 0).size(), 1U);
  Header h = resend(0);
  h.elements = Be<std::uint16_t>{16};
  expect_refused(h, Refused::kLength);
}

TEST_F(Resend, StormIsBounded) {
  (void)engine_->barrier(0);
  (void)engine_->barrier(0);
  const auto sent = drain(*engine_, 0);
  engine_->receive(box_.result_of(sent[0].bytes), 0);
  for (int i = 0; i < 1000; ++i) {
    engine_->receive(sealed(resend(0)), now_);
    engine_->receive(sealed(resend(1)), now_);
  }
  EXPECT_EQ(drain(*engine_, now_).size(), 256U);
  EXPECT_EQ(engine_->statistics().answers_dropped, 872U);
  EXPECT_EQ(engine_->statistics().resends_dropped, 872U);
}

}  // namespace
}  // namespace tally::testbed
