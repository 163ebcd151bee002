// A job over several boxes, and what may befall it within an epoch: every chunk is finished all the same, each rank is
// in each sum once, and nobody waits for ever.

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "plan_rack.h"

namespace tally {
namespace {

template <class Exec>
class PlanLives : public testing::Test {
 protected:
  static Plan fixture() {
    Rng rng(31);
    return random_plan(rng, {.boxes = 2, .world = 4, .servers = 2});
  }
  // A rack of two at each box.
  static Plan two_racks() {
    Plan plan = one_box_plan(4, 1);
    plan.boxes.push_back(mapped({10, 254, 0, 77}));
    plan.tables.assign(2, RouteTable{});
    plan.table_of = {0, 0, 1, 1};
    plan.tables[1].fill({.box = 1});
    return plan;
  }
};
TYPED_TEST_SUITE(PlanLives, BothExecutions);

// 2 boxes, 4 ranks, 2 servers, 1,024 groups; nothing is lost.
TYPED_TEST(PlanLives, each_contribution_is_summed_once_and_each_result_comes_once) {
  const Plan plan = this->fixture();
  PlanRack<TypeParam> rack(plan, {.window = kPlanGroups, .entries = 2 * kPlanGroups, .chunks = kPlanGroups});
  rack.round();
  ASSERT_TRUE(rack.done());
  std::uint32_t in_a_box = 0;
  for (std::uint32_t chunk = 0; chunk < kPlanGroups; ++chunk) {
    std::uint64_t together = 0;
    for (const std::uint64_t ranks : rack.at_server(Chunk{chunk})) {
      ASSERT_EQ(together & ranks, 0U) << "bitmaps are disjoint at the server";
      together |= ranks;
    }
    const bool whole = plan.here(0, chunk) == 0b1111 || plan.here(1, chunk) == 0b1111;
    in_a_box += whole ? 1 : 0;
    ASSERT_EQ(together, whole ? 0U : 0b1111U) << "what a box finishes no server sees";
    std::size_t sums = 0;  // of each box one, and of each that it passes on
    for (BoxIndex box = 0; box < 2; ++box) {
      const std::uint64_t here = plan.here(box, chunk);
      sums += (here != 0 ? 1 : 0) + static_cast<std::size_t>(std::popcount(plan.through(box, chunk) & ~here));
    }
    ASSERT_EQ(rack.at_server(Chunk{chunk}).size(), whole ? 0 : sums);
    for (std::uint32_t rank = 0; rank < 4; ++rank) ASSERT_EQ(rack.results(rank, chunk), 1U);
  }
  EXPECT_GT(in_a_box, 200U);
  EXPECT_LT(in_a_box, 800U);
  for (BoxIndex box = 0; box < 2; ++box) {
    EXPECT_EQ(rack.pipeline(box).shared().filling(), 0U);
    EXPECT_EQ(rack.pipeline(box).state(rack.row(box).id).occupancy, 0U);
  }
}

// The first of each chunk is lost, wherever it went.
TYPED_TEST(PlanLives, a_lost_PARTIAL_is_sent_again_by_its_ranks) {
  for (const bool asks : {false, true}) {
    PlanRack<TypeParam> rack(this->two_racks(), {.chunks = 40, .asks = asks});
    rack.lost = [left = 2 * 40](Way way, PacketType type) mutable {
      return way == Way::kToServer && type == PacketType::kPartial && left-- > 0;
    };
    EXPECT_NE(rack.rounds(8), 0);
  }
}

// No RESEND ever comes: the workers' own timers are enough.
TYPED_TEST(PlanLives, a_lost_PARTIAL_is_made_good_without_any_RESEND) {
  for (const bool asks : {false, true}) {
    PlanRack<TypeParam> rack(this->two_racks(), {.chunks = 40, .asks = asks});
    rack.lost = [left = 2 * 40](Way way, PacketType type) mutable {
      return type == PacketType::kResend ||
             (way == Way::kToServer && type == PacketType::kPartial && left-- > 0);
    };
    EXPECT_NE(rack.rounds(12), 0);
  }
}

TYPED_TEST(PlanLives, a_RESULT_that_no_box_got_is_asked_for_at_the_server) {
  PlanRack<TypeParam> rack(this->two_racks(), {.chunks = 40, .asks = false});
  rack.lost = [left = 2 * 40](Way way, PacketType type) mutable {
    return way == Way::kFromServer && type == PacketType::kResult && left-- > 0;
  };
  EXPECT_NE(rack.rounds(6), 0);
}

TYPED_TEST(PlanLives, a_RESULT_that_one_rank_did_not_get_comes_when_it_alone_asks) {
  for (const bool asks : {false, true}) {
    PlanRack<TypeParam> rack(this->two_racks(), {.chunks = 20, .asks = asks});
    ASSERT_EQ(rack.rounds(1), 1);
    for (std::uint32_t chunk = 0; chunk < 20; ++chunk) rack.forget_result(1, chunk);
    EXPECT_NE(rack.rounds(3), 0);
    EXPECT_EQ(rack.results(0, 0), 1U) << "nobody else heard of it";
  }
}

// The server has forgotten that it was finished, and the box that it ever was: those who have the result give it.
TYPED_TEST(PlanLives, one_rank_gets_its_RESULT_when_servers_and_box_have_forgotten_all) {
  for (const bool asks : {false, true}) {
    PlanRack<TypeParam> rack(this->two_racks(), {.chunks = 20, .asks = asks});
    ASSERT_EQ(rack.rounds(1), 1);
    for (std::uint32_t chunk = 0; chunk < 20; ++chunk) rack.forget_result(1, chunk);
    rack.server_forgets();
    rack.restart(0);
    EXPECT_NE(rack.rounds(8), 0);
  }
}

TYPED_TEST(PlanLives, a_box_that_knows_nothing_any_more_goes_on_in_the_middle) {
  for (const bool asks : {false, true}) {
    const Plan plan = this->fixture();
    PlanRack<TypeParam> rack(plan, {.window = 64, .chunks = 256, .asks = asks});
    rack.silent = 0b1000;  // so that everything is half done
    for (int i = 0; i < 3; ++i) rack.round();
    rack.restart(0);
    rack.silent = 0b0001;
    for (int i = 0; i < 3; ++i) rack.round();
    rack.restart(1);
    rack.silent = 0;
    EXPECT_NE(rack.rounds(40), 0);
  }
}

TYPED_TEST(PlanLives, servers_that_forget_all_get_it_again) {
  for (const bool asks : {false, true}) {
    PlanRack<TypeParam> rack(this->fixture(), {.window = 64, .chunks = 256, .asks = asks});
    rack.silent = 0b0100;
    for (int i = 0; i < 3; ++i) rack.round();
    rack.server_forgets();
    rack.silent = 0;
    EXPECT_NE(rack.rounds(40), 0);
  }
}

// Boxes, ranks, servers and routes as the dice fall; a fifth of everything is lost on each way; slots are scarce in
// half of the racks; boxes and servers forget now and then.
TYPED_TEST(PlanLives, any_plan_comes_to_its_end_whatever_is_lost_and_forgotten) {
  std::uint64_t partials = 0;
  std::uint64_t passed = 0;
  for (std::uint64_t seed = 0; seed < 60 / TALLY_SEED_SHARE; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlanSpec spec{.boxes = static_cast<std::uint8_t>(rng.between(1, 5)),
                  .world = static_cast<std::uint8_t>(rng.between(2, 7)),
                  .servers = static_cast<std::uint8_t>(rng.between(1, 3))};
    spec.direct = rng.chance(0.5) ? 0.1 : 0.5;
    const std::uint32_t entries = rng.chance(0.5) ? static_cast<std::uint32_t>(rng.between(1, 8)) : 64;
    PlanRack<TypeParam> rack(random_plan(rng, spec),
                             {.window = 16, .entries = entries, .chunks = 48, .asks = rng.chance(0.7)});
    rack.lost = [&rng](Way, PacketType) { return rng.chance(0.2); };
    bool done = false;
    for (int i = 0; i < 200 && !done; ++i) {
      rack.round();
      done = rack.done();
      if (testing::Test::HasFatalFailure()) return;
      if (rng.chance(0.05)) rack.restart(static_cast<BoxIndex>(rng.below(spec.boxes)));
      if (rng.chance(0.03)) rack.server_forgets();
    }
    ASSERT_TRUE(done);
    for (BoxIndex box = 0; box < spec.boxes; ++box) {
      partials += rack.pipeline(box).state(rack.row(box).id).slots.partials;
      passed += rack.pipeline(box).counters(rack.row(box).id).of(Verdict::kBypass);
    }
  }
  EXPECT_GT(partials, 200U / TALLY_SEED_SHARE);
  EXPECT_GT(passed, 500U / TALLY_SEED_SHARE);
}

}  // namespace
}  // namespace tally
