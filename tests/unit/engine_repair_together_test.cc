// Repair with all ranks together: exact whatever is lost, comes twice or late, or begins anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

// A result is lost to one member, and then the box forgets it.
TEST(Repair, PeerHistoryBringsBackALostResultAfterARestart) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  bool lossy = true;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    return lossy && !to_box && rank == 0 && h.type == PacketType::kResult;
  };
  std::vector<std::int32_t> a(200, 1);
  std::vector<std::int32_t> b(200, 2);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.contains({1, id}); }));
  rig.box.restart();
  lossy = false;
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a, std::vector<std::int32_t>(200, 3));
  EXPECT_EQ(rig.box.answers, 7U);
  EXPECT_EQ(rig[1].statistics().answers, 7U);
}

TEST(Repair, HeavyLossBothWays) {
  JobShape shape;
  shape.world = 3;
  Rig rig(shape);
  std::uint64_t state = 1;
  rig.lose = [&](bool, std::uint16_t, const Header&) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % 100 < 30;
  };
  std::vector<std::vector<float>> x(3, std::vector<float>(3000, 0.25F));
  engine::OperationId id{};
  for (std::size_t r = 0; r < 3; ++r) id = *rig[r].allreduce(std::span<float>(x[r]), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (const auto& v : x) EXPECT_EQ(v, std::vector<float>(3000, 0.75F));
}

// Loss, duplication, reordering, restarts and resizes at once; the box checks that no contribution ever
// changes its values, and every sum is exact (small integers survive the quantisation unchanged).
TEST(Repair, EverythingAtOnce) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    JobShape shape;
    shape.world = static_cast<std::uint16_t>(1 + random() % 4);
    shape.largest_window = 16U << random() % 3;
    shape.window = shape.lookahead = std::max(16U, shape.largest_window >> random() % 2);
    shape.first_chunk = random() % 2 == 0 ? 0xFFFFFFFD : static_cast<std::uint32_t>(random());
    shape.shards = static_cast<std::uint8_t>(1 + random() % 4);
    shape.lease_ms = 60'000;  // with 30 % loss ten heartbeats in a row do not get through now and then
    Rig rig(shape);
    rig.box.in_order = false;
    const std::uint64_t loss = random() % 31;
    rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < loss; };
    rig.delay = [&]() -> TimeNs { return random() % 10 == 0 ? random() % (20 * kMillisecond) : 0; };
    rig.copies = [&]() { return random() % 10 == 0 ? 2U : 1U; };
    constexpr std::size_t kOperations = 5;
    std::vector<std::vector<std::vector<float>>> f(shape.world);
    std::vector<std::vector<std::vector<std::int32_t>>> i(shape.world);
    const std::size_t most = random() % 1500;
    for (std::size_t op = 0; op < kOperations; ++op) {
      const std::size_t n = random() % (most + 1);
      for (std::size_t r = 0; r < shape.world; ++r) {
        f[r].emplace_back(n);
        i[r].emplace_back(n);
        for (std::size_t k = 0; k < n; ++k) {
          i[r][op][k] = static_cast<std::int32_t>(k * (r + 1) + op);
          f[r][op][k] = static_cast<float>(i[r][op][k] % 1000);
        }
      }
    }
    const auto want_f = [&](std::size_t op, std::size_t k) {
      float sum = 0;
      for (std::size_t r = 0; r < shape.world; ++r) sum += static_cast<float>((k * (r + 1) + op) % 1000);
      return sum;
    };
    for (std::size_t r = 0; r < shape.world; ++r) {
      for (std::size_t op = 0; op < kOperations; ++op) {
        (void)rig[r].allreduce(std::span<float>(f[r][op]), 0);
        (void)rig[r].allreduce(std::span<std::int32_t>(i[r][op]), 0);
      }
      rig[r].leave(0);
    }
    const auto all_done = [&] { return rig.completed.size() == 2 * kOperations * shape.world; };
    for (int restart = 0; restart < 3; ++restart) {
      const std::uint64_t results = rig[0].statistics().results + random() % 100;
      (void)rig.run_until([&] { return all_done() || rig[0].statistics().results >= results; });
      if (all_done()) break;
      rig.box.shape.window = std::max(16U, shape.largest_window >> random() % 3);
      rig.box.restart();
    }
    ASSERT_TRUE(rig.run_until(all_done));
    for (const auto& [who, r] : rig.completed) ASSERT_TRUE(r) << r.error().what;
    for (std::size_t op = 0; op < kOperations; ++op)
      for (std::size_t k = 0; k < f[0][op].size(); ++k) {
        const auto ranks = static_cast<std::int32_t>(shape.world);
        const auto factor = static_cast<std::int32_t>(k) * ranks * (ranks + 1) / 2;
        for (std::size_t r = 0; r < shape.world; ++r) {
          ASSERT_EQ(f[r][op][k], want_f(op, k));
          ASSERT_EQ(i[r][op][k], factor + static_cast<std::int32_t>(op) * ranks);
        }
      }
    if (HasFailure()) return;
  }
}

TEST(Repair, SlowRankDelaysAndFailsNothing) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  std::vector<float> a(600, 1.0F);
  std::vector<float> b(600, 1.0F);
  const auto id = *rig[0].allreduce(std::span<float>(a), rig.now);
  EXPECT_FALSE(rig.run_until([&] { return rig.completed.contains({0, id}); }, 30 * kSecond));
  EXPECT_EQ(rig[0].state(), engine::EngineState::kRunning) << "alive, only slow";
  (void)rig[1].allreduce(std::span<float>(b), rig.now);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a, std::vector<float>(600, 2.0F));
}

}  // namespace
}  // namespace tally::testbed
