// The rules of repair (docs/protocol.md, 8), in every state that they can reach at these sizes. The quick
// ones run with the tests; `tally_model_test --gtest_also_run_disabled_tests` adds those that take minutes
// and some GB. docs/hazards.md has the numbers.

#include <gtest/gtest.h>

#include "explorer.h"
#include "pool_box.h"
#include "shared_box.h"

namespace tally::models {
namespace {

Findings pool(const Setting& setting, Bits zeros = 0, bool clears = true) {
  return explore(Rack<PoolBox>(setting, PoolBox(setting.ranks, setting.window, zeros, clears)));
}
Findings shared(const Setting& setting, const SharedSetting& box) {
  return explore(Rack<SharedBox>(setting, SharedBox(setting.ranks, box)));
}

// With the last resort, whatever happens: exact, and the goal always within reach.
TEST(PoolModel, exact_and_live_under_loss_delay_and_replay) {
  expect_live(pool({.chunks = 4, .window = 2, .losses = 1, .late = 1, .replays = true}));
}
TEST(PoolModel, exact_and_live_with_three_ranks) {
  expect_live(pool({.ranks = 3, .chunks = 3, .window = 1, .losses = 1, .replays = true}));
}
// Ranks that leave out their zeros: whoever comes first, over entries of chunks before.
TEST(PoolModel, zeros_that_are_left_out_count_as_zeros) {
  for (const Bits zeros : {Bits{1}, Bits{2}, Bits{3}})
    expect_live(
        pool({.chunks = 4, .window = 1, .losses = 1, .late = 1, .restarts = 1, .replays = true}, zeros));
}
// What the box must not do: the sum of a chunk before would be in the next one.
TEST(PoolModel, a_zero_that_does_not_clear_its_entry_is_found_out) {
  EXPECT_FALSE(pool({.chunks = 4, .window = 1}, Bits{1}, /*clears=*/false).violation.empty());
}
TEST(PoolModel, exact_and_live_over_a_restart) {
  expect_live(pool({.chunks = 3, .window = 1, .losses = 1, .late = 1, .restarts = 1, .replays = true}));
}

// What early repair does alone: no timer ever runs out. The last chunks are left out, behind which nothing
// is sent that could tell of their loss.
TEST(PoolModel, nacks_alone_heal_a_lost_contribution) {
  Setting s{.chunks = 4, .window = 3, .losses = 1, .asks = false, .timers = false, .safe_chunks = 0b1110};
  const Findings found = pool(s);
  EXPECT_NE(found.way_to_stuck.find("answer lost"), std::string::npos) << "a lost RESULT needs a QUERY";
  EXPECT_EQ(found.way_to_stuck.find("contribution lost"), std::string::npos) << found.way_to_stuck;
}
TEST(PoolModel, repair_heals_any_loss_but_the_last_without_a_timer) {
  expect_live(pool({.chunks = 5, .window = 3, .losses = 1, .timers = false, .safe_chunks = 0b10000}));
}
TEST(PoolModel, a_repetition_lost_at_the_windows_end_needs_a_probe) {
  Setting s{.chunks = 4, .window = 3, .losses = 2, .timers = false, .safe_chunks = 0b1000};
  EXPECT_GT(pool(s).stuck, 0U);
  s.probes = true;
  expect_live(pool(s));
}
TEST(PoolModel, a_probe_heals_the_last_chunks_too) {
  expect_live(pool({.chunks = 3, .window = 3, .losses = 3, .late = 1, .probes = true, .timers = false}));
}
// The box has forgotten what one rank has and the other lost: nothing that names nobody brings it.
TEST(PoolModel, a_probe_that_names_a_peer_heals_what_a_restart_forgot) {
  Setting s{.chunks = 3, .window = 2, .losses = 1, .restarts = 1, .probes = true, .timers = false};
  expect_live(pool(s));
  s.names = false;
  EXPECT_GT(pool(s).stuck, 0U);
}
TEST(PoolModel, repair_heals_a_loss_of_three_ranks_without_a_timer) {
  expect_live(
      pool({.ranks = 3, .chunks = 4, .window = 3, .losses = 1, .timers = false, .safe_chunks = 0b1100}));
}
TEST(PoolModel, questions_heal_where_the_nack_is_lost) {
  expect_live(
      pool({.chunks = 4, .window = 3, .losses = 1, .nacks = false, .timers = false, .safe_chunks = 0b1000}));
}
TEST(PoolModel, the_last_chunk_needs_a_timer) {
  const Setting s{.chunks = 3, .window = 3, .losses = 1, .timers = false};
  EXPECT_GT(pool(s).stuck, 0U);
}
TEST(PoolModel, what_comes_late_heals_without_a_timer) {
  expect_live(pool({.chunks = 4, .window = 3, .lead = 2, .late = 2, .probes = true, .timers = false}));
}

TEST(SharedModel, exact_and_live_with_an_embedded_server) {
  expect_live(shared({.chunks = 2, .losses = 1, .replays = true}, {.forgets = 1}));
}
TEST(SharedModel, exact_and_live_with_an_external_server) {
  expect_live(shared({.chunks = 2, .losses = 1, .replays = true}, {.external = true}));
}
TEST(SharedModel, exact_and_live_over_a_restart) {
  expect_live(shared({.chunks = 2, .losses = 1, .restarts = 1}, {.external = true}));
}

// A RESULT that is lost, and whose entry is somebody else's by then: a peer has it.
class Reclaimed : public testing::TestWithParam<bool> {};
TEST_P(Reclaimed, result_is_repaired_without_a_timer) {
  const Setting s{.chunks = 3, .window = 3, .losses = 1, .timers = false, .safe_chunks = 0b110};
  expect_live(shared(s, {.external = GetParam(), .evictions = 0, .reclaims = 1}));
}
TEST_P(Reclaimed, result_is_repaired_without_a_timer_among_three) {
  const Setting s{.ranks = 3, .chunks = 2, .window = 2, .losses = 1, .timers = false, .safe_chunks = 0b10};
  expect_live(shared(s, {.external = GetParam(), .evictions = 0, .reclaims = 1}));
}
INSTANTIATE_TEST_SUITE_P(Servers, Reclaimed, testing::Bool());

// What was lost on the way to an external server: nobody waits for its timer.
TEST(SharedModel, a_question_to_the_server_heals_a_lost_partial_without_a_timer) {
  const Setting s{.chunks = 2, .window = 2, .probes = true, .timers = false};
  SharedSetting box{.external = true, .evictions = 2, .server_timer = false};
  expect_live(shared(s, box));
  box.asks_server = false;
  EXPECT_GT(shared(s, box).stuck, 0U) << "peers do not have it";
}
TEST(SharedModel, questions_alone_heal_losses_on_either_side_of_the_box) {
  const Setting s{.chunks = 2, .window = 2, .losses = 2, .probes = true, .timers = false};
  expect_live(shared(s, {.external = true, .server_timer = false}));
}

// Version 1's rule, for comparison: nobody is asked for what an external server may have.
TEST(SharedModel, without_peers_a_reclaimed_result_waits_for_timers) {
  const Setting s{.chunks = 3, .window = 3, .losses = 1, .timers = false, .safe_chunks = 0b110};
  const SharedSetting box{
      .external = true, .evictions = 0, .reclaims = 1, .asks_peers = false, .server_timer = false};
  EXPECT_GT(shared(s, box).stuck, 0U);
}

TEST(PoolModel, DISABLED_big_loss_delay_and_replay) {
  expect_live(pool({.chunks = 5, .window = 2, .losses = 2, .late = 2, .replays = true}));
}
TEST(PoolModel, DISABLED_big_three_ranks) {
  expect_live(pool({.ranks = 3, .chunks = 3, .window = 1, .losses = 1, .replays = true}));
}
TEST(PoolModel, DISABLED_big_restarts) {
  expect_live(pool({.chunks = 4, .window = 2, .losses = 2, .late = 1, .restarts = 2, .replays = true}));
}
TEST(SharedModel, DISABLED_big_embedded) {
  expect_live(shared({.chunks = 3, .losses = 1, .late = 1}, {.forgets = 1}));
}
TEST(SharedModel, DISABLED_big_external_restart) {
  expect_live(shared({.chunks = 2, .losses = 1, .restarts = 1, .replays = true}, {.external = true}));
}

}  // namespace
}  // namespace tally::models
