// Members that are late, and clients that all stand still, for 0.8 to 100 s: a corrected client, and the one
// that is published with all its mistakes, against the product's pipeline, with a switch of the original's
// rules beside it.

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <tuple>

#include "client_rack.h"
#include "original_switch.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "pipeline_switch.h"

namespace tally::stock {
namespace {

constexpr std::uint16_t kLateWindow = 8;
constexpr std::uint16_t kLatePayload = 128;
constexpr std::uint64_t kPacket = kLatePayload / 4;
constexpr TimeNs kMostLate = 100 * kSecond;

enum class Kind : std::uint8_t { kCorrected, kPublished };

// Whole windows and odd rests; without only_long also operations smaller than a window, which leave timers of
// the published client behind.
SessionOptions session_of(Kind kind, jobs::TsiRule tsi, std::uint16_t threads, bool only_long) {
  const std::uint64_t many = (5 * kLateWindow + 3) * kPacket * threads;
  SessionOptions options{.members = rack_members(3),
                         .payload = kLatePayload,
                         .threads = threads,
                         .window = kLateWindow,
                         .timeout = 10 * kMillisecond,
                         .operations = {{false, many}, {true, many + 1}, {false, many + 7}, {true, many}},
                         .opaque_tsi = tsi == jobs::TsiRule::kOpaque && kind == Kind::kCorrected};
  if (!only_long) {
    options.operations.insert(options.operations.begin() + 1,
                              {{false, 1}, {true, kPacket + 1}, {false, 5 * kPacket * threads}});
  }
  if (kind == Kind::kCorrected) {
    options.timers = TimerHabit::kOwn;
  } else {
    options.guard = DuplicateGuard::kObserved;
    options.timers = TimerHabit::kObserved;
    options.judged = false;  // what its timers send is no request that a judge could know
  }
  return options;
}

struct Played {
  std::string wrong;  // empty: every sum of every rank is right
  SessionFigures figures;
};

Played run(const SessionOptions& options, ClientSwitch& box, RackOptions rack = {}) {
  rack.patience = 2 * kMostLate;
  StockSession session(options);
  std::string wrong = ClientRack(session, box, rack).run();
  double error = 0;
  if (wrong.empty()) wrong = session.check(error);
  return {wrong, session.figures()};
}

std::uint16_t slots_of(const SessionOptions& options) {
  return static_cast<std::uint16_t>(2 * options.window * options.threads);
}
Played run_original(const SessionOptions& options, const RackOptions& rack = {}) {
  OriginalSwitch box(options.members, options.payload, slots_of(options));
  return run(options, box, rack);
}
template <class Execution>
Played run_pipeline(const SessionOptions& options, jobs::TsiRule tsi, const RackOptions& rack = {}) {
  PipelineSwitch<Execution> box(options.members, options.payload, slots_of(options), tsi);
  return run(options, box, rack);
}

using LateShape = std::tuple<jobs::TsiRule, std::uint16_t>;

class StockLate : public testing::TestWithParam<LateShape> {
 protected:
  [[nodiscard]] static jobs::TsiRule tsi() { return std::get<0>(GetParam()); }
  [[nodiscard]] static SessionOptions session(Kind kind, bool only_long = false) {
    SessionOptions options = session_of(kind, tsi(), std::get<1>(GetParam()), only_long);
    for (StockAddresses& member : options.members) {
      member.switch_mac = test_box().mac;
      member.switch_ipv4 = test_box().ipv4;
    }
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, StockLate,
                         testing::Combine(testing::Values(jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque),
                                          testing::Values(1, 2)),
                         [](const auto& shape) {
                           return std::string(std::get<0>(shape.param) == jobs::TsiRule::kPacket ? "Packet"
                                                                                                 : "Opaque") +
                                  std::to_string(std::get<1>(shape.param)) + "Threads";
                         });

constexpr std::uint64_t kShare = TALLY_SEED_SHARE;  // 1 of so many seeds, or shifts
constexpr TimeNs kLate[] = {800 * kMillisecond, 1500 * kMillisecond, 3 * kSecond, kMostLate};

TEST_P(StockLate, ACorrectedClientIsExact) {
  for (const TimeNs by : kLate) {
    for (const std::size_t operation : {0U, 1U, 4U}) {
      SessionOptions options = session(Kind::kCorrected);
      options.late = {{1, operation, by}, {2, operation + 1, by / 2}};
      EXPECT_EQ(run_pipeline<pipeline::Fused>(options, tsi()).wrong, "") << by << " ns, " << operation;
    }
  }
}

TEST_P(StockLate, ACorrectedClientWithoutTimersIsExact) {
  SessionOptions options = session(Kind::kCorrected);
  options.timeout = 10 * kMostLate;
  options.late = {{1, 0, 3 * kSecond}, {2, 2, kMostLate}, {0, 5, 1500 * kMillisecond}};
  const Played without = run_pipeline<pipeline::Staged>(options, tsi());
  EXPECT_EQ(without.wrong, "");
  EXPECT_EQ(without.figures.counters.resent, 0U);
}

// The hang that was found with real clients: one lost result, and nobody sends for longer than a second.
TEST_P(StockLate, ACorrectedClientIsExactWithLossWhenAllStandStillAgainAndAgain) {
  for (std::uint64_t seed = 1; seed <= 8 / kShare; ++seed) {
    SessionOptions options = session(Kind::kCorrected, tsi() == jobs::TsiRule::kOpaque);
    options.loss = 0.01;
    options.seed = seed;
    options.timeout = 2 * kMillisecond;
    options.late = {{static_cast<std::uint32_t>(seed % 3), 1 + seed % 3, 3 * kSecond}};
    const RackOptions rack{.pause = seed % 2 == 0 ? kMostLate : 1300 * kMillisecond};
    const Played lossy = run_pipeline<pipeline::Fused>(options, tsi(), rack);
    EXPECT_EQ(lossy.wrong, "") << "seed " << seed;
    EXPECT_GT(lossy.figures.lost_replies, 0U);
    EXPECT_EQ(run_pipeline<pipeline::Staged>(options, tsi(), rack).wrong, "") << "seed " << seed;
  }
}

// Its timers fire all the time, sometimes just when the late member comes: then the original gives it the sum
// of another packet. tsi: packet does not, nor does it add what old timers send in later operations.
TEST_P(StockLate, ThePublishedClientIsExactWithoutLossWhereverTheOriginalIs) {
  const bool packet = tsi() == jobs::TsiRule::kPacket;
  std::size_t exact = 0;
  for (const TimeNs by : kLate) {
    for (TimeNs shift = 0; shift < 30 / kShare; ++shift) {
      SessionOptions options = session(Kind::kPublished, !packet || shift % 2 == 0);
      options.late = {{1, 0, by}, {2, 2, by + shift * kMicrosecond}};
      const std::string original = run_original(options).wrong;
      const Played ours = run_pipeline<pipeline::Fused>(options, tsi());
      EXPECT_GT(ours.figures.counters.resent, 0U);
      if (original.empty() || packet) {
        EXPECT_EQ(ours.wrong, "") << by + shift * kMicrosecond << " ns";
      }
      exact += original.empty() ? 1 : 0;
    }
  }
  EXPECT_GT(exact, 0U);
  if (packet) {
    EXPECT_LT(exact, std::size(kLate) * (30 / kShare));
  }
}

TEST_P(StockLate, ThePublishedClientWithLossIsExactWhereverTheOriginalIs) {
  std::size_t exact = 0;
  for (std::uint64_t seed = 1; seed <= 200 / kShare; ++seed) {
    SessionOptions options = session(Kind::kPublished, true);
    options.loss = 0.001;
    options.seed = seed;
    options.late = {{static_cast<std::uint32_t>(seed % 3), seed % 3, 3 * kSecond}};
    const std::string original = run_original(options).wrong;
    if (!original.empty()) continue;
    ++exact;
    EXPECT_EQ(run_pipeline<pipeline::Fused>(options, tsi()).wrong, "") << "seed " << seed;
  }
  EXPECT_GT(exact, 10U / kShare);
}

}  // namespace
}  // namespace tally::stock
