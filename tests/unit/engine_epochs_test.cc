// All ranks together: new epochs and new generations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> ramp(std::size_t n, std::int32_t first) {
  std::vector<std::int32_t> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

TEST(Epochs, OperationsSubmittedBeforeTheJobRunsAreQueued) {
  Rig rig({});
  auto a = ramp(100, 0);
  auto b = ramp(100, 7);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), 0);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), 0);
  EXPECT_EQ(rig[0].pending_operations(), 1U);
  for (const auto& r : rig.finish(id)) EXPECT_TRUE(r);
  EXPECT_EQ(a[10], 27);
  EXPECT_EQ(a, b);
  EXPECT_EQ(rig[0].pending_operations(), 0U);
}

TEST(Epochs, NewEpochReoffersWhatHasNoResult) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  auto a = ramp(4000, 0);
  auto b = ramp(4000, 1);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > 20; }));
  const std::uint64_t before = rig[0].statistics().results;
  rig.box.restart();
  for (const auto& r : rig.finish(id)) {
    ASSERT_TRUE(r);
    EXPECT_GT(r->retransmissions, 0U);
  }
  EXPECT_EQ(rig[0].statistics().epochs, 2U);
  EXPECT_EQ(rig[0].statistics().generations, 1U);
  EXPECT_GT(rig.box.last_join[0].lowest.host(), 0U);
  EXPECT_GE(rig.box.last_join[0].next.host(), before);
  EXPECT_EQ(rig.box.last_join[0].last.generation.host(), rig.box.generation);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], static_cast<std::int32_t>(2 * i + 1));
  EXPECT_EQ(a, b);
}

TEST(Epochs, RestartsWithLossStillSumExactly) {
  Rig rig({});
  std::mt19937_64 random(4);
  rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 7 == 0; };
  std::vector<float> a(10000);
  std::vector<float> b(10000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] = static_cast<float>(i % 97) - 48;
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  for (std::uint64_t results = 30; results < 300; results += 60) {
    ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > results; }));
    rig.box.restart();
  }
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], 2 * (static_cast<float>(i % 97) - 48));
  EXPECT_EQ(a, b);
  EXPECT_EQ(rig[1].statistics().generations, 1U);
}

TEST(Epochs, IdleWorkerLearnsTheEpochByHeartbeat) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.box.restart();
  EXPECT_TRUE(rig.run_until(
      [&] { return rig[0].statistics().epochs == 2 && rig[1].statistics().epochs == 2; }, 3 * kSecond));
}

TEST(Epochs, WindowMayShrinkAndGrow) {
  JobShape shape;
  shape.largest_window = shape.window = shape.lookahead = 64;
  Rig rig(shape);
  std::vector<float> a(64 * 32 * 5, 1.5F);
  auto b = a;
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  std::uint64_t results = 50;
  for (const std::uint32_t window : {16U, 64U, 32U}) {
    ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > results; }));
    rig.box.shape.window = window;
    rig.box.restart();
    results += 70;
  }
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (const float y : a) ASSERT_EQ(y, 3.0F);
  EXPECT_EQ(rig[0].membership()->window, 32U);
}

TEST(Epochs, GrownWindowBeyondTheLookaheadWaitsForExponents) {
  JobShape shape;
  shape.largest_window = 64;
  shape.window = 64;
  shape.lookahead = 16;
  Rig rig(shape);
  std::uint64_t n = 0;
  rig.lose = [&](bool, std::uint16_t, const Header&) { return ++n % 5 == 0; };
  std::vector<float> a(32 * 200);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(1.0F, static_cast<int>(i / 32 % 100) - 60);
  auto b = a;
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(a[i], std::ldexp(1.0F, static_cast<int>(i / 32 % 100) - 59));
}

TEST(Generations, NewGenerationFailsWhatIsInFlight) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  auto a = ramp(4000, 0);
  auto b = ramp(4000, 1);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > 20; }));
  rig.box.restart(true);
  for (const auto& r : rig.finish(id)) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, ErrorCode::kAborted);
    EXPECT_THAT(r.error().what, HasSubstr("new generation"));
  }
  ASSERT_TRUE(rig.run_until_running());
  EXPECT_EQ(rig[0].statistics().generations, 2U);
  // Numbers start afresh and work goes on.
  auto c = ramp(100, 0);
  auto d = ramp(100, 0);
  const auto next = *rig[0].allreduce(std::span<std::int32_t>(c), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(d), rig.now);
  for (const auto& r : rig.finish(next)) ASSERT_TRUE(r);
  EXPECT_EQ(c[99], 198);
}

TEST(Generations, RejoinAfterAbortIsANewMembership) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  EXPECT_FALSE(rig[0].rejoin(rig.now)) << "only when closed";
  rig[0].abort("test", rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }));
  EXPECT_THAT(rig[1].why_closed().what, HasSubstr("rank 0: aborted here: test"));
  rig.box.restart(true);
  EXPECT_TRUE(rig[0].rejoin(rig.now));
  EXPECT_TRUE(rig[1].rejoin(rig.now));
  auto a = ramp(10, 1);
  auto b = ramp(10, 1);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  for (const auto& r : rig.finish(id)) EXPECT_TRUE(r);
  EXPECT_EQ(a[9], 20);
  EXPECT_EQ(rig.box.last_join[0].last, GenerationRecord{});
}

// Control never hears of the end and believes that its first JOINED was lost. Coming back in would mix what
// the program offered before with what it offers now.
TEST(Generations, RejoinNeverLeadsBackIntoTheGenerationGivenUp) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  bool deaf = true;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    return deaf && to_box && rank == 0 && h.type == PacketType::kAbort;
  };
  rig[0].abort("test", rig.now);
  ASSERT_FALSE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }, kSecond));
  deaf = false;
  ASSERT_TRUE(rig[0].rejoin(rig.now));
  ASSERT_TRUE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }));
  EXPECT_THAT(rig[1].why_closed().what, HasSubstr("rank 0: gave up its membership"));
  EXPECT_EQ(rig[0].state(), engine::EngineState::kJoining);
  EXPECT_FALSE(rig[0].membership());
  rig.box.restart(true);
  ASSERT_TRUE(rig[1].rejoin(rig.now));
  ASSERT_TRUE(rig.run_until_running());
}

}  // namespace
}  // namespace tally::testbed
