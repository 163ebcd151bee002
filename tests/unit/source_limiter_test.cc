// How much a source gets, what its neighbours in the table cost it, and which control packets a data core
// lets by.
#include "jobs/source_limiter.h"

#include <gtest/gtest.h>

#include <vector>

#include "pipeline/punt_gate.h"

namespace tally {
namespace {

using jobs::SourceLimiter;
constexpr jobs::Budget kTen{.per_second = 10, .burst = 10};

jobs::Binding worker(std::uint32_t number) {
  jobs::Binding source;
  source.address = mapped({10, 0, 0, 1});
  source.udp_port = static_cast<std::uint16_t>(number);
  source.port = PortIndex{static_cast<std::uint16_t>(number >> 16)};
  return source;
}

jobs::Binding made_up(std::uint32_t i, std::uint16_t port) {
  return {.address = mapped({1, static_cast<std::uint8_t>(i >> 16), static_cast<std::uint8_t>(i >> 8),
                             static_cast<std::uint8_t>(i)}),
          .port = PortIndex{port}};
}

// `count` workers whose buckets are in one set of the table.
std::vector<jobs::Binding> neighbours(const SourceLimiter& limiter, std::size_t count) {
  std::vector<jobs::Binding> found{worker(0)};
  for (std::uint32_t i = 1; found.size() < count; ++i)
    if (limiter.set_of(worker(i)) == limiter.set_of(found.front())) found.push_back(worker(i));
  return found;
}

std::uint32_t taken(SourceLimiter& limiter, const jobs::Binding& source, TimeNs now, std::uint32_t tries) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < tries; ++i) count += limiter.take(source, now) ? 1 : 0;
  return count;
}

TEST(SourceLimiter, GivesABurstThenTheRate) {
  SourceLimiter limiter(kTen, 1);
  EXPECT_EQ(taken(limiter, worker(7), kSecond, 100), 10U);
  EXPECT_EQ(taken(limiter, worker(7), kSecond + 99 * kMillisecond, 100), 0U);
  EXPECT_EQ(taken(limiter, worker(7), 3 * kSecond, 100), 10U);
  std::uint32_t all = 0;
  for (TimeNs t = 10 * kSecond; t < 20 * kSecond; t += kMillisecond)
    all += limiter.take(worker(8), t) ? 1 : 0;
  EXPECT_EQ(all, 10U + 99U);  // the burst, then one per 100 ms
}

// Two ranks that wait for a third ask about every chunk in flight, again and again, in step: with one bucket
// for both, the one that asks second would never hear whom it waits for.
TEST(SourceLimiter, SourceThatAsksWithoutEndLeavesItsNeighboursTheirTokens) {
  SourceLimiter limiter(kTen, 1);
  const std::vector<jobs::Binding> sources = neighbours(limiter, SourceLimiter::kWays);
  for (TimeNs now = kSecond; now < 10 * kSecond; now += kSecond)
    for (const jobs::Binding& source : sources) EXPECT_EQ(taken(limiter, source, now, 16), 10U);
}

// A port's share of the table is its own: who has one port silences nobody at another.
TEST(SourceLimiter, SourcesOfOnePortTakeNothingFromOtherPorts) {
  SourceLimiter limiter(kTen, 1);
  for (std::uint32_t i = 0; i < 100'000; ++i) (void)limiter.take(made_up(i, 0), kSecond);
  for (std::uint16_t port = 1; port < SourceLimiter::kPorts; ++port)
    EXPECT_EQ(taken(limiter, made_up(port, port), kSecond, 100), 10U) << port;
}

// Addresses cost an attacker nothing, so the table does not make room for them while buckets are in use: all
// of a port together get what 64 sources may have.
TEST(SourceLimiter, MadeUpSourcesOfAPortTogetherAreBounded) {
  SourceLimiter limiter(kTen, 1);
  std::uint32_t all = 0;
  for (std::uint32_t i = 0; i < 1'000'000; ++i)
    all += limiter.take(made_up(i, 0), kSecond + i * kMicrosecond) ? 1 : 0;
  EXPECT_LE(all, 640U);
  EXPECT_GE(all, 500U);
}

TEST(SourceLimiter, SourcesWithoutABucketGetOneWhenThatOfAnotherIsFullAgain) {
  SourceLimiter limiter(kTen, 1);
  const std::vector<jobs::Binding> sources = neighbours(limiter, SourceLimiter::kWays + 1);
  for (std::size_t i = 0; i < SourceLimiter::kWays; ++i)
    EXPECT_EQ(taken(limiter, sources[i], kSecond, 9), 9U);
  EXPECT_FALSE(limiter.take(sources.back(), kSecond + 899 * kMillisecond));
  EXPECT_TRUE(limiter.take(sources.back(), kSecond + 900 * kMillisecond));
}

struct PuntGate : ::testing::Test {
  // How many of the packets at this moment pass; the others are dropped for `why`.
  std::uint32_t passed(const jobs::NativeJob* of, const jobs::Binding& source, std::uint32_t packets,
                       Drop why, TimeNs now = kSecond) {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < packets; ++i) {
      const auto no = gate.refuse(of, source, now);
      EXPECT_EQ(no.value_or(why), why);
      n += no ? 0 : 1;
    }
    return n;
  }

  PuntGate() {
    job.id = JobId{3};
    job.world = 2;
    other.id = JobId{4};
  }
  pipeline::PuntGate gate{1};
  jobs::NativeJob job, other;
};

TEST_F(PuntGate, AnAddressHasABudgetWhateverItsUdpPorts) {
  constexpr auto kBurst = pipeline::PuntGate::kOfHost.burst;
  EXPECT_EQ(passed(nullptr, worker(1), kBurst, Drop::kSourceBudget), kBurst);
  EXPECT_EQ(passed(nullptr, worker(2), 100, Drop::kSourceBudget), 0U);
  EXPECT_EQ(passed(nullptr, made_up(1, 0), 1, Drop::kSourceBudget), 1U) << "its neighbour has its own";
}

TEST_F(PuntGate, MadeUpAddressesCostTheirPortAloneAndNoMember) {
  for (std::uint32_t i = 0; i < 100'000; ++i) (void)gate.refuse(nullptr, made_up(i, 0), kSecond);
  EXPECT_EQ(passed(&job, made_up(1, 0), 10, Drop::kMemberBudget), 10U) << "a member behind the same port";
  for (std::uint16_t port = 1; port < SourceLimiter::kPorts; ++port)
    EXPECT_EQ(passed(nullptr, made_up(7, port), 10, Drop::kSourceBudget), 10U)
        << "a stranger's JOINs, " << port;
}

TEST_F(PuntGate, AllStrangersOfAPortHaveABudget) {
  std::uint32_t n = 0;
  std::uint32_t over = 0;
  for (std::uint32_t i = 0; i < 2'000'000; ++i) {
    const auto no = gate.refuse(nullptr, made_up(i % 50, 0), kSecond + i * kMicrosecond);
    n += no ? 0 : 1;
    over += no == Drop::kPortBudget ? 1 : 0;
  }
  EXPECT_NEAR(n, 2 * pipeline::PuntGate::kOfPort.per_second + pipeline::PuntGate::kOfPort.burst, 2);
  EXPECT_GT(over, 0U);
}

TEST_F(PuntGate, AJobThatFloodsTakesNothingFromOthers) {
  constexpr auto kBurst = 2 * pipeline::PuntGate::kOfRank.burst;
  EXPECT_EQ(passed(&job, worker(1), 10'000, Drop::kMemberBudget), kBurst);
  EXPECT_EQ(passed(&other, worker(1), 10, Drop::kMemberBudget), 10U);
  EXPECT_EQ(passed(nullptr, worker(1), 10, Drop::kSourceBudget), 10U);
}

}  // namespace
}  // namespace tally
