// After a pause a job that shares slots sends 4 chunks, and the rest when the first result shows that all
// ranks are there.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

constexpr TimeNs kPause = 10 * kMillisecond;

JobShape shape_of(Discipline discipline, std::uint32_t window = 32) {
  JobShape shape;
  shape.window = shape.largest_window = shape.lookahead = window;
  shape.discipline = discipline;
  shape.shared_slots = 64;
  shape.lease_ms = 1'000'000;
  return shape;
}

// Rank 0 of 2 by hand.
class Restart : public testing::Test {
 protected:
  explicit Restart(Discipline discipline = Discipline::kShared, TimeNs rto_floor = engine::kAdaptiveRtoFloor)
      : box_(shape_of(discipline)) {
    engine::EngineOptions options = options_of(box_.shape, 0);
    options.rto_floor = rto_floor;
    engine_ = joined_engine(box_, options);
  }
  // Chunks that the next operation, of so many, sends at once.
  std::size_t send(std::size_t chunks, TimeNs now) {
    values_.emplace_back(32 * chunks, 1);
    (void)engine_->allreduce(std::span<std::int32_t>(values_.back()), now);
    return due(now);
  }
  std::size_t due(TimeNs now) {
    std::size_t data = 0;
    for (const Out& out : drain(*engine_, now)) {
      if (is_control(header_of(out.bytes).type)) continue;
      sent_.push_back(out.bytes);
      ++data;
    }
    return data;
  }
  void answer(std::size_t first, std::size_t count, TimeNs now) {
    for (std::size_t i = first; i < first + count; ++i) engine_->receive(box_.result_of(sent_.at(i)), now);
  }
  void answer_all(TimeNs now) {
    while (answered_ < sent_.size()) {
      answer(answered_++, 1, now);
      (void)due(now);
    }
    EXPECT_EQ(engine_->pending_operations(), 0U);
  }
  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::deque<std::vector<std::int32_t>> values_;
  std::vector<Bytes> sent_;
  std::size_t answered_ = 0;
};

class RestartOfPool : public Restart {
 protected:
  RestartOfPool() : Restart(Discipline::kPool) {}
};
class RestartOfFcfs : public Restart {
 protected:
  RestartOfFcfs() : Restart(Discipline::kFcfs) {}
};
class RestartPolling : public Restart {
 protected:
  RestartPolling() : Restart(Discipline::kShared, engine::kPollRtoFloor) {}
};

TEST_F(Restart, FourChunksThenTheWindowWithTheFirstResult) {
  EXPECT_EQ(send(100, 0), 4U) << "a job begins as after a pause";
  EXPECT_EQ(due(kMillisecond), 0U);
  EXPECT_GT(engine_->deadline(), kMillisecond) << "only timers are left";
  answer(2, 1, kMillisecond);  // not even the oldest
  EXPECT_EQ(due(kMillisecond), 28U);
}

TEST_F(Restart, OnlyAPauseBringsItBack) {
  (void)send(40, 0);
  answer_all(kMillisecond);
  EXPECT_EQ(send(20, kMillisecond + kPause - 1), 20U) << "the next operation follows soon";
  answer_all(kMillisecond + kPause - 1);
  EXPECT_EQ(send(20, kMillisecond + 2 * kPause - 1), 4U);
  answer_all(kMillisecond + 2 * kPause);
}

// Silence is no pause while something is in flight.
TEST_F(Restart, WaitingForAnotherRankIsNoPause) {
  (void)send(4, 0);
  answer(0, 3, kMillisecond);
  EXPECT_EQ(send(20, 50 * kMillisecond), 21U) << "and the one whose timer ran out";
}

TEST_F(Restart, WhatIsLostIsSentAgainByItsTimer) {
  ASSERT_EQ(send(100, 0), 4U);
  const TimeNs due_at = engine_->deadline();
  EXPECT_EQ(due_at, kSecond / 10);
  EXPECT_EQ(due(due_at), 4U);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_NE(header_of(sent_[i]).flags & kFlagRetransmit, 0);
  answer(4, 1, due_at + kMillisecond);
  EXPECT_EQ(due(due_at + kMillisecond), 29U);
}

TEST_F(RestartPolling, APauseIsOneRtoIfThatIsShorter) {
  (void)send(1, 0);
  answer_all(200 * kMicrosecond);
  const TimeNs rto = engine_->statistics().rto;
  ASSERT_EQ(rto, kMillisecond + 200 * kMicrosecond);
  EXPECT_EQ(send(20, 200 * kMicrosecond + rto - 1), 20U);
  answer_all(200 * kMicrosecond + rto);
  EXPECT_EQ(send(20, 2 * (200 * kMicrosecond + rto)), 4U);
}

TEST_F(Restart, ANewEpochOffersAtOnceWhatWasInFlight) {
  ASSERT_EQ(send(100, 0), 4U);
  answer(0, 1, kMillisecond);
  ASSERT_EQ(due(kMillisecond), 29U);
  engine_->receive(box_.call_back(0), 2 * kMillisecond);
  const auto join = drain(*engine_, kSecond);
  ASSERT_EQ(join.size(), 1U);
  JoinPayload p;
  std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
  ++box_.epoch;
  engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 0), kSecond);
  EXPECT_EQ(due(kSecond), 32U);
}

TEST_F(RestartOfFcfs, HashedSlotsAreSharedToo) { EXPECT_EQ(send(100, 0), 4U); }

TEST_F(RestartOfPool, PoolJobsKnowNoPause) {
  EXPECT_EQ(send(100, 0), 32U);
  answer_all(kMillisecond);
  EXPECT_EQ(send(100, kSecond), 32U);
}

TEST(RestartTogether, RanksThatPauseAtDifferentPlacesAllFinish) {
  Rig rig(shape_of(Discipline::kShared, 16));
  std::mt19937_64 random(8);
  rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < 20; };
  ASSERT_TRUE(rig.run_until_running());
  for (int round = 0; round < 40; ++round) {
    std::vector<float> a(random() % 2000, 0.5F);
    auto b = a;
    const auto id = *rig[0].allreduce(std::span<float>(a), rig.now);
    (void)rig.run_until([] { return false; }, random() % (20 * kMillisecond));  // rank 1 is late
    (void)rig[1].allreduce(std::span<float>(b), rig.now);
    for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
    EXPECT_EQ(a, std::vector<float>(a.size(), 1.0F));
    EXPECT_EQ(a, b);
    if (round % 8 == 7) rig.box.restart();
  }
}

}  // namespace
}  // namespace tally::testbed
