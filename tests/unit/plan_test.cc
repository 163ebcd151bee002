// A plan as it travels (include/tally/plan.h): what is written is read again, and what is no plan is refused.

#include "tally/plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "plans.h"
#include "rng.h"

namespace tally {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kBoxesAt = sizeof(PlanHeader);

Plan small_plan() {
  Rng rng(7);
  return random_plan(rng, {.boxes = 3, .world = 5, .servers = 2});
}
std::size_t ranks_at(const Plan& plan) { return kBoxesAt + sizeof(Ipv6) * plan.boxes.size(); }
std::size_t servers_at(const Plan& plan) { return ranks_at(plan) + plan.world(); }
std::size_t routes_at(const Plan& plan) { return servers_at(plan) + kPlanGroups; }

TEST(Plan, is_read_as_it_was_written) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const Plan plan = random_plan(rng, {.boxes = static_cast<std::uint8_t>(rng.between(1, kMaxPlanBoxes)),
                                        .world = static_cast<std::uint8_t>(rng.between(1, kMaxRanks)),
                                        .servers = static_cast<std::uint8_t>(rng.between(1, kMaxServers))});
    const Bytes bytes = write_plan(plan);
    EXPECT_EQ(bytes.size(), plan_bytes(plan.boxes.size(), plan.world(), plan.tables.size()));
    const auto read = read_plan(bytes);
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(*read == plan);
    EXPECT_EQ(write_plan(*read), bytes);
  }
}

TEST(Plan, of_the_largest_size_is_read_and_has_a_bit_for_each_page) {
  Plan plan;
  for (std::uint32_t box = 0; box < kMaxPlanBoxes; ++box)
    plan.boxes.push_back(mapped({10, 0, 0, static_cast<std::uint8_t>(box)}));
  plan.server_count = kMaxServers;
  plan.tables.resize(kMaxPlanTables);
  for (std::uint8_t rank = 0; rank < kMaxRanks; ++rank) plan.table_of.push_back(rank);
  plan.tables.back().back() = {.box = kMaxPlanBoxes - 1, .direct = true};
  plan.servers.back() = kMaxServers - 1;
  const Bytes bytes = write_plan(plan);
  EXPECT_EQ(bytes.size(), kMaxPlanBytes);
  EXPECT_LE(plan_pages(bytes.size()), 64U);
  ASSERT_TRUE(read_plan(bytes).has_value());
  EXPECT_TRUE(*read_plan(bytes) == plan);
}

// The offsets of docs/protocol_boxes.md, 17.1, by hand.
TEST(Plan, has_its_fields_where_the_document_says) {
  const Plan plan = small_plan();
  const Bytes bytes = write_plan(plan);
  const auto at = [&](std::size_t offset) { return std::to_integer<std::uint32_t>(bytes[offset]); };
  EXPECT_EQ(at(0), 1U);
  EXPECT_EQ(at(1), 3U);
  EXPECT_EQ(at(2), plan.tables.size());
  EXPECT_EQ(at(3), 2U);
  EXPECT_EQ(at(4), 5U);
  EXPECT_EQ(at(5) | at(6) | at(7), 0U);
  EXPECT_EQ(at(8 + 16 + 15), plan.boxes[1][15]);
  EXPECT_EQ(at(8 + 3 * 16 + 4), plan.table_of[4]);
  EXPECT_EQ(at(8 + 3 * 16 + 5 + 1000), plan.servers[1000]);
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const std::uint32_t route = at(8 + 3 * 16 + 5 + 1024 + group);
    EXPECT_EQ(route & 63U, plan.tables[0][group].box);
    EXPECT_EQ((route & 128U) != 0, plan.tables[0][group].direct);
    EXPECT_EQ(route & 64U, 0U);
  }
}

TEST(Plan, is_refused_when_one_field_is_out_of_its_range) {
  const Plan plan = small_plan();
  struct Case {
    const char* what;
    std::size_t at;
    std::uint8_t value;
  };
  const std::vector<Case> cases{
      {"another format", 0, 2},
      {"format 0", 0, 0},
      {"no box", 1, 0},
      {"more boxes than a plan may have", 1, 65},
      {"no table", 2, 0},
      {"more tables than a plan may have", 2, 65},
      {"no server", 3, 0},
      {"more servers than a job may have", 3, 17},
      {"nobody", 4, 0},
      {"more ranks than a job may have", 4, 65},
      {"the first reserved byte", 5, 1},
      {"the second", 6, 1},
      {"the third", 7, 128},
      {"a rank of a table that there is not", ranks_at(plan) + 2,
       static_cast<std::uint8_t>(plan.tables.size())},
      {"a group of a server that there is not", servers_at(plan) + 1023, 2},
      {"a route to a box that there is not", routes_at(plan), 3},
      {"the same, direct", routes_at(plan) + 1023, 0x83},
      {"a bit of a route that means nothing", routes_at(plan) + 17, 0x40},
  };
  for (const Case& c : cases) {
    Bytes bytes = write_plan(plan);
    bytes[c.at] = std::byte{c.value};
    // A count says how long the rest is: as long as that, it is refused all the same.
    EXPECT_FALSE(read_plan(bytes).has_value()) << c.what;
    bytes.resize(plan_bytes(std::to_integer<std::size_t>(bytes[1]), std::to_integer<std::size_t>(bytes[4]),
                            std::to_integer<std::size_t>(bytes[2])));
    EXPECT_FALSE(read_plan(bytes).has_value()) << c.what;
  }
}

TEST(Plan, is_refused_when_a_box_is_in_it_twice) {
  Plan plan = small_plan();
  plan.boxes[2] = plan.boxes[0];
  EXPECT_FALSE(read_plan(write_plan(plan)).has_value());
}

TEST(Plan, is_refused_when_it_is_longer_or_shorter_by_any_number_of_bytes) {
  const Bytes bytes = write_plan(small_plan());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(read_plan(std::span(bytes).first(size)).has_value()) << size;
  for (const std::size_t more : {std::size_t{1}, std::size_t{16}, std::size_t{kPlanGroups}}) {
    Bytes longer = bytes;
    longer.resize(bytes.size() + more);
    EXPECT_FALSE(read_plan(longer).has_value()) << more;
  }
}

// Whatever is read was a plan to the last bit: written again it is the same bytes.
TEST(Plan, of_random_bytes_is_refused_or_means_what_they_say) {
  Rng rng(99);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes;
    if (rng.chance(0.5)) {
      bytes.resize(rng.below(200));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
    } else {
      bytes = write_plan(small_plan());
      for (auto flips = rng.between(0, 2); flips > 0; --flips)
        bytes[rng.below(rng.chance(0.5) ? 64 : bytes.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    }
    const auto plan = read_plan(bytes);
    if (!plan) continue;
    ++read;
    ASSERT_EQ(write_plan(*plan), bytes);
  }
  EXPECT_GT(read, 1'000);
}

TEST(Plan, has_each_rank_at_exactly_one_box_and_direct_ones_are_through_and_not_here) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const Plan plan = random_plan(rng, {.boxes = 5, .world = 37, .servers = 3, .direct = 0.3});
    for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
      std::uint64_t all = 0;
      int times = 0;
      for (BoxIndex box = 0; box < plan.boxes.size(); ++box) {
        const std::uint64_t here = plan.here(box, group);
        const std::uint64_t through = plan.through(box, group);
        ASSERT_EQ(here & ~through, 0U);
        all |= through;
        times += std::popcount(through);
        for (std::uint16_t rank = 0; rank < plan.world(); ++rank) {
          const Route route = plan.route(Rank{rank}, Chunk{group + 3 * kPlanGroups});
          ASSERT_EQ((through >> rank & 1) != 0, route.box == box);
          ASSERT_EQ((here >> rank & 1) != 0, route.box == box && !route.direct);
        }
      }
      ASSERT_EQ(all, members_of(plan.world()));
      ASSERT_EQ(times, 37);
    }
  }
}

TEST(Plan, falls_into_boxes_parts_that_say_the_same) {
  Rng rng(3);
  const Plan plan = random_plan(rng, {.boxes = 4, .world = 64, .servers = 16, .direct = 0.2});
  for (BoxIndex box = 0; box < plan.boxes.size(); ++box) {
    const jobs::PlanPart part = jobs::part_of(plan, box);
    for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
      ASSERT_EQ(part.here[group], plan.here(box, group));
      ASSERT_EQ(part.through[group], plan.through(box, group));
      ASSERT_EQ(part.server[group], plan.server(Chunk{group}));
    }
  }
  const jobs::PlanPart none = jobs::part_of(plan, PlannedText::kNoBox);
  for (std::uint32_t group = 0; group < kPlanGroups; ++group)
    ASSERT_EQ(none.here[group] | none.through[group], 0U) << "who is none of its boxes has nobody";
}

TEST(Plan, groups_are_chunks_modulo_1024_also_where_numbers_wrap) {
  EXPECT_EQ(plan_group(Chunk{0xFFFF'FFFF}), 1023U);
  EXPECT_EQ(plan_group(Chunk{0}), 0U);
  EXPECT_EQ(plan_group(Chunk{1024 * 77 + 5}), 5U);
}

}  // namespace
}  // namespace tally
