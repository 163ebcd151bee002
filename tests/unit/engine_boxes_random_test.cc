// A job over several boxes under loss, copies and changed order, with plans that change and boxes that fall silent:
// every sum is whole, and nothing stands still.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine_boxes_scene.h"

namespace tally::testbed {
namespace {

class BoxesRandom : public testing::TestWithParam<std::uint64_t> {};

// A plan over the boxes that still speak.
Plan plan_of(const BoxesScene& scene, std::uint16_t world, std::uint64_t seed) {
  std::vector<Ipv6> alive;
  for (std::size_t box = 0; box < scene.boxes.size(); ++box)
    if (!scene.boxes[box].silent) alive.push_back(address_of_box(box));
  Plan plan = random_plan(alive.size(), world, seed);
  plan.boxes = alive;
  return plan;
}

TEST_P(BoxesRandom, EveryOperationIsTheWholeSum) {
  std::mt19937_64 random(GetParam());
  const auto roll = [&](std::uint64_t n) { return random() % n; };
  const auto world = static_cast<std::uint16_t>(2 + roll(4));
  JobShape shape = planned_shape(world, 16U << roll(3));
  shape.shards = static_cast<std::uint8_t>(1 + roll(4));
  shape.most_advanced = static_cast<std::uint16_t>(roll(world));
  BoxesScene scene(shape, random_plan(2 + roll(7), world, random()));
  const std::uint64_t rate = roll(3) == 0 ? 0 : 1 + roll(5);  // of 100
  scene.lose = [&](bool, std::size_t, std::uint16_t, const Header&) { return random() % 100 < rate; };
  scene.delay = [&] { return random() % (200 * kMicrosecond); };
  scene.copies = [&] { return random() % 50 == 0 ? 2U : 1U; };
  std::uint64_t changes = 0;
  std::uint64_t losses = 0;
  for (int operation = 0; operation < 6; ++operation) {
    engine::OperationId id{};
    const std::size_t chunks = 1 + roll(300);
    for (std::size_t r = 0; r < world; ++r) id = scene.submit(r, chunks);
    const auto done = [&] {
      for (std::size_t r = 0; r < world; ++r)
        if (!scene.completed.contains({r, id})) return false;
      return true;
    };
    const TimeNs limit = scene.now + 120 * kSecond;
    while (!scene.run_until(done, kMillisecond + roll(30 * kMillisecond))) {
      ASSERT_LT(scene.now, limit) << "operation " << operation << " of " << chunks
                                  << " chunks stands still after " << changes << " changes and " << losses
                                  << " lost boxes";
      const bool running = scene.sum.running();
      std::uint64_t gone = 0;
      for (const auto& [rank, said] : scene.lost) gone |= said.gone.host() | said.forgot.host();
      const bool whim = changes < 12 && roll(12) == 0;
      if (running && (gone != 0 || whim)) {
        ++changes;
        scene.lost.clear();
        scene.change_plan(plan_of(scene, world, random()));
      }
      if (losses < scene.boxes.size() / 3 && roll(60) == 0) {
        ++losses;
        scene.at(1 + roll(scene.boxes.size() - 1)).silent = true;
      }
    }
    for (std::size_t r = 0; r < world; ++r) {
      const auto& result = scene.completed.at({r, id});
      ASSERT_TRUE(result) << result.error().what;
    }
    ASSERT_TRUE(scene.sums_are_right());
  }
  EXPECT_EQ(scene[0].statistics().generations, 1U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BoxesRandom, testing::Range<std::uint64_t>(1, 25));

}  // namespace
}  // namespace tally::testbed
