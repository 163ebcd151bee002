// Zero runs (docs/protocol_sparse.md) in every state that they can reach at these sizes, and what each of their rules
// is for. docs/hazards.md has the numbers.

#include "sparse_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings sparse(const SparseSetting& setting) { return explore(SparseModel(setting)); }

// Chunks that nobody, one or all have values for; of chunk 4 the entry is chunk 0's.
constexpr std::array<Bits, 5> kMixed{0b00, 0b01, 0b00, 0b10, 0b01};

// No two neighbours alike; the greatest at one rank, the other or both.
constexpr std::array<std::uint8_t, 5> kUnlike{0b10'01, 0b00'11, 0b01'00, 0b10'10, 0b11'00};

TEST(SparseModel, runs_beside_contributions_are_exact_and_live) {
  expect_live(sparse({.chunks = 5, .restarts = 1, .values = kMixed, .exponents = kUnlike}));
}
TEST(SparseModel, runs_alone_are_exact_and_live) {
  expect_live(sparse({.chunks = 5, .restarts = 1, .exponents = kUnlike}));
}
TEST(SparseModel, exact_and_live_with_three_ranks_over_a_version) {
  expect_live(sparse({.ranks = 3,
                      .chunks = 3,
                      .window = 1,
                      .restarts = 1,
                      .values = {0b000, 0b010, 0b000},
                      .exponents = {0b01'00'10, 0b11'01'00, 0b00'10'01}}));
}
TEST(SparseModel, exact_and_live_over_two_restarts) {
  expect_live(sparse({.chunks = 4, .restarts = 2, .values = kMixed}));
}

// What the rules are for.
TEST(SparseModel, a_run_that_does_not_clear_entries_is_found_out) {
  EXPECT_FALSE(sparse({.chunks = 5, .values = {0b01, 0, 0, 0, 0b10}, .clears = false}).violation.empty());
}
TEST(SparseModel, a_result_run_of_all_that_a_run_finished_would_hide_values) {
  EXPECT_FALSE(sparse({.values = kMixed, .zero_sums = false}).violation.empty());
}
TEST(SparseModel, runs_beyond_the_window_would_take_entries_that_others_need) {
  EXPECT_GT(sparse({.chunks = 3, .window = 1, .values = {0b10, 0, 0}, .within = false}).stuck, 0U);
}
TEST(SparseModel, a_run_sent_again_would_not_bring_a_lost_result) {
  EXPECT_GT(sparse({.chunks = 3, .single_repair = false}).stuck, 0U);
}
TEST(SparseModel, one_exponent_for_unlike_chunks_is_found_out) {
  EXPECT_FALSE(sparse({.exponents = kUnlike, .own_exponents = false}).violation.empty());
}
TEST(SparseModel, exponents_of_what_a_result_run_leaves_out_are_found_out) {
  EXPECT_FALSE(sparse({.values = kMixed, .exponents = kUnlike, .told_exponents = false}).violation.empty());
}

TEST(SparseModel, DISABLED_big_three_ranks) {
  expect_live(sparse({.ranks = 3,
                      .chunks = 5,
                      .restarts = 1,
                      .values = {0b000, 0b010, 0b000, 0b111, 0b001},
                      .exponents = {0b01'00'10, 0b11'01'00, 0b00'10'01, 0b01'01'11, 0b10'00'00}}));
}

}  // namespace
}  // namespace tally::models
