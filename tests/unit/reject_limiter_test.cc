// How many REJECTs a source gets, and what its neighbours in the table cost it.
#include "reject_limiter.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally {
namespace {

Binding worker(std::uint32_t number) {
  Binding source;
  source.address = mapped({10, 0, 0, 1});
  source.udp_port = static_cast<std::uint16_t>(number);
  source.port = PortIndex{static_cast<std::uint16_t>(number >> 16)};
  return source;
}

// `count` workers whose buckets are in one set of the table.
std::vector<Binding> neighbours(std::size_t count) {
  std::vector<Binding> found{worker(0)};
  for (std::uint32_t i = 1; found.size() < count; ++i)
    if (RejectLimiter::set_of(worker(i)) == RejectLimiter::set_of(found.front())) found.push_back(worker(i));
  return found;
}

std::uint32_t allowed(RejectLimiter& limiter, const Binding& source, TimeNs now, std::uint32_t tries) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < tries; ++i) count += limiter.allow(source, now) ? 1 : 0;
  return count;
}

TEST(RejectLimiter, TenPerSecondAndSource) {
  RejectLimiter limiter;
  EXPECT_EQ(allowed(limiter, worker(7), 0, 100), RejectLimiter::kPerSecond);
  EXPECT_EQ(allowed(limiter, worker(7), kSecond - 1, 100), 0U);
  EXPECT_EQ(allowed(limiter, worker(7), kSecond, 100), RejectLimiter::kPerSecond);
}

// Two ranks that wait for a third ask about every chunk in flight, again and again, in step: with one bucket
// for both, the one that asks second would never hear whom it waits for.
TEST(RejectLimiter, SourceThatAsksWithoutEndLeavesItsNeighboursTheirTokens) {
  RejectLimiter limiter;
  const std::vector<Binding> sources = neighbours(RejectLimiter::kWays);
  for (TimeNs now = 0; now < 10 * kSecond; now += kSecond / 2)
    for (const Binding& source : sources)
      EXPECT_EQ(allowed(limiter, source, now, 16), now % kSecond == 0 ? RejectLimiter::kPerSecond : 0U);
}

// Addresses cost an attacker nothing, so the table does not make room for them within the second.
TEST(RejectLimiter, SourcesWithoutABucketGetOneWhenTheSecondOfAnotherIsOver) {
  RejectLimiter limiter;
  const std::vector<Binding> sources = neighbours(RejectLimiter::kWays + 1);
  for (std::size_t i = 0; i < RejectLimiter::kWays; ++i) EXPECT_TRUE(limiter.allow(sources[i], kSecond));
  EXPECT_FALSE(limiter.allow(sources.back(), 2 * kSecond - 1));
  EXPECT_TRUE(limiter.allow(sources.back(), 2 * kSecond));
  EXPECT_EQ(allowed(limiter, sources.front(), 2 * kSecond, 100), RejectLimiter::kPerSecond);
}

}  // namespace
}  // namespace tally
