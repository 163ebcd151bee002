// Hazards of pools whose window changes while they run: by the operator, or for a job of higher priority.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

void expect_one_generation(HazardRack& rack, Generation generation, std::uint16_t job = 0) {
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_EQ(rack.membership(r, job).generation, generation);
    EXPECT_EQ(rack.counted(r, job).generations, 1U);
    EXPECT_FALSE(rack.worker(r, job).closed());
  }
}

class HazardResize : public testing::TestWithParam<std::uint8_t> {};

INSTANTIATE_TEST_SUITE_P(Cores, HazardResize, testing::Values(std::uint8_t{1}, std::uint8_t{3}));

// Every time in the middle of a reduction, with losses before, while and after the members come back.
TEST_P(HazardResize, running_pool_job_resized_ten_times_under_load) {
  HazardRack rack({.world = 3, .window = 256, .first_chunk = Chunk{0xFFFF'FF00U}, .cores = GetParam()});
  rack.sim().network().set_faults({.loss = 0.02, .duplicate = 0.02, .reorder = 0.05});
  rack.join();
  const Generation generation = rack.membership(0).generation;
  const std::array<std::uint32_t, 10> windows{16, 256, 128, 16, 32, 256, 64, 128, 16, 256};
  for (const std::uint32_t window : windows) {
    const std::size_t sum = rack.reduce(16 * 3'000);
    const std::uint64_t results = rack.counted(0).results;
    ASSERT_TRUE(rack.until([&] { return rack.counted(0).results > results + 600; }));
    ASSERT_FALSE(rack.done(0, sum));
    const std::uint64_t epochs = rack.counted(0).epochs;
    ASSERT_TRUE(rack.box().resize("job0", window));
    rack.expect_exact(sum);
    EXPECT_EQ(rack.counted(0).epochs, epochs + 1);
    EXPECT_EQ(rack.membership(1).window, window);
    EXPECT_EQ(rack.membership(1).largest_window, 256U);
  }
  expect_one_generation(rack, generation);
  EXPECT_EQ(rack.drops(Drop::kAhead), 0U);
}

// The fastest schedule: the next resize as soon as the job runs again, all in one reduction.
TEST_P(HazardResize, resized_as_soon_as_it_runs_again) {
  HazardRack rack({.world = 2, .window = 64, .cores = GetParam()});
  rack.sim().network().set_faults({.loss = 0.01});
  rack.join();
  const Generation generation = rack.membership(0).generation;
  const std::size_t sum = rack.reduce(16 * 60'000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rack.until([&] { return rack.box().resize("job0", i % 2 == 0 ? 16 : 64); }));
    ASSERT_TRUE(rack.until([&] { return rack.status().phase == members::JobPhase::kRunning; }));
  }
  ASSERT_FALSE(rack.done(0, sum));
  rack.expect_exact(sum);
  EXPECT_GE(rack.counted(0).epochs, 8U);
  expect_one_generation(rack, generation);
}

// Rank 1 lacks results that only a peer's history has, four small windows behind it.
TEST(Hazard, resized_with_results_lost) {
  HazardRack rack({.window = 64, .first_chunk = Chunk{0xFFFF'FFFDU}});
  rack.join();
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const std::size_t sum = rack.reduce(16 * 64);
  const std::size_t next = rack.reduce(16 * 300);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }));
  ASSERT_TRUE(rack.box().resize("job0", 16));
  lost.left = 0;
  rack.expect_exact(sum);
  rack.expect_exact(next);
  EXPECT_EQ(rack.membership(1).window, 16U);
  EXPECT_GE(rack.counted(0).answers, 64U);
  EXPECT_EQ(rack.drops(Drop::kAhead), 0U);
  rack.expect_healthy();
}

// What was said in the large window comes again in the small one: it is of another epoch.
TEST(Hazard, packets_of_the_larger_window) {
  HazardRack rack({.window = 64});
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
  rack.expect_exact(rack.reduce(16 * 64));
  ASSERT_TRUE(rack.box().resize("job0", 16));
  ASSERT_TRUE(rack.until([&] { return rack.running() && rack.status().window == 16; }));
  const std::size_t many = sent.hits();
  const std::uint64_t before = rack.drops(Drop::kEpoch);
  const std::size_t sum = rack.reduce(16 * 200);
  rack.replay(sent, 0, true);
  EXPECT_GE(rack.drops(Drop::kEpoch), before + many);
  rack.expect_exact(sum);
}

// Job 2 of the highest priority comes into a box whose slots two pools have, both in mid operation.
TEST_P(HazardResize, a_higher_priority_job_that_does_not_fit_takes_slots_within_one_second) {
  HazardRack rack({.world = 2,
                   .jobs = 3,
                   .window = 64,
                   .cores = GetParam(),
                   .slot_lines = 2 * jobs::pool_lines(64, GetParam(), 16),
                   .job_priorities = {10, 20, 200},
                   .bits_per_second = 50'000'000});
  rack.sim().network().set_faults({.loss = 0.01});
  rack.join(0);
  rack.join(1);
  const Generation first = rack.membership(0, 0).generation;
  const Generation second = rack.membership(0, 1).generation;
  const std::size_t a = rack.reduce(16 * 20'000, 0);
  const std::size_t b = rack.reduce(16 * 20'000, 1);
  rack.run_for(kMillisecond);
  ASSERT_EQ(rack.status(1).window, 64U);
  for (const std::uint16_t r : rack.ranks()) rack.worker(r, 2).start();
  const TimeNs asked = rack.now();
  ASSERT_TRUE(rack.until([&] { return rack.running(2); }, kSecond)) << rack.worker(0, 2).describe();
  EXPECT_LT(rack.now() - asked, kSecond);
  EXPECT_EQ(rack.status(0).shrunk_for, "job2");
  EXPECT_LT(rack.status(0).window, 64U);
  EXPECT_EQ(rack.status(2).window, 64U);
  EXPECT_FALSE(rack.done(0, a, 0));
  const std::size_t c = rack.reduce(16 * 500, 2);
  rack.expect_exact(c, 2);
  rack.expect_exact(a, 0);
  rack.expect_exact(b, 1);
  expect_one_generation(rack, first, 0);
  expect_one_generation(rack, second, 1);
  expect_one_generation(rack, rack.membership(0, 2).generation, 2);

  // It ends; the others grow back, in mid operation.
  for (const std::uint16_t r : rack.ranks()) {
    rack.worker(r, 2).engine().leave(rack.now());
    rack.worker(r, 2).resume_service();
  }
  const std::size_t later = rack.reduce(16 * 200, 0);
  const auto has_all = [&](std::uint16_t job) {
    return rack.status(job).phase == members::JobPhase::kRunning && rack.status(job).window == 64;
  };
  ASSERT_TRUE(rack.until([&] { return has_all(0) && has_all(1); }));
  EXPECT_EQ(rack.status(0).shrunk_for, "");
  rack.expect_exact(later, 0);
  rack.expect_healthy(1);
  expect_one_generation(rack, first, 0);
}

// A worker of the pool is dead when its memory is asked for: the lease decides, and the other job gets all.
TEST(Hazard, dead_member_of_a_pool_that_must_give) {
  HazardRack rack({.world = 2,
                   .jobs = 2,
                   .window = 64,
                   .lease = 4 * kSecond,
                   .slot_lines = jobs::pool_lines(64, 1, 16),
                   .job_priorities = {10, 200}});
  rack.join(0);
  rack.reduce(16 * 5'000, 0);
  rack.run_for(kMillisecond);
  rack.worker(1, 0).crash();
  for (const std::uint16_t r : rack.ranks()) rack.worker(r, 1).start();
  const TimeNs asked = rack.now();
  ASSERT_TRUE(rack.until([&] { return rack.running(1); }));
  EXPECT_LT(rack.now() - asked, 6 * kSecond);
  EXPECT_TRUE(rack.worker(0, 0).closed());
  EXPECT_EQ(rack.status(1).window, 64U);
  rack.expect_healthy(1);
}

}  // namespace
}  // namespace tally::sim
