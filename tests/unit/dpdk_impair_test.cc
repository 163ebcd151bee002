#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "impair.h"

namespace tally {
namespace {

std::vector<bool> losses(Impair impair, int frames) {
  std::vector<bool> lost;
  for (int i = 0; i < frames; ++i) lost.push_back(impair.lose());
  return lost;
}

TEST(Impair, OffIsOff) {
  Impair impair({.loss_ppm = 0, .seed = 5}, 3);
  EXPECT_FALSE(impair.on());
  EXPECT_EQ(std::ranges::count(losses(impair, 10000), true), 0);
}

TEST(Impair, AMillionOfAMillionIsEverything) {
  for (const std::uint32_t ppm : {1'000'000U, 2'000'000U}) {
    Impair impair({.loss_ppm = ppm}, 0);
    EXPECT_TRUE(impair.on());
    EXPECT_EQ(std::ranges::count(losses(impair, 100000), true), 100000);
  }
}

TEST(Impair, OnePartOfAMillionIsOn) { EXPECT_TRUE(Impair({.loss_ppm = 1}, 0).on()); }

// Of a million frames with probability p, the number lost has a standard deviation of 1000 sqrt(p (1 - p));
// the seeds are fixed, so the test cannot flicker.
TEST(Impair, LosesTheShareThatWasAskedFor) {
  for (const std::uint32_t ppm : {1'000U, 10'000U, 500'000U, 999'000U}) {
    const auto lost = std::ranges::count(losses(Impair({.loss_ppm = ppm, .seed = 9}, 1), 1'000'000), true);
    EXPECT_NEAR(static_cast<double>(lost), ppm, 2500) << ppm;
  }
}

TEST(Impair, TheSameSeedLosesTheSameFrames) {
  const ImpairOptions options{.loss_ppm = 100'000, .seed = 42};
  EXPECT_EQ(losses(Impair(options, 7), 1000), losses(Impair(options, 7), 1000));
}

TEST(Impair, SeedsAndStreamsDiffer) {
  const ImpairOptions options{.loss_ppm = 500'000, .seed = 42};
  const auto here = losses(Impair(options, 0), 1000);
  EXPECT_NE(here, losses(Impair(options, 1), 1000));
  EXPECT_NE(here, losses(Impair({.loss_ppm = 500'000, .seed = 43}, 0), 1000));
  // Neighbouring streams agree on about half of the frames: neither copies nor opposites of each other.
  const auto there = losses(Impair(options, 1), 1000);
  int equal = 0;
  for (std::size_t i = 0; i < here.size(); ++i) equal += here[i] == there[i] ? 1 : 0;
  EXPECT_NEAR(equal, 500, 80);
}

}  // namespace
}  // namespace tally
