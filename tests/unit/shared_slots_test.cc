// The lists of a shared region: which entry is claimed, which is tried as a victim, which the sweep looks at.

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "pipeline/shared_slots.h"
#include "rng.h"

namespace tally {
namespace {

pipeline::SharedSlots slots_of(std::uint32_t entries) {
  return pipeline::SharedSlots({.first = 10, .entries = entries, .step = 3});
}

TEST(SharedSlots, begin_available_in_the_order_of_their_places) {
  pipeline::SharedSlots s = slots_of(3);
  EXPECT_EQ(s.filling(), 0U);
  EXPECT_EQ(s.next_victim(), pipeline::kNoEntry);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(s.oldest_available(), i);
    EXPECT_FALSE(s.filling(i));
    s.claimed(i);
    EXPECT_TRUE(s.filling(i));
  }
  EXPECT_EQ(s.filling(), 3U);
  EXPECT_EQ(s.oldest_available(), pipeline::kNoEntry);
  EXPECT_EQ(s.line_of(2), 16U);
}

TEST(SharedSlots, without_entries_have_nothing_to_offer) {
  pipeline::SharedSlots s{jobs::SharedRegion{}};
  EXPECT_EQ(s.oldest_available(), pipeline::kNoEntry);
  EXPECT_EQ(s.next_victim(), pipeline::kNoEntry);
}

TEST(SharedSlots, are_available_again_in_the_order_of_release) {
  pipeline::SharedSlots s = slots_of(3);
  for (std::uint32_t i = 0; i < 3; ++i) s.claimed(i);
  for (const std::uint32_t i : {2U, 0U, 1U}) s.released(i);
  for (const std::uint32_t i : {2U, 0U, 1U}) {
    EXPECT_EQ(s.oldest_available(), i);
    s.claimed(i);
  }
}

TEST(SharedSlots, victims_go_round_and_a_new_one_is_tried_last) {
  pipeline::SharedSlots s = slots_of(4);
  for (std::uint32_t i = 0; i < 3; ++i) s.claimed(i);
  EXPECT_EQ(s.next_victim(), 0U);
  EXPECT_EQ(s.next_victim(), 1U);
  s.claimed(3);
  for (const std::uint32_t i : {2U, 0U, 1U, 3U, 2U}) EXPECT_EQ(s.next_victim(), i);
  s.released(0);
  for (const std::uint32_t i : {1U, 3U, 2U, 1U}) EXPECT_EQ(s.next_victim(), i);
}

TEST(SharedSlots, the_sweep_sees_every_entry_once_a_round) {
  pipeline::SharedSlots s = slots_of(5);
  std::vector<int> seen(5);
  for (int i = 0; i < 15; ++i) ++seen[s.next_to_sweep()];
  for (const int n : seen) EXPECT_EQ(n, 3);
}

// Against two queues.
TEST(SharedSlots, keep_their_order_over_random_claims_and_releases) {
  Rng rng(3);
  pipeline::SharedSlots s = slots_of(9);
  std::deque<std::uint32_t> available;
  std::deque<std::uint32_t> filling;
  for (std::uint32_t i = 0; i < 9; ++i) available.push_back(i);
  for (int step = 0; step < 50'000; ++step) {
    ASSERT_EQ(s.oldest_available(), available.empty() ? pipeline::kNoEntry : available.front());
    ASSERT_EQ(s.filling(), filling.size());
    const auto what = rng.below(3);
    if (what == 0 && !available.empty()) {
      // By hash any of them may be claimed, not only the oldest.
      const auto at = available.begin() + static_cast<std::ptrdiff_t>(rng.below(available.size()));
      s.claimed(*at);
      filling.push_back(*at);
      available.erase(at);
    } else if (what == 1 && !filling.empty()) {
      const auto at = filling.begin() + static_cast<std::ptrdiff_t>(rng.below(filling.size()));
      s.released(*at);
      available.push_back(*at);
      filling.erase(at);
    } else if (what == 2) {
      ASSERT_EQ(s.next_victim(), filling.empty() ? pipeline::kNoEntry : filling.front());
      if (filling.empty()) continue;
      filling.push_back(filling.front());
      filling.pop_front();
    }
  }
}

}  // namespace
}  // namespace tally
