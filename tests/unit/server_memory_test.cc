// What the table keeps and for how long: capacity, epochs, generations, ids that come again, age.
#include "server_support.h"

namespace tally {
namespace {

constexpr std::uint16_t kValues = 16;

class MergeMemory : public testing::Test {
 protected:
  static constexpr std::uint32_t kStates = 3;

  server::Merged merge(const server::MergeJob& job, std::uint32_t chunk, std::uint64_t ranks,
                       TimeNs now = 1) {
    Packet p(job, Chunk{chunk}, ranks, kValues);
    return guarded_.table.merge(job, p.partial, now).merged;
  }
  server::Merged merge(std::uint32_t chunk, std::uint64_t ranks, TimeNs now = 1) {
    return merge(job_, chunk, ranks, now);
  }
  void finish(std::uint32_t chunk) { EXPECT_EQ(merge(chunk, job_.members), server::Merged::kComplete); }
  // Which of the chunks 0..9 the table knows.
  [[nodiscard]] std::vector<std::uint32_t> known() const {
    std::vector<std::uint32_t> chunks;
    for (std::uint32_t c = 0; c < 10; ++c)
      if (table_.knows(job_, Chunk{c})) chunks.push_back(c);
    return chunks;
  }
  using Chunks = std::vector<std::uint32_t>;

  server::MergeJob job_ = merge_job(1, 0xfeed, 5, 3);
  // One line more than the states need, so there is no fourth.
  GuardedTable guarded_{kStates * jobs::entry_lines(kValues) + 1, kValues, kernels::best_kernels()};
  server::MergeTable& table_ = guarded_.table;
};

TEST_F(MergeMemory, CapacityIsWhatTheMemoryHolds) {
  EXPECT_EQ(table_.capacity(), kStates);
  EXPECT_EQ(GuardedTable(0, 16, kernels::best_kernels()).table.capacity(), 0U);
  EXPECT_EQ(GuardedTable(1, 16, kernels::best_kernels()).table.capacity(), 0U);
  EXPECT_EQ(GuardedTable(2, 16, kernels::best_kernels()).table.capacity(), 1U);
  EXPECT_EQ(GuardedTable(140, 2224, kernels::best_kernels()).table.capacity(), 1U);
  EXPECT_EQ(GuardedTable(279, 2224, kernels::best_kernels()).table.capacity(), 1U);
  EXPECT_EQ(GuardedTable(7, 0, kernels::best_kernels()).table.capacity(), 7U);
}

TEST_F(MergeMemory, FullTableGivesUpTheOldestSumFirst) {
  merge(0, 0b001);
  finish(1);
  finish(2);
  EXPECT_EQ(merge(1, 0b001), server::Merged::kKnown);  // being asked for keeps a sum no longer
  EXPECT_EQ(merge(3, 0b001), server::Merged::kHeld);
  EXPECT_EQ(known(), (Chunks{0, 2, 3}));
  EXPECT_EQ(merge(4, 0b001), server::Merged::kHeld);
  EXPECT_EQ(known(), (Chunks{0, 3, 4}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 5, .completed = 2, .incomplete = 3}));
  EXPECT_TRUE(guarded_.intact());
}

TEST_F(MergeMemory, SumsAreGivenUpInTheOrderOfTheirCompletion) {
  for (const std::uint32_t c : {0U, 1U, 2U}) merge(c, 0b001);
  for (const std::uint32_t c : {1U, 2U, 0U}) EXPECT_EQ(merge(c, 0b110), server::Merged::kComplete);
  merge(3, 0b001);
  EXPECT_EQ(known(), (Chunks{0, 2, 3}));
  merge(4, 0b001);
  EXPECT_EQ(known(), (Chunks{0, 3, 4}));
}

// Else those in flight would chase each other out, and none would ever complete.
TEST_F(MergeMemory, WithoutSumsALaterChunkIsForgotten) {
  for (const std::uint32_t c : {4U, 5U, 6U}) merge(c, 0b001);
  EXPECT_EQ(merge(7, 0b001), server::Merged::kHeld);
  EXPECT_EQ(known(), (Chunks{4, 5, 6}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 3, .forgotten = 1, .incomplete = 3}));
  for (const std::uint32_t c : {4U, 5U, 6U}) EXPECT_EQ(merge(c, 0b110), server::Merged::kComplete);
}

// An earlier chunk of the job takes the place of the one that took nothing for longest.
TEST_F(MergeMemory, WithoutSumsALaterChunkGivesWayToAnEarlierOne) {
  for (const std::uint32_t c : {4U, 5U, 6U}) merge(c, 0b001);
  merge(4, 0b010);                                      // took a contribution
  EXPECT_EQ(merge(5, 0b001), server::Merged::kInside);  // took nothing
  merge(3, 0b001);
  EXPECT_EQ(known(), (Chunks{3, 4, 6}));
  merge(2, 0b001);
  EXPECT_EQ(known(), (Chunks{2, 3, 4}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 6, .forgotten = 2, .incomplete = 3}));
}

// Jobs that wait for chunks on other cores would hold what the others need first, crosswise.
TEST_F(MergeMemory, AJobWithoutAStateTakesOneOfAJobThatHasSeveral) {
  const server::MergeJob second = merge_job(2, 0xabcd, 8, 3);
  const server::MergeJob third = merge_job(3, 0xdcba, 9, 3);
  const server::MergeJob fourth = merge_job(4, 0xcafe, 7, 3);
  for (const std::uint32_t c : {4U, 5U, 6U}) merge(c, 0b001);
  merge(second, 9, 0b001);
  merge(third, 9, 0b001);
  EXPECT_EQ(known(), Chunks{6});
  EXPECT_TRUE(table_.knows(second, Chunk{9}));
  EXPECT_TRUE(table_.knows(third, Chunk{9}));
  // Each has one now: there are not more states than jobs, and who has one gets no other.
  merge(fourth, 0, 0b001);
  merge(second, 10, 0b001);
  EXPECT_FALSE(table_.knows(fourth, Chunk{0}));
  EXPECT_FALSE(table_.knows(second, Chunk{10}));
  EXPECT_EQ(merge(second, 9, 0b110), server::Merged::kComplete);
  // What is complete counts for nobody.
  merge(fourth, 0, 0b001);
  EXPECT_TRUE(table_.knows(fourth, Chunk{0}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 7, .completed = 1, .forgotten = 4, .incomplete = 3}));
}

// Its own later chunk, though another job's state took nothing for longer.
TEST_F(MergeMemory, AnEarlierChunkFindsALaterOneOfItsJobBehindOtherJobs) {
  const server::MergeJob second = merge_job(2, 0xabcd, 8, 3);
  merge(second, 0, 0b001);
  merge(5, 0b001);
  merge(6, 0b001);
  merge(3, 0b001);
  EXPECT_EQ(known(), (Chunks{3, 6}));
  EXPECT_TRUE(table_.knows(second, Chunk{0}));
}

TEST_F(MergeMemory, LaterIsSerial) {
  for (const std::uint32_t c : {1U, 2U, 3U}) merge(c, 0b001);
  merge(0xFFFF'FFFFU, 0b001);
  EXPECT_EQ(known(), (Chunks{2, 3}));
  EXPECT_TRUE(table_.knows(job_, Chunk{0xFFFF'FFFFU}));
}

TEST_F(MergeMemory, WhatIsOutdatedGivesWay) {
  for (const std::uint32_t c : {1U, 2U, 3U}) merge(c, 0b001);
  job_.epoch = Epoch{6};
  merge(4, 0b001);
  EXPECT_EQ(known(), Chunks{4});
}

TEST_F(MergeMemory, ForgottenChunkBeginsAfresh) {
  for (const std::uint32_t c : {4U, 5U, 6U, 3U}) merge(c, 0b001);
  for (const std::uint32_t c : {5U, 6U, 3U}) EXPECT_EQ(merge(c, 0b110), server::Merged::kComplete);
  EXPECT_EQ(merge(4, 0b110), server::Merged::kHeld);
  EXPECT_EQ(table_.contributors(job_, Chunk{4}), 0b110U);
  EXPECT_EQ(merge(4, 0b001), server::Merged::kComplete);
}

TEST_F(MergeMemory, FreedMemoryIsTakenBeforeAnythingIsGivenUp) {
  finish(0);
  merge(1, 0b001);
  merge(2, 0b001, 9);
  table_.sweep(9, 1);
  merge(3, 0b001);
  EXPECT_EQ(known(), (Chunks{0, 2, 3}));
  EXPECT_EQ(counted(table_),
            (Counted{.merged = 4, .completed = 1, .aged = 1, .incomplete = 2, .complete = 1}));
}

TEST_F(MergeMemory, EpochChangeClearsIncompleteStatesOnly) {
  finish(0);
  merge(1, 0b001);
  const server::MergeJob old = job_;
  job_.epoch = Epoch{6};
  EXPECT_EQ(known(), Chunks{0});
  EXPECT_EQ(table_.contributors(job_, Chunk{0}), job_.members);
  EXPECT_EQ(table_.contributors(job_, Chunk{1}), 0U);
  EXPECT_EQ(merge(0, 0b001), server::Merged::kKnown);
  EXPECT_EQ(merge(1, 0b010), server::Merged::kHeld);  // in the place of the old one
  EXPECT_EQ(table_.contributors(job_, Chunk{1}), 0b010U);
  EXPECT_FALSE(table_.knows(old, Chunk{1}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 3, .completed = 1, .incomplete = 1, .complete = 1}));
  EXPECT_EQ(merge(1, 0b101), server::Merged::kComplete);
}

TEST_F(MergeMemory, NewGenerationKnowsNothingOfTheOldOne) {
  finish(0);
  merge(1, 0b001);
  const server::MergeJob old = job_;
  job_ = merge_job(1, 0xbeef, 5, 3);
  EXPECT_EQ(known(), Chunks{});
  Packet asker(job_, Chunk{0}, 0b001, 0, kValues);
  EXPECT_FALSE(table_.read(job_, asker.partial));
  EXPECT_EQ(merge(0, 0b100), server::Merged::kHeld);
  EXPECT_EQ(merge(1, 0b110), server::Merged::kHeld);
  EXPECT_FALSE(table_.knows(old, Chunk{0}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 4, .completed = 1, .incomplete = 2}));
  EXPECT_EQ(merge(0, 0b011), server::Merged::kComplete);
  EXPECT_EQ(merge(1, 0b001), server::Merged::kComplete);
}

TEST_F(MergeMemory, OutdatedStateIsNoMismatch) {
  Packet wide(job_, Chunk{0}, 0b001, kValues);
  EXPECT_EQ(table_.merge(job_, wide.partial, 1).merged, server::Merged::kHeld);
  job_.epoch = Epoch{6};
  Packet narrow(job_, Chunk{0}, 0b011, 0);
  EXPECT_EQ(table_.merge(job_, narrow.partial, 1).merged, server::Merged::kHeld);
}

TEST_F(MergeMemory, JobsDoNotShareChunks) {
  const server::MergeJob other = merge_job(2, 0xfeed, 5, 3);
  merge(job_, 7, 0b001);
  merge(other, 7, 0b010);
  EXPECT_EQ(table_.contributors(job_, Chunk{7}), 0b001U);
  EXPECT_EQ(table_.contributors(other, Chunk{7}), 0b010U);
}

TEST_F(MergeMemory, ForgetTakesAllOfOneJobAndNothingElse) {
  const server::MergeJob other = merge_job(2, 0xabcd, 8, 3);
  finish(0);
  merge(other, 0, 0b001);
  merge(1, 0b001);
  table_.forget(job_.id);
  EXPECT_EQ(known(), Chunks{});
  EXPECT_EQ(table_.contributors(other, Chunk{0}), 0b001U);
  EXPECT_EQ(counted(table_), (Counted{.merged = 3, .completed = 1, .incomplete = 1}));
  // The id comes again, even with the words of before.
  EXPECT_EQ(merge(0, 0b010), server::Merged::kHeld);
  EXPECT_EQ(merge(1, 0b010), server::Merged::kHeld);
  EXPECT_EQ(table_.contributors(other, Chunk{0}), 0b001U);
  table_.forget(JobId{3});
  EXPECT_EQ(counted(table_), (Counted{.merged = 5, .completed = 1, .incomplete = 3}));
}

TEST_F(MergeMemory, SweepDropsWhatTookNothingSince) {
  merge(0, 0b001, 10);
  merge(1, 0b001, 20);
  merge(2, 0b001, 30);
  merge(0, 0b010, 40);
  EXPECT_EQ(merge(1, 0b001, 50), server::Merged::kInside);
  table_.sweep(20, 9);
  EXPECT_EQ(known(), (Chunks{0, 1, 2}));
  table_.sweep(31, 1);
  EXPECT_EQ(known(), (Chunks{0, 2}));
  table_.sweep(40, 9);
  EXPECT_EQ(known(), (Chunks{0}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 4, .aged = 2, .incomplete = 1}));
}

TEST_F(MergeMemory, SweepLeavesFinishedSums) {
  finish(0);
  merge(1, 0b001);
  table_.sweep(kNever, 9);
  EXPECT_EQ(known(), Chunks{0});
  EXPECT_EQ(counted(table_), (Counted{.merged = 2, .completed = 1, .aged = 1, .complete = 1}));
}

TEST_F(MergeMemory, TableWithoutMemoryForgetsAtOnce) {
  GuardedTable none(1, kValues, kernels::best_kernels());
  Packet first(job_, Chunk{0}, 0b001, kValues);
  EXPECT_EQ(none.table.merge(job_, first.partial, 1), server::MergeResult{server::Merged::kHeld});
  EXPECT_FALSE(none.table.knows(job_, Chunk{0}));
  EXPECT_EQ(none.table.contributors(job_, Chunk{0}), 0U);
  EXPECT_FALSE(none.table.read(job_, first.partial));
  Packet rest(job_, Chunk{0}, 0b110, kValues);
  EXPECT_EQ(none.table.merge(job_, rest.partial, 2), server::MergeResult{server::Merged::kHeld});
  ++rest.partial.sum.sum2;
  EXPECT_EQ(none.table.merge(job_, rest.partial, 2), server::MergeResult{server::Merged::kBadInput});
  none.table.sweep(kNever, 9);
  none.table.forget(job_.id);
  EXPECT_EQ(counted(none.table), Counted{.forgotten = 2});
  EXPECT_TRUE(none.intact());
}

TEST_F(MergeMemory, PartialLargerThanAnyStateIsForgottenAtOnce) {
  for (std::uint32_t c = 0; c < kStates; ++c) finish(c);
  Packet large(job_, Chunk{3}, 0b001, kValues + 16);
  EXPECT_EQ(table_.merge(job_, large.partial, 1), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(known(), (Chunks{0, 1, 2}));
  EXPECT_EQ(counted(table_), (Counted{.merged = 3, .completed = 3, .forgotten = 1, .complete = 3}));
  EXPECT_TRUE(guarded_.intact());
}

TEST_F(MergeMemory, OneStateServesChunkAfterChunk) {
  GuardedTable one(jobs::entry_lines(kValues), kValues, kernels::best_kernels());
  for (std::uint32_t c = 0; c < 1000; ++c) {
    for (const std::uint64_t ranks : {0b010U, 0b101U}) {
      Packet p(job_, Chunk{c}, ranks, kValues);
      one.table.merge(job_, p.partial, c);
    }
    ASSERT_EQ(one.table.contributors(job_, Chunk{c}), job_.members);
  }
  EXPECT_EQ(counted(one.table), (Counted{.merged = 2000, .completed = 1000, .complete = 1}));
  EXPECT_TRUE(one.intact());
}

TEST(ServerMemory, DiscardForgetsOneChunk) {
  const server::MergeJob job = merge_job(1, 77, 5, 2);
  GuardedTable memory(2 * jobs::entry_lines(16), 16, kernels::best_kernels());
  server::MergeTable& table = memory.table;
  for (const Chunk chunk : {Chunk{3}, Chunk{4}}) {
    Packet p(job, chunk, 1, 16);
    EXPECT_EQ(table.merge(job, p.partial, 1).merged, server::Merged::kHeld);
  }
  EXPECT_TRUE(table.discard(job, Chunk{3}));
  EXPECT_FALSE(table.discard(job, Chunk{3}));
  EXPECT_FALSE(table.knows(job, Chunk{3}));
  EXPECT_TRUE(table.knows(job, Chunk{4}));
  Packet last(job, Chunk{4}, 2, 16);
  EXPECT_EQ(table.merge(job, last.partial, 1).merged, server::Merged::kComplete);
  EXPECT_TRUE(table.discard(job, Chunk{4}));
  EXPECT_EQ(counted(table), (Counted{.merged = 3, .completed = 1}));
  EXPECT_TRUE(memory.intact());
}

TEST(ServerMemory, AStateKeepsItsNumberUntilItIsGone) {
  const server::MergeJob job = merge_job(1, 77, 5, 3);
  GuardedTable memory(3 * jobs::entry_lines(16), 16, kernels::best_kernels());
  server::MergeTable& table = memory.table;
  EXPECT_EQ(table.state_of(job, Chunk{3}), server::kNoState);
  for (const Chunk chunk : {Chunk{3}, Chunk{4}, Chunk{5}}) {
    Packet p(job, chunk, 1, 16);
    (void)table.merge(job, p.partial, 1);
  }
  const server::StateIndex at = table.state_of(job, Chunk{3});
  EXPECT_LT(at, table.capacity());
  EXPECT_NE(at, table.state_of(job, Chunk{4}));
  Packet second(job, Chunk{3}, 2, 16);
  (void)table.merge(job, second.partial, 2);
  EXPECT_EQ(table.state_of(job, Chunk{3}), at);
  Packet whole(job, Chunk{3}, 7, 16);
  (void)table.merge(job, whole.partial, 2);
  EXPECT_EQ(table.state_of(job, Chunk{3}), at) << "also complete";
  Packet newcomer(job, Chunk{6}, 1, 16);
  (void)table.merge(job, newcomer.partial, 3);
  EXPECT_EQ(table.state_of(job, Chunk{3}), server::kNoState);
  EXPECT_EQ(table.state_of(job, Chunk{6}), at);
  server::MergeJob next = job;
  next.epoch = Epoch{6};
  EXPECT_EQ(table.state_of(next, Chunk{4}), server::kNoState) << "of another epoch";
}

TEST(ServerMemory, TheEndOfAnEpochTakesOneJobsStates) {
  const server::MergeJob a = merge_job(1, 77, 5, 2);
  const server::MergeJob b = merge_job(2, 78, 6, 2);
  GuardedTable memory(6 * jobs::entry_lines(16), 16, kernels::best_kernels());
  server::MergeTable& table = memory.table;
  for (const server::MergeJob& job : {a, b}) {
    for (const Chunk chunk : {Chunk{1}, Chunk{2}, Chunk{3}}) {
      Packet p(job, chunk, chunk == Chunk{2} ? 3 : 1, 16);
      (void)table.merge(job, p.partial, 1);
    }
  }
  table.forget(a.id);
  for (const Chunk chunk : {Chunk{1}, Chunk{2}, Chunk{3}}) {
    EXPECT_FALSE(table.knows(a, chunk));
    EXPECT_TRUE(table.knows(b, chunk));
  }
  EXPECT_EQ(table.contributors(b, Chunk{2}), b.members);
  EXPECT_EQ(table.counters().incomplete, 2U);
  EXPECT_EQ(table.counters().complete, 1U);
}

}  // namespace
}  // namespace tally
