// How many REJECTs a source gets, and what its neighbours in the table cost it.
#include "pipeline/reject_limiter.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally {
namespace {

jobs::Binding worker(std::uint32_t number) {
  jobs::Binding source;
  source.address = mapped({10, 0, 0, 1});
  source.udp_port = static_cast<std::uint16_t>(number);
  source.port = PortIndex{static_cast<std::uint16_t>(number >> 16)};
  return source;
}

// `count` workers whose buckets are in one set of the table.
std::vector<jobs::Binding> neighbours(std::size_t count) {
  std::vector<jobs::Binding> found{worker(0)};
  for (std::uint32_t i = 1; found.size() < count; ++i)
    if (pipeline::RejectLimiter::set_of(worker(i)) == pipeline::RejectLimiter::set_of(found.front()))
      found.push_back(worker(i));
  return found;
}

std::uint32_t allowed(pipeline::RejectLimiter& limiter, const jobs::Binding& source, TimeNs now,
                      std::uint32_t tries) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < tries; ++i) count += limiter.allow(source, now) ? 1 : 0;
  return count;
}

TEST(RejectLimiter, TenPerSecondAndSource) {
  pipeline::RejectLimiter limiter;
  EXPECT_EQ(allowed(limiter, worker(7), 0, 100), pipeline::RejectLimiter::kPerSecond);
  EXPECT_EQ(allowed(limiter, worker(7), kSecond - 1, 100), 0U);
  EXPECT_EQ(allowed(limiter, worker(7), kSecond, 100), pipeline::RejectLimiter::kPerSecond);
}

// Two ranks that wait for a third ask about every chunk in flight, again and again, in step: with one bucket
// for both, the one that asks second would never hear whom it waits for.
TEST(RejectLimiter, SourceThatAsksWithoutEndLeavesItsNeighboursTheirTokens) {
  pipeline::RejectLimiter limiter;
  const std::vector<jobs::Binding> sources = neighbours(pipeline::RejectLimiter::kWays);
  for (TimeNs now = 0; now < 10 * kSecond; now += kSecond / 2)
    for (const jobs::Binding& source : sources)
      EXPECT_EQ(allowed(limiter, source, now, 16),
                now % kSecond == 0 ? pipeline::RejectLimiter::kPerSecond : 0U);
}

// A port's share of the table is its own: who has one port silences nobody at another.
TEST(RejectLimiter, SourcesOfOnePortTakeNothingFromOtherPorts) {
  pipeline::RejectLimiter limiter;
  for (std::uint32_t i = 0; i < 1 << 16; ++i) (void)limiter.allow(worker(i), kSecond);
  for (std::uint32_t port = 1; port < pipeline::RejectLimiter::kPorts; ++port)
    EXPECT_TRUE(limiter.allow(worker(port << 16), kSecond)) << port;
}

// Addresses cost an attacker nothing, so the table does not make room for them within the second.
TEST(RejectLimiter, SourcesWithoutABucketGetOneWhenTheSecondOfAnotherIsOver) {
  pipeline::RejectLimiter limiter;
  const std::vector<jobs::Binding> sources = neighbours(pipeline::RejectLimiter::kWays + 1);
  for (std::size_t i = 0; i < pipeline::RejectLimiter::kWays; ++i)
    EXPECT_TRUE(limiter.allow(sources[i], kSecond));
  EXPECT_FALSE(limiter.allow(sources.back(), 2 * kSecond - 1));
  EXPECT_TRUE(limiter.allow(sources.back(), 2 * kSecond));
  EXPECT_EQ(allowed(limiter, sources.front(), 2 * kSecond, 100), pipeline::RejectLimiter::kPerSecond);
}

}  // namespace
}  // namespace tally
