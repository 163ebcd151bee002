// Which frames meet which fault: the shares that were asked for, the same ones for the same seed, and no
// kind, stream or seed like another. Seeds are fixed, so nothing here can flicker.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "impair/faults.h"

namespace tally {
namespace {

constexpr int kMillion = 1'000'000;

using Ask = std::function<bool(impair::Faults&)>;

struct Kind {
  const char* name;
  std::uint32_t impair::ImpairOptions::*share;
  Ask ask;
};

const std::array<Kind, 4>& kinds() {
  static const std::array<Kind, 4> all{{
      {"loss", &impair::ImpairOptions::loss_ppm, [](impair::Faults& f) { return f.lost(); }},
      {"duplicate", &impair::ImpairOptions::duplicate_ppm, [](impair::Faults& f) { return f.duplicated(); }},
      {"corrupt", &impair::ImpairOptions::corrupt_ppm, [](impair::Faults& f) { return f.corrupted(); }},
      {"reorder", &impair::ImpairOptions::reorder_ppm, [](impair::Faults& f) { return f.held_back() != 0; }},
  }};
  return all;
}

std::vector<bool> drawn(const impair::ImpairOptions& options, std::uint64_t stream, const Ask& ask,
                        int frames) {
  impair::Faults faults({options, stream});
  std::vector<bool> out;
  for (int i = 0; i < frames; ++i) out.push_back(ask(faults));
  return out;
}

std::int64_t hits(const std::vector<bool>& v) { return std::ranges::count(v, true); }

TEST(Faults, ZeroPercentIsNever) {
  EXPECT_FALSE(impair::ImpairOptions{}.on());
  for (const Kind& kind : kinds()) EXPECT_EQ(hits(drawn({.seed = 5}, 3, kind.ask, 100'000)), 0) << kind.name;
  impair::Faults faults({{}, 3});
  EXPECT_EQ(faults.delay(), 0U);
}

TEST(Faults, AHundredPercentIsAlways) {
  for (const Kind& kind : kinds()) {
    impair::ImpairOptions options;
    options.*kind.share = kMillion;
    EXPECT_TRUE(options.on());
    EXPECT_EQ(hits(drawn(options, 0, kind.ask, 100'000)), 100'000) << kind.name;
  }
  EXPECT_EQ(hits(drawn({.loss_ppm = kMillion, .burst = 7}, 0, kinds()[0].ask, 100'000)), 100'000);
}

TEST(Faults, OnePartOfAMillionIsOn) {
  for (const Kind& kind : kinds()) {
    impair::ImpairOptions options;
    options.*kind.share = 1;
    EXPECT_TRUE(options.on()) << kind.name;
  }
  EXPECT_TRUE(impair::ImpairOptions{.delay = 1}.on());
  EXPECT_FALSE((impair::ImpairOptions{.burst = 9, .queue = 7, .seed = 3}.on()))
      << "what only qualifies is no fault";
}

// Of a million frames with probability p, the number hit has a standard deviation of 1000 sqrt(p (1 - p)).
TEST(Faults, TheShareThatWasAskedForIsHit) {
  for (const Kind& kind : kinds()) {
    for (const std::uint32_t ppm : {1'000U, 10'000U, 500'000U, 999'000U}) {
      impair::ImpairOptions options{.seed = 9};
      options.*kind.share = ppm;
      const double p = ppm / 1e6;
      const double deviation = 1000 * std::sqrt(p * (1 - p));
      EXPECT_NEAR(static_cast<double>(hits(drawn(options, 1, kind.ask, kMillion / 4))) * 4, ppm,
                  10 * deviation)
          << kind.name;
    }
  }
}

// With bursts of b frames on average and a share p, there are p n / b bursts in n frames, and each is
// followed by a frame that is not lost.
TEST(Faults, BurstsAreAsLongAsAskedForAndTheShareStays) {
  for (const std::uint32_t burst : {2U, 8U, 100U}) {
    for (const std::uint32_t ppm : {10'000U, 100'000U, 600'000U}) {
      const auto lost = drawn({.loss_ppm = ppm, .burst = burst, .seed = 4}, 2, kinds()[0].ask, kMillion / 2);
      const double frames = static_cast<double>(hits(lost));
      double bursts = lost[0] ? 1 : 0;
      for (std::size_t i = 1; i < lost.size(); ++i) bursts += lost[i] && !lost[i - 1] ? 1 : 0;
      // Lengths are geometric: their deviation is about their mean.
      EXPECT_NEAR(frames / bursts, burst, 5.0 * burst / std::sqrt(bursts)) << burst << " at " << ppm;
      EXPECT_NEAR(frames / (0.5 * kMillion), ppm / 1e6, ppm / 1e6 * 8 / std::sqrt(bursts)) << burst;
    }
  }
}

// Single losses in a row are as rare as chance has it: p of the lost frames follow another one.
TEST(Faults, WithoutBurstsEachFrameIsLostByItself) {
  const auto lost = drawn({.loss_ppm = 100'000, .burst = 1, .seed = 4}, 2, kinds()[0].ask, kMillion);
  int pairs = 0;
  for (std::size_t i = 1; i < lost.size(); ++i) pairs += lost[i] && lost[i - 1] ? 1 : 0;
  EXPECT_NEAR(pairs, 10'000, 500);
}

// Everything that a Faults can say of 1,000 frames.
std::vector<std::uint64_t> everything(const impair::ImpairStream& stream) {
  impair::Faults f(stream);
  std::vector<std::uint64_t> out;
  for (int i = 0; i < 1'000; ++i) {
    out.push_back(f.lost() ? 1 : 0);
    out.push_back(f.duplicated() ? 1 : 0);
    out.push_back(f.corrupted() ? f.bit(12'000) : 0);
    out.push_back(f.held_back());
    out.push_back(f.delay());
  }
  return out;
}

constexpr impair::ImpairOptions kAll{.loss_ppm = 500'000,
                                     .burst = 2,
                                     .duplicate_ppm = 500'000,
                                     .reorder_ppm = 500'000,
                                     .corrupt_ppm = 500'000,
                                     .delay = kMillisecond,
                                     .jitter = kMillisecond,
                                     .seed = 42};

TEST(Faults, TheSameSeedAndStreamGiveTheSameFaults) {
  EXPECT_EQ(everything({kAll, 7}), everything({kAll, 7}));
  EXPECT_NE(everything({kAll, 7}), everything({kAll, 8}));
  impair::ImpairOptions other = kAll;
  other.seed = 43;
  EXPECT_NE(everything({kAll, 7}), everything({other, 7}));
}

// Neither copies nor opposites of each other: they agree on half of the frames, +-6 deviations.
void expect_unrelated(const std::vector<bool>& a, const std::vector<bool>& b, const std::string& what) {
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  EXPECT_NEAR(equal, 5'000, 300) << what;
}

TEST(Faults, StreamsAndSeedsAndKindsAreUnrelated) {
  impair::ImpairOptions half = kAll;
  half.burst = 1;
  impair::ImpairOptions next = half;
  next.seed = half.seed + 1;
  const auto of = [](const impair::ImpairOptions& options, std::uint64_t stream, const Kind& kind) {
    return drawn(options, stream, kind.ask, 10'000);
  };
  for (const Kind& kind : kinds()) {
    const auto here = of(half, 0, kind);
    expect_unrelated(here, of(half, 1, kind), std::string(kind.name) + " of the other direction");
    expect_unrelated(here, of(half, 2, kind), std::string(kind.name) + " of the next port");
    expect_unrelated(here, of(half, std::uint64_t{1} << 48, kind), std::string(kind.name) + ", next core");
    expect_unrelated(here, of(next, 0, kind), std::string(kind.name) + " of the next seed");
    for (const Kind& other : kinds()) {
      if (&other != &kind) expect_unrelated(here, of(half, 0, other), std::string(kind.name) + other.name);
    }
  }
}

// The n-th answer for a kind is the same whatever is on, and asked, besides. Which frame asks for it is the
// caller's affair: WhatAKindHitsDoesNotDependOnTheKindsBehindIt.
TEST(Faults, OneKindDoesNotChangeAnother) {
  for (const Kind& kind : kinds()) {
    impair::ImpairOptions alone{.seed = kAll.seed};
    alone.*kind.share = kAll.*kind.share;
    if (kind.share == &impair::ImpairOptions::loss_ppm) alone.burst = kAll.burst;
    const auto expected = drawn(alone, 3, kind.ask, 10'000);
    EXPECT_GT(hits(expected), 0) << kind.name;
    for (const Kind& other : kinds()) {
      if (&other == &kind) continue;
      impair::Faults all({kAll, 3});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (other.ask(all)) static_cast<void>(all.bit(480));
        static_cast<void>(all.delay());
        ASSERT_EQ(kind.ask(all), expected[i]) << other.name << " changes " << kind.name << ' ' << i;
      }
    }
  }
}

TEST(Faults, EveryBitAndEveryDistanceIsAsLikelyAsTheOthers) {
  impair::Faults f({{.reorder_ppm = kMillion}, 1});
  constexpr std::uint64_t kBits = 24;
  std::array<int, kBits> bits{};
  std::array<int, impair::kFarthest + 1> distances{};
  for (int i = 0; i < 240'000; ++i) {
    const std::uint64_t bit = f.bit(kBits);
    ASSERT_LT(bit, kBits);
    ++bits[bit];
    const std::uint32_t distance = f.held_back();
    ASSERT_LE(distance, impair::kFarthest);
    ++distances[distance];
  }
  for (const int n : bits) EXPECT_NEAR(n, 10'000, 500);
  EXPECT_EQ(distances[0], 0);
  for (std::size_t i = 1; i < distances.size(); ++i) EXPECT_NEAR(distances[i], 15'000, 600);
  EXPECT_EQ(f.bit(1), 0U);
}

TEST(Faults, DelaysLieAroundTheDelayByTheJitter) {
  impair::Faults f({{.delay = 1'000, .jitter = 400}, 1});
  TimeNs least = kNever;
  TimeNs most = 0;
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const TimeNs d = f.delay();
    least = std::min(least, d);
    most = std::max(most, d);
    sum += static_cast<double>(d);
  }
  EXPECT_EQ(least, 600U);
  EXPECT_EQ(most, 1'400U);
  EXPECT_NEAR(sum / 100'000, 1'000, 5);
  impair::Faults still({{.delay = 1'000}, 1});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(still.delay(), 1'000U);
}

}  // namespace
}  // namespace tally
