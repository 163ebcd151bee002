// The merge rules: what a Partial does to the state of its chunk, and what becomes of the Partial.
#include <algorithm>

#include "server_support.h"

namespace tally {
namespace {

constexpr std::uint16_t kElements = 48;
constexpr Chunk kChunk{0xFFFF'FFFE};

class MergeRules : public KernelsTest {
 protected:
  server::MergeResult merge(Packet& p) {
    const server::MergeResult r = table_.merge(job_, p.partial, 1);
    EXPECT_TRUE(p.intact());
    EXPECT_TRUE(guarded_.intact());
    return r;
  }
  server::MergeResult merge(std::uint64_t ranks) {
    Packet p(job_, kChunk, ranks, kElements);
    return merge(p);
  }
  [[nodiscard]] std::uint64_t held() const { return table_.contributors(job_, kChunk); }
  // The last ranks arrive; their Partial must become the sum of all.
  void expect_finished_by(std::uint64_t ranks) {
    Packet p(job_, kChunk, ranks, kElements);
    EXPECT_EQ(merge(p), server::MergeResult{server::Merged::kComplete});
    EXPECT_TRUE(same_sum(p, sum_of_all()));
    EXPECT_EQ(p.partial.contributors, job_.members);
    EXPECT_EQ(p.partial.keys, job_.key_sum);
  }
  [[nodiscard]] Packet sum_of_all() const { return {job_, kChunk, job_.members, kElements}; }

  server::MergeJob job_ = merge_job(3, 0x1234'5678'9abc'def0, 77, 6);
  GuardedTable guarded_{8 * jobs::entry_lines(kElements), kElements, kernels_};
  server::MergeTable& table_ = guarded_.table;
};

TEST_P(MergeRules, ContributionsAddUpToTheSum) {
  for (std::uint64_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(merge(std::uint64_t{1} << rank), server::MergeResult{server::Merged::kHeld});
    EXPECT_EQ(held(), members_of(static_cast<std::uint32_t>(rank) + 1));
    EXPECT_TRUE(table_.knows(job_, kChunk));
  }
  expect_finished_by(0b100000);
  EXPECT_EQ(held(), job_.members);
  EXPECT_EQ(counted(table_), (Counted{.merged = 6, .completed = 1, .complete = 1}));
}

TEST_P(MergeRules, DisjointPartialsAdd) {
  EXPECT_EQ(merge(0b001010), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(merge(0b010001), server::MergeResult{server::Merged::kHeld});
  expect_finished_by(0b100100);
}

TEST_P(MergeRules, PartialThatContainsTheStateReplacesIt) {
  EXPECT_EQ(merge(0b000010), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(merge(0b001110), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(held(), 0b001110U);
  expect_finished_by(0b110001);
  EXPECT_EQ(counted(table_), (Counted{.merged = 3, .completed = 1, .complete = 1}));
}

TEST_P(MergeRules, PartialOfAllFinishesAtOnce) {
  expect_finished_by(job_.members);
  EXPECT_EQ(counted(table_), (Counted{.merged = 1, .completed = 1, .complete = 1}));
}

TEST_P(MergeRules, PartialOfAllReplacesWhatWasThere) {
  EXPECT_EQ(merge(0b010010), server::MergeResult{server::Merged::kHeld});
  expect_finished_by(job_.members);
}

TEST_P(MergeRules, PartialInsideTheStateIsIgnored) {
  EXPECT_EQ(merge(0b001110), server::MergeResult{server::Merged::kHeld});
  for (const std::uint64_t inside : {0b000010U, 0b001100U, 0b001110U}) {
    Packet p(job_, kChunk, inside, kElements);
    EXPECT_EQ(merge(p), server::MergeResult{server::Merged::kInside});
    EXPECT_TRUE(same_sum(p, Packet(job_, kChunk, inside, kElements)));
  }
  EXPECT_EQ(counted(table_), (Counted{.merged = 1, .incomplete = 1}));
  expect_finished_by(0b110001);
}

TEST_P(MergeRules, OverlapKeepsTheStateAndNamesWhoWouldHelp) {
  EXPECT_EQ(merge(0b000111), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(merge(0b011100), (server::MergeResult{.merged = server::Merged::kOverlap, .missing = 0b011000}));
  EXPECT_EQ(merge(0b111110), (server::MergeResult{.merged = server::Merged::kOverlap, .missing = 0b111000}));
  EXPECT_EQ(held(), 0b000111U);
  EXPECT_EQ(counted(table_), (Counted{.merged = 1, .incomplete = 1}));
  EXPECT_EQ(merge(0b011000), server::MergeResult{server::Merged::kHeld});
  expect_finished_by(0b100000);
}

TEST_P(MergeRules, CompleteStateAnswersWhoeverComes) {
  expect_finished_by(job_.members);
  for (const std::uint64_t asker : {std::uint64_t{0b000100}, std::uint64_t{0b110100}, job_.members}) {
    Packet p(job_, kChunk, asker, kElements);
    EXPECT_EQ(merge(p), server::MergeResult{server::Merged::kKnown});
    EXPECT_TRUE(same_sum(p, sum_of_all()));
    EXPECT_EQ(p.partial.contributors, asker);
    EXPECT_EQ(p.partial.keys, keys_of(job_.generation, asker));
  }
  EXPECT_EQ(counted(table_), (Counted{.merged = 1, .completed = 1, .complete = 1}));
}

TEST_P(MergeRules, MismatchTellsWhatIsHeldAndChangesNothing) {
  EXPECT_EQ(merge(0b000110), server::MergeResult{server::Merged::kHeld});
  const jobs::Shape stored = Packet(job_, kChunk, 1, kElements).partial.sum.shape;
  const auto expect_mismatch = [&](Packet& p, std::uint64_t held) {
    EXPECT_EQ(merge(p),
              (server::MergeResult{.merged = server::Merged::kMismatch, .held = held, .stored = stored}));
  };
  Packet elements(job_, kChunk, 0b1000, 32);
  elements.partial.sum.shape.total = stored.total;
  Packet total(job_, kChunk, 0b1000, kElements);
  ++total.partial.sum.shape.total;
  Packet dtype(job_, kChunk, 0b0010, kElements);
  dtype.partial.sum.shape.dtype = 1;
  for (Packet* p : {&elements, &total, &dtype}) expect_mismatch(*p, 0b000110);
  expect_finished_by(0b111001);
  for (Packet* p : {&elements, &total, &dtype}) expect_mismatch(*p, job_.members);
  EXPECT_EQ(counted(table_), (Counted{.merged = 2, .completed = 1, .complete = 1}));
}

TEST_P(MergeRules, BadInputChangesNothing) {
  const auto expect_refused = [&](std::uint64_t ranks) {
    Packet sum1(job_, kChunk, ranks, kElements);
    ++sum1.partial.sum.sum1;
    Packet sum2(job_, kChunk, ranks, kElements);
    --sum2.partial.sum.sum2;
    Packet key(job_, kChunk, ranks, kElements);  // of another rank
    key.partial.keys += 2;
    Packet value(job_, kChunk, ranks, kElements);
    value.partial.values[4 * kElements - 1] ^= std::byte{1};
    Packet swapped(job_, kChunk, ranks, kElements);  // sum1 alone would not see it
    std::swap_ranges(swapped.partial.values, swapped.partial.values + 4, swapped.partial.values + 64);
    Packet elsewhere(job_, kChunk, ranks, kElements);  // the contribution of another chunk
    elsewhere.partial.chunk = kChunk + 1;
    for (Packet* p : {&sum1, &sum2, &key, &value, &swapped, &elsewhere}) {
      EXPECT_EQ(merge(*p), server::MergeResult{server::Merged::kBadInput});
    }
    EXPECT_FALSE(table_.knows(job_, kChunk + 1));
  };
  expect_refused(0b000001);
  EXPECT_FALSE(table_.knows(job_, kChunk));
  EXPECT_EQ(counted(table_), Counted{});
  EXPECT_EQ(merge(0b000001), server::MergeResult{server::Merged::kHeld});
  for (const std::uint64_t ranks : {0b000001U, 0b000010U, 0b000011U, 0b111110U}) expect_refused(ranks);
  EXPECT_EQ(held(), 0b000001U);
  expect_finished_by(0b111110);
  expect_refused(0b000001);
}

TEST_P(MergeRules, FinishedSumWithAWrongKeyIsGone) {
  job_.key_sum += 2;  // a contribution counted twice or missing shows like this
  EXPECT_EQ(merge(0b000111), server::MergeResult{server::Merged::kHeld});
  EXPECT_EQ(merge(0b111000), server::MergeResult{server::Merged::kBadSum});
  EXPECT_FALSE(table_.knows(job_, kChunk));
  EXPECT_EQ(counted(table_), Counted{.merged = 2});
  EXPECT_EQ(merge(job_.members), server::MergeResult{server::Merged::kBadSum});
  EXPECT_EQ(counted(table_), Counted{.merged = 3});
  job_.key_sum -= 2;
  EXPECT_EQ(merge(0b000111), server::MergeResult{server::Merged::kHeld});
  expect_finished_by(0b111000);
}

TEST_P(MergeRules, WithoutRoomTheSumWaitsForAQuery) {
  EXPECT_EQ(merge(0b000111), server::MergeResult{server::Merged::kHeld});
  Packet last(job_, kChunk, 0b111000, kElements, kElements - 16);
  EXPECT_EQ(merge(last), server::MergeResult{server::Merged::kNoRoom});
  EXPECT_TRUE(same_sum(last, Packet(job_, kChunk, 0b111000, kElements)));
  EXPECT_EQ(held(), job_.members);
  Packet late(job_, kChunk, 0b000001, kElements, 0);
  EXPECT_EQ(merge(late), server::MergeResult{server::Merged::kNoRoom});
  EXPECT_TRUE(same_sum(late, Packet(job_, kChunk, 0b000001, kElements)));
  EXPECT_FALSE(table_.read(job_, late.partial));
  EXPECT_EQ(counted(table_), (Counted{.merged = 2, .completed = 1, .complete = 1}));
  Packet asker(job_, kChunk, 0b000001, 0, kElements);
  EXPECT_TRUE(table_.read(job_, asker.partial));
  EXPECT_TRUE(same_sum(asker, sum_of_all()));
}

TEST_P(MergeRules, WithoutRoomABadSumIsFoundToo) {
  job_.key_sum ^= 2;
  EXPECT_EQ(merge(0b000111), server::MergeResult{server::Merged::kHeld});
  Packet last(job_, kChunk, 0b111000, kElements, 0);
  EXPECT_EQ(merge(last), server::MergeResult{server::Merged::kBadSum});
  EXPECT_FALSE(table_.knows(job_, kChunk));
}

TEST_P(MergeRules, ReadGivesCompleteSumsOnly) {
  Packet asker(job_, kChunk, 0b000010, 0, kElements);
  EXPECT_FALSE(table_.read(job_, asker.partial));
  merge(0b011111);
  EXPECT_FALSE(table_.read(job_, asker.partial));
  EXPECT_EQ(asker.partial.sum.shape.elements, 0);
  merge(0b100000);
  EXPECT_TRUE(table_.read(job_, asker.partial));
  EXPECT_TRUE(same_sum(asker, sum_of_all()));
  EXPECT_EQ(asker.partial.contributors, 0b000010U);
}

TEST_P(MergeRules, ChunkWithoutElementsCarriesTheExponent) {
  const auto exponent_only = [&](std::uint64_t ranks) {
    Packet p(job_, kChunk, ranks, 0);
    const server::MergeResult r = merge(p);
    return std::pair{r.merged, p.partial.sum.exponent};
  };
  EXPECT_EQ(exponent_only(0b001111).first, server::Merged::kHeld);
  EXPECT_EQ(exponent_only(0b110000),
            std::pair(server::Merged::kComplete, Packet(job_, kChunk, job_.members, 0).partial.sum.exponent));
}

TEST_P(MergeRules, SixtyFourRanksAndLargestExponentOfAny) {
  job_ = merge_job(1, 9, 1, 64);
  for (std::uint64_t rank = 0; rank < 63; ++rank)
    ASSERT_EQ(merge(std::uint64_t{1} << rank), server::MergeResult{server::Merged::kHeld});
  expect_finished_by(std::uint64_t{1} << 63);
}

INSTANTIATE_TEST_SUITE_P(Server, MergeRules, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally
