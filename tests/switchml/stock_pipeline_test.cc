// The clients and the product's pipeline, both executions: every sum of every rank and every byte of every
// reply.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "client_rack.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "pipeline_switch.h"

namespace tally::stock {
namespace {

constexpr std::uint16_t kWindow = 8;
constexpr double kLoss = 0.02;  // so that the smallest sessions lose something, too

std::vector<StockAddresses> members_of(std::size_t count) {
  std::vector<StockAddresses> members = rack_members(count);
  for (StockAddresses& member : members) {
    member.switch_mac = test_box().mac;
    member.switch_ipv4 = test_box().ipv4;
  }
  return members;
}

SessionOptions session_of(std::size_t members, std::uint16_t threads, std::uint16_t payload) {
  const std::uint64_t packet = payload / 4, many = (3 * kWindow + 2) * packet * threads;
  return {.members = members_of(members),
          .payload = payload,
          .threads = threads,
          .window = kWindow,
          .operations = {{false, many}, {true, many + 1}, {false, 1}, {true, packet + 1}, {false, many + 3}},
          .seed = members * 1000 + threads * 100 + payload};
}

template <class Execution>
PipelineSwitch<Execution> box_for(const SessionOptions& options,
                                  jobs::TsiRule rule = jobs::TsiRule::kPacket) {
  return {options.members, options.payload, 2U * options.window * options.threads, rule};
}

// Runs it and checks all; what the clients did.
template <class Execution>
SessionFigures run(const SessionOptions& options, PipelineSwitch<Execution>& box, TimeNs jitter = 0,
                   TimeNs begin = kSecond) {
  StockSession session(options);
  ClientRack rack(session, box, {.jitter = jitter, .begin = begin});
  EXPECT_EQ(rack.run(), "");
  EXPECT_LT(rack.now() - begin, kSecond) << "a stale packet held up an entry";
  double error = 0;
  EXPECT_EQ(session.done() ? session.check(error) : "not done", "");
  return session.figures();
}

using Shape = std::tuple<std::size_t, std::uint16_t, std::uint16_t>;

class StockPipeline : public testing::TestWithParam<Shape> {
 protected:
  [[nodiscard]] SessionOptions options() const {
    return session_of(std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam()));
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, StockPipeline,
                         testing::Combine(testing::Values(2, 3, 8, 16), testing::Values(1, 4),
                                          testing::Values(256, 1024)),
                         [](const auto& shape) {
                           return std::to_string(std::get<0>(shape.param)) + "Workers" +
                                  std::to_string(std::get<1>(shape.param)) + "Threads" +
                                  std::to_string(std::get<2>(shape.param)) + "Bytes";
                         });

TEST_P(StockPipeline, EverySumIsRight) {
  auto fused = box_for<pipeline::Fused>(options());
  SessionOptions believing = options();
  believing.guard = DuplicateGuard::kObserved;
  const SessionFigures figures = run(believing, fused);
  EXPECT_EQ(figures.counters.duplicates, 0U);
  auto staged = box_for<pipeline::Staged>(options());
  run(options(), staged);
}

TEST_P(StockPipeline, EverySumIsRightWithLoss) {
  SessionOptions lossy = options();
  lossy.loss = kLoss;
  auto fused = box_for<pipeline::Fused>(lossy);
  const SessionFigures figures = run(lossy, fused);
  EXPECT_GT(figures.lost_requests + figures.lost_replies, 0U);
  EXPECT_GT(figures.counters.resent, 0U);
  auto staged = box_for<pipeline::Staged>(lossy);
  run(lossy, staged);
}

// Which the original's rules do not promise.
TEST_P(StockPipeline, EverySumIsRightWhereFramesOvertakeEachOther) {
  SessionOptions lossy = options();
  lossy.loss = kLoss;
  lossy.timeout = 100 * kMicrosecond;  // many are sent again while their replies are on the way
  auto fused = box_for<pipeline::Fused>(lossy);
  const SessionFigures figures = run(lossy, fused, 100 * kMicrosecond);
  EXPECT_GT(figures.counters.duplicates, 0U);
}

TEST_P(StockPipeline, TheOriginalsRuleIsExactWhereTheOrderStays) {
  SessionOptions lossy = options();
  lossy.loss = kLoss;
  lossy.operations.erase(lossy.operations.begin() + 2,
                         lossy.operations.begin() + 4);  // small ones leave timers behind
  lossy.opaque_tsi = true;
  auto fused = box_for<pipeline::Fused>(lossy, jobs::TsiRule::kOpaque);
  const SessionFigures figures = run(lossy, fused);
  EXPECT_GT(figures.lost_requests + figures.lost_replies, 0U);
  EXPECT_GT(figures.counters.resent, 0U);
  auto staged = box_for<pipeline::Staged>(lossy, jobs::TsiRule::kOpaque);
  run(lossy, staged);
}

// So what is right above does not look at them: here a lower number waits for ever.
TEST(StockPipelineHabits, NumbersThatMeanNothingStandStillWhereTheyAreLookedAt) {
  SessionOptions options = session_of(2, 1, 256);
  options.opaque_tsi = true;
  auto box = box_for<pipeline::Fused>(options, jobs::TsiRule::kPacket);
  StockSession session(options);
  ClientRack rack(session, box);
  EXPECT_THAT(rack.run(), testing::StartsWith("nothing moves: "));
}

// Timers of an operation that is not quite a window go on through many smaller ones, long after their slots
// were used again.
TEST(StockPipelineHabits, StalePacketsAreNeverAdded) {
  SessionOptions options = session_of(3, 2, 128);
  options.timeout = 2 * kMicrosecond;
  options.operations.clear();
  for (std::uint64_t packets = 1; packets < 400; ++packets)
    options.operations.push_back({packets % 3 == 0, 2 * 32 * (packets % 40 == 0 ? 7 : packets % 2 + 1)});
  auto box = box_for<pipeline::Fused>(options);
  const SessionFigures figures = run(options, box);
  EXPECT_GT(figures.counters.stale, 100U);
}

// Numbers from 0 again, other values, the same slots.
TEST(StockPipelineHabits, ClientsThatAreStartedAgainAfterAResetGetTheirOwnSums) {
  SessionOptions options = session_of(3, 2, 256);
  auto box = box_for<pipeline::Fused>(options);
  for (const std::uint64_t life : {1U, 2U, 3U}) {
    options.seed = life;
    run(options, box, 0, life * kSecond);
    box.reset();
  }
}

}  // namespace
}  // namespace tally::stock
