// When frames that are delayed or held back leave, in which order, and what the bound of the queue does.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "impair/delay_line.h"

namespace tally {
namespace {

// A line of numbered frames.
class Line {
 public:
  explicit Line(const impair::ImpairOptions& options) : faults_({options, 1}), line_(options, counters) {}

  void enter(int frame, TimeNs now) {
    line_.enter(frame, now, faults_, [this](int f) { refused.push_back(f); });
  }
  std::vector<int> leave(TimeNs now) {
    std::vector<int> out;
    while (const auto f = line_.leave(now, faults_, [this](int r) { refused.push_back(r); }))
      out.push_back(*f);
    return out;
  }
  impair::DelayLine<int>& operator*() { return line_; }

  std::vector<int> refused;
  impair::ImpairCounters counters;

 private:
  impair::Faults faults_;
  impair::DelayLine<int> line_;
};

std::vector<int> up_to(int n, int from = 0) {
  std::vector<int> out;
  for (int i = from; i < n; ++i) out.push_back(i);
  return out;
}

TEST(DelayLine, AFrameLeavesAfterItsDelayAndNotBefore) {
  Line line({.delay = 100});
  line.enter(1, 1'000);
  line.enter(2, 1'050);
  EXPECT_EQ((*line).next_due(), 1'100U);
  EXPECT_EQ(line.leave(1'099), std::vector<int>{});
  EXPECT_EQ(line.leave(1'100), std::vector<int>{1});
  EXPECT_EQ((*line).next_due(), 1'150U);
  EXPECT_EQ((*line).size(), 1U);
  EXPECT_EQ(line.leave(9'999), std::vector<int>{2});
  EXPECT_EQ((*line).next_due(), kNever);
  EXPECT_EQ(line.counters.delayed, 2U);
  EXPECT_EQ(line.counters.reordered, 0U);
}

TEST(DelayLine, AnEvenDelayKeepsTheOrder) {
  Line line({.delay = 100, .queue = 2'000});
  for (int i = 0; i < 1'000; ++i) line.enter(i, static_cast<TimeNs>(i / 10));
  EXPECT_EQ(line.leave(1'000), up_to(1'000));
}

TEST(DelayLine, JitterLetsFramesOvertakeButLosesNone) {
  Line line({.delay = 100, .jitter = 100, .queue = 2'000});
  for (int i = 0; i < 1'000; ++i) line.enter(i, 0);
  std::vector<int> all;
  for (TimeNs now = 0; now <= 200; now += 20) {
    const auto some = line.leave(now);
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  EXPECT_EQ(all, up_to(1'000));
}

TEST(DelayLine, WhatFindsTheQueueFullIsCountedAndGivenBack) {
  Line line({.delay = 100, .queue = 3});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((*line).has_room(), i < 3);
    line.enter(i, 0);
  }
  EXPECT_EQ(line.refused, (std::vector<int>{3, 4}));
  EXPECT_EQ(line.counters.overflow, 2U);
  EXPECT_EQ(line.counters.delayed, 3U);
  EXPECT_EQ(line.leave(100), up_to(3));
  line.enter(5, 100);
  EXPECT_EQ(line.leave(200), std::vector<int>{5});
}

// Each of those held back leaves right after one of the next 16 came, and at once after it.
TEST(DelayLine, WhatIsHeldBackLeavesAfterOneToSixteenLaterFrames) {
  Line line({.reorder_ppm = 100'000, .seed = 3});
  std::vector<int> all;
  for (int i = 0; i < 10'000; ++i) {
    line.enter(i, 0);
    const auto some = line.leave(0);
    for (const int f : some) {
      EXPECT_GE(f, i - static_cast<int>(impair::kFarthest));
      EXPECT_LE(f, i);
    }
    all.insert(all.end(), some.begin(), some.end());
    EXPECT_LE((*line).size(), impair::kFarthest);
  }
  const auto rest = line.leave(impair::kLongestHold);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_NEAR(static_cast<double>(line.counters.reordered), 1'000, 150);
  EXPECT_EQ(line.counters.delayed, 0U);
  // Those that were overtaken are those that were held back.
  std::uint64_t overtaken = 0;
  int latest = -1;
  for (const int f : all) {
    if (f < latest) ++overtaken;
    latest = std::max(latest, f);
  }
  EXPECT_GT(overtaken, line.counters.reordered * 8 / 10)
      << "one held back behind a held back one overtook none";
  EXPECT_LE(overtaken, line.counters.reordered);
  std::ranges::sort(all);
  EXPECT_EQ(all, up_to(10'000));
  EXPECT_TRUE(line.refused.empty());
}

TEST(DelayLine, EveryFrameHeldBackIsAShuffleThatLosesNone) {
  Line line({.reorder_ppm = 1'000'000});
  std::vector<int> all;
  for (int i = 0; i < 1'000; ++i) {
    line.enter(i, 0);
    EXPECT_LE((*line).size(), 2 * impair::kFarthest);
    const auto some = line.leave(0);
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_GE(all.size(), 1'000 - impair::kFarthest);
  const auto rest = line.leave(impair::kLongestHold);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  EXPECT_EQ(all, up_to(1'000));
}

TEST(DelayLine, TheLastFrameOfAllIsHeldBackForAMillisecondOnly) {
  Line line({.reorder_ppm = 1'000'000});
  line.enter(7, 500);
  EXPECT_EQ((*line).next_due(), 500 + impair::kLongestHold);
  EXPECT_EQ(line.leave(499 + impair::kLongestHold), std::vector<int>{});
  EXPECT_EQ(line.leave(500 + impair::kLongestHold), std::vector<int>{7});
}

TEST(DelayLine, WhatIsHeldBackHasItsDelayAfterwards) {
  Line line({.reorder_ppm = 1'000'000, .delay = 100});
  line.enter(7, 0);
  EXPECT_EQ(line.leave(impair::kLongestHold), std::vector<int>{});
  EXPECT_EQ((*line).next_due(), impair::kLongestHold + 100);
  EXPECT_EQ(line.leave(impair::kLongestHold + 100), std::vector<int>{7});
}

TEST(DelayLine, WhatWaitsCanBeTakenAway) {
  Line line({.reorder_ppm = 300'000, .delay = 100});
  for (int i = 0; i < 50; ++i) line.enter(i, 0);
  std::vector<int> all;
  while (const auto f = (*line).remove()) all.push_back(*f);
  std::ranges::sort(all);
  EXPECT_EQ(all, up_to(50));
  EXPECT_EQ((*line).size(), 0U);
}

TEST(DelayLine, MempoolsAreToldWhatItMayKeep) {
  EXPECT_EQ(impair::most_kept({}), 0U);
  EXPECT_EQ(impair::most_kept({.loss_ppm = 5, .corrupt_ppm = 5}), 0U);
  EXPECT_EQ(impair::most_kept({.delay = 5, .queue = 77}), 77U);
  EXPECT_EQ(impair::most_kept({.reorder_ppm = 5, .delay = 5, .queue = 77}), 77U + impair::kFarthest);
  EXPECT_EQ(impair::most_kept({.duplicate_ppm = 5, .queue = 77}), impair::kPassing);
}

}  // namespace
}  // namespace tally
