// The rules of scheduling.md's `shared`, one test for each line of its program: what happens to a
// contribution at its own chunk's entry, and when it claims one. Who takes whose entry:
// pipeline_shared_swap_test.cc.

#include <gtest/gtest.h>

#include "shared_core.h"

namespace tally {
namespace {

template <class Exec>
class SharedClaim : public SharedCore<Exec> {};
TYPED_TEST_SUITE(SharedClaim, BothExecutions);

TYPED_TEST(SharedClaim, takes_the_entry_that_was_available_for_longest) {
  this->start(3);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  this->expect_result(this->send(job, 1, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b11);
  EXPECT_TRUE(this->holds(0, job, Chunk{0}));
  for (const std::uint32_t c : {1U, 2U}) {  // entries that were never used come first: the result stays
    EXPECT_EQ(this->send(job, 0, Chunk{c}).verdict, Verdict::kAbsorb);
    EXPECT_TRUE(this->holds(c, job, Chunk{c}));
  }
  this->expect_result(this->send(job, 0, Chunk{0}), Verdict::kRepeat, job, Chunk{0}, 0b01);
  EXPECT_EQ(this->send(job, 0, Chunk{3}).verdict, Verdict::kAbsorb);
  EXPECT_TRUE(this->holds(0, job, Chunk{3}));
  EXPECT_EQ(this->occupancy(job), 3U);
  EXPECT_EQ(this->state(job).slots.claims, 4U);
}

TYPED_TEST(SharedClaim, stops_at_the_cap_where_only_own_entries_can_be_swapped) {
  this->start(4);
  const jobs::NativeJob other = this->shared_job({.id = 2});
  const jobs::NativeJob job = this->shared_job({.cap = 1});
  EXPECT_EQ(this->send(other, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  // The hand points at the other job's first, then at its own.
  EXPECT_EQ(this->send(job, 0, Chunk{1}, {.priority = kClass3}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 0, Chunk{2}).verdict, Verdict::kEvict);
  EXPECT_TRUE(this->holds(1, job, Chunk{2}));
  EXPECT_EQ(this->occupancy(job), 1U);
  EXPECT_EQ(this->occupancy(other), 1U);
  EXPECT_EQ(this->state(job).slots.denied, 1U);
}

TYPED_TEST(SharedClaim, is_not_for_a_duplicate) {
  this->start(1, 0);  // the server forgets everything: only the ledger knows
  const jobs::NativeJob bulk = this->shared_job({.id = 2, .world = 2});
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(bulk, 0, Chunk{0}, {.priority = kClass3}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(bulk, 1, Chunk{0}).verdict, Verdict::kComplete);
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kBypass) << "though the entry is available";
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.denied, 1U) << "a duplicate is not denied an entry, it wants none";
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb) << "a rank that was not seen claims";
}

TYPED_TEST(SharedClaim, is_not_for_the_last_arrival) {
  this->start(2, 0);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kBypass) << "nothing is left to merge with";
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(SharedClaim, is_not_for_a_chunk_that_the_server_knows) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->occupancy(job), 0U);
  this->expect_result(this->send(job, 2, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b111);
  EXPECT_EQ(this->state(job).slots.served, 1U);
  this->expect_result(this->send(job, 1, Chunk{0}), Verdict::kRepeat, job, Chunk{0}, 0b010);
}

TYPED_TEST(SharedClaim, a_RESULT_tells_which_before_it_are_finished_here_or_at_the_server) {
  this->start(3);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->before(this->send(job, 1, Chunk{0})), 0U);
  EXPECT_EQ(this->send(job, 0, Chunk{1}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{2}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->before(this->send(job, 1, Chunk{2}, {.flags = kFlagDirect})), 0b10U) << "chunk 0, not 1";
  EXPECT_EQ(this->state(job).slots.served, 1U);
  EXPECT_EQ(this->send(job, 0, Chunk{3}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome last = this->send(job, 1, Chunk{3});
  EXPECT_EQ(last.verdict, Verdict::kComplete);
  EXPECT_EQ(this->before(last), 0b101U) << "chunks 0 and 2";
  EXPECT_EQ(this->before(this->send(job, 1, Chunk{3})), 0U) << "it is a repetition, of any age";
  EXPECT_EQ(this->before(this->send(job, 1, Chunk{1})), 0b1U) << "of those before it only";
}

TYPED_TEST(SharedClaim, an_evicted_sum_that_its_server_completes_is_finished_for_its_own_job) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  const jobs::NativeJob other = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kComplete);
  EXPECT_EQ(this->send(job, 0, Chunk{1}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(other, 0, Chunk{7}, {.priority = kClass3}).verdict, Verdict::kEvict);
  const pipeline::Outcome out = this->send(job, 1, Chunk{1});
  this->expect_result(out, Verdict::kComplete, job, Chunk{1}, 0b11);
  EXPECT_EQ(this->before(out), 0b1U);
  EXPECT_EQ(this->before(this->send(other, 1, Chunk{7})), 0U) << "another job's";
}

TYPED_TEST(SharedClaim, a_bit_in_the_entry_is_a_duplicate_and_does_not_touch_it) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  const auto touched = this->template peek<pipeline::OwnerReg>(this->region_.line_of(0)).touched;
  this->now_ += kMillisecond;
  EXPECT_EQ(this->send(job, 0, Chunk{0}).drop, Drop::kDuplicate);
  EXPECT_EQ(this->template peek<pipeline::OwnerReg>(this->region_.line_of(0)).touched, touched);
  this->expect_result(this->send(job, 1, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b11);
}

// Rank 1's first went to the server; it must not be added to what rank 0 has in the entry.
TYPED_TEST(SharedClaim, a_duplicate_that_is_not_in_the_entry_goes_to_the_server) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->head(0).contributors, 0b001U);
}

TYPED_TEST(SharedClaim, the_last_arrival_splits_an_entry_that_lacks_somebody) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  this->expect_result(this->send(job, 2, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b111);
  EXPECT_EQ(this->state(job).slots.partials, 1U);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->head(0).tag, 0U);
}

TYPED_TEST(SharedClaim, direct_is_never_merged) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->head(0).contributors, 0b001U);
  EXPECT_EQ(this->occupancy(job), 1U);
}

// Else the entry would wait for the age sweep: no rank is left that could finish it.
TYPED_TEST(SharedClaim, direct_as_the_last_arrival_takes_the_entry_along) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb);
  this->expect_result(this->send(job, 2, Chunk{0}, {.flags = kFlagDirect}), Verdict::kComplete, job, Chunk{0},
                      0b111);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->head(0).tag, 0U);
}

TYPED_TEST(SharedClaim, what_the_server_completes_frees_the_entry_of_the_chunk) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  for (const std::uint32_t r : {0U, 1U})
    EXPECT_EQ(this->send(job, r, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  this->expect_result(this->send(job, 2, Chunk{0}, {.flags = kFlagDirect}), Verdict::kComplete, job, Chunk{0},
                      0b111);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->head(0).tag, 0U);
}

TYPED_TEST(SharedClaim, a_bad_sum_frees_the_entry_and_resets_the_row) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{5}, {.corrupt = true}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 1, Chunk{5}).drop, Drop::kBadSum);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->head(0).tag, 0U);
  EXPECT_EQ(this->row(job, Chunk{5}).seen, 0U);
  EXPECT_EQ(this->send(job, 1, Chunk{5}).verdict, Verdict::kAbsorb) << "again by an entry";
  this->expect_result(this->send(job, 0, Chunk{5}), Verdict::kComplete, job, Chunk{5}, 0b11);
}

TYPED_TEST(SharedClaim, a_corrupted_contribution_to_the_server_is_named_and_merged_nowhere) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect, .corrupt = true}).drop, Drop::kSum);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kBypass);
  this->expect_result(this->send(job, 0, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b11);
}

TYPED_TEST(SharedClaim, a_mismatch_leaves_no_trace_in_entry_or_ledger) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  const std::uint32_t line = this->region_.line_of(0);
  const auto touched = this->template peek<pipeline::OwnerReg>(line).touched;
  const auto sum1 = this->template peek<pipeline::Sum1Reg>(line);
  this->now_ += kMillisecond;
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.total = 7}).drop, Drop::kMismatch);
  EXPECT_EQ(this->head(0).contributors, 0b001U);
  EXPECT_EQ(this->row(job, Chunk{0}).seen, 0b001U);
  EXPECT_EQ(this->template peek<pipeline::OwnerReg>(line).touched, touched);
  EXPECT_EQ(this->template peek<pipeline::Sum1Reg>(line), sum1);
  EXPECT_EQ(this->occupancy(job), 1U);
  const auto event = this->pipeline_->events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->rank, Rank{1});
  EXPECT_EQ(event->others, 0b001U);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb);
  this->expect_result(this->send(job, 2, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b111);
}

TYPED_TEST(SharedClaim, a_mismatch_with_the_server_is_named_too) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  EXPECT_EQ(this->send(job, 2, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.total = 7}).drop, Drop::kMismatch);
  const auto event = this->pipeline_->events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->rank, Rank{1});
  EXPECT_EQ(event->others, 0b100U);
}

TYPED_TEST(SharedClaim, a_chunk_a_span_behind_is_stale) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({});
  const Chunk late{0x8000'0005};  // the ledger compares numbers by their serial difference only
  EXPECT_EQ(this->send(job, 0, late + job.span).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, late).drop, Drop::kStale);
  EXPECT_EQ(this->row(job, late).chunk, raw(late + job.span));
  EXPECT_EQ(this->send(job, 0, late + 1).verdict, Verdict::kAbsorb);
}

TYPED_TEST(SharedClaim, an_older_chunk_in_the_row_makes_room) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({});
  EXPECT_EQ(this->send(job, 0, Chunk{3}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{3} + job.span).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->row(job, Chunk{3}).chunk, 3 + job.span);
  EXPECT_EQ(this->occupancy(job), 2U) << "the old entry is left to the sweep";
  this->expect_result(this->send(job, 1, Chunk{3} + job.span), Verdict::kComplete, job, Chunk{3} + job.span,
                      0b11);
}

TYPED_TEST(SharedClaim, query_asks_the_entry_and_then_the_server) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({});
  const auto query = [&](std::uint32_t chunk) {
    return this->take(job, 0, make_query(job, Rank{0}, Chunk{chunk}, Rank{1}));
  };
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome waiting = query(0);
  EXPECT_EQ(waiting.verdict, Verdict::kRelay);
  EXPECT_EQ(waiting.to, Rank{1});
  EXPECT_TRUE(waiting.reject);
  EXPECT_EQ(waiting.reject_contributors, 0b10U);
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kComplete);
  this->expect_result(query(0), Verdict::kRepeat, job, Chunk{0}, 0b01);
  for (const std::uint32_t r : {0U, 1U}) this->send(job, r, Chunk{1}, {.flags = kFlagDirect});
  EXPECT_EQ(this->occupancy(job), 0U);
  this->expect_result(query(1), Verdict::kRepeat, job, Chunk{1}, 0b01);
  EXPECT_FALSE(query(2).reject);
}

}  // namespace
}  // namespace tally
