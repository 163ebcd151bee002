// INCOMPLETE results, rule by rule, in both executions: when an entry is due, whom its result names, and what
// becomes of those who come late.

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/pool.h"
#include "shared_core.h"

namespace tally {
namespace {

constexpr TimeNs kTimeout = 50 * kMillisecond;

template <class Exec>
class StragglerCore : public SharedCore<Exec> {
 protected:
  // A job of the pool discipline in front of two shared entries that nobody uses.
  jobs::NativeJob late_job(JobSpec spec = {}, std::uint8_t least = 1, Chunk fence = {}) {
    this->start(2);
    spec.world = spec.world == 2 ? 3 : spec.world;
    spec.stragglers = {jobs::stamp(kTimeout), least, fence};
    return this->publish(spec);
  }
  void wait(TimeNs time) { this->now_ += time; }
  // Every entry has its turn; what is due is finished, one after the other.
  std::vector<Bytes> sweep_all() {
    std::vector<Bytes> results;
    for (int looks = 0; looks < 200; ++looks) {
      if (!this->pipeline_->aged(this->now_)) continue;
      Bytes room(kHeaderBytes + 4 * kMaxElements);
      last_ = this->pipeline_->sweep(room, this->now_);
      if (last_.verdict == Verdict::kDrop) continue;
      results.emplace_back(last_.payload, last_.payload + last_.payload_bytes);
    }
    return results;
  }
  // Names exactly these ranks, and each value is the sum of theirs.
  static void expect_sum(const Bytes& result, const jobs::NativeJob& job, Chunk chunk, std::uint64_t ranks) {
    const Header h = header_of(result);
    EXPECT_EQ(h.type, PacketType::kResult);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.contributors.host(), ranks);
    EXPECT_EQ((h.flags & kFlagIncomplete) != 0, ranks != job.members);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
    EXPECT_TRUE(h.before() == 0 || (h.flags & kFlagRetransmit) == 0);
    std::uint32_t sum = 0;
    std::uint32_t sum2 = 0;
    for (std::uint32_t r = 0; r < job.world; ++r)
      if ((ranks >> r & 1) != 0) sum += static_cast<std::uint32_t>(value_of(r, chunk));
    ASSERT_EQ(result.size(), kHeaderBytes + 4U * 16);
    for (std::uint32_t i = 0; i < 16; ++i) {
      Be<std::uint32_t> value;
      std::memcpy(&value, result.data() + kHeaderBytes + std::size_t{4} * i, sizeof value);
      EXPECT_EQ(value.host(), sum);
      sum2 += (i + 1) * sum;
    }
    EXPECT_EQ(h.sum1.host(), 16 * sum + keyed(jobs::keys_of(job, ranks), chunk));
    EXPECT_EQ(h.sum2.host(), sum2);
  }
  static Bytes bytes_of(const pipeline::Outcome& out) {
    return {out.payload, out.payload + out.payload_bytes};
  }
  void give(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk, Verdict expected) {
    const pipeline::Outcome out = this->send(job, rank, chunk, {.total = 16});
    EXPECT_EQ(out.verdict, expected) << name_of(out.verdict) << " " << name_of(out.drop);
  }

  pipeline::Outcome last_;
};
TYPED_TEST_SUITE(StragglerCore, BothExecutions);

TYPED_TEST(StragglerCore, an_entry_is_due_at_its_timeout_and_not_before) {
  const jobs::NativeJob job = this->late_job();
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->wait(kTimeout / 2);
  this->give(job, 2, Chunk{0}, Verdict::kAbsorb);  // the age counts from the claim
  this->wait(kTimeout / 2 - 2 * 1024);
  EXPECT_TRUE(this->sweep_all().empty());
  EXPECT_EQ(this->occupancy(job), 1U);
  this->wait(4 * 1024);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 1U);
  this->expect_sum(results[0], job, Chunk{0}, 0b101);
  EXPECT_EQ(this->last_.verdict, Verdict::kComplete);
  EXPECT_EQ(this->last_.ranks, job.members) << "also those who are not in it";
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.incomplete, 1U);
  EXPECT_TRUE(this->sweep_all().empty()) << "once";
}

TYPED_TEST(StragglerCore, fewer_than_the_least_wait_for_more) {
  const jobs::NativeJob job = this->late_job({}, 2);
  this->give(job, 1, Chunk{0}, Verdict::kAbsorb);
  this->wait(10 * kTimeout);
  EXPECT_TRUE(this->sweep_all().empty());
  this->give(job, 2, Chunk{0}, Verdict::kAbsorb);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 1U);
  this->expect_sum(results[0], job, Chunk{0}, 0b110);
}

// A member may hold the result of an earlier epoch for whatever lies before the fence.
TYPED_TEST(StragglerCore, a_chunk_before_the_fence_waits_for_everybody) {
  const Chunk fence{0xFFFF'FFFEU};
  const jobs::NativeJob job = this->late_job({}, 1, fence);
  for (std::uint32_t i = 0; i < 4; ++i) this->give(job, 0, fence + i - 2U, Verdict::kAbsorb);
  this->wait(10 * kTimeout);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(this->occupancy(job), 2U);
  for (const Bytes& result : results) EXPECT_GE(serial_difference(header_of(result).chunk_id(), fence), 0);
  this->give(job, 1, fence - 1U, Verdict::kAbsorb);
  this->give(job, 2, fence - 1U, Verdict::kComplete);
}

TYPED_TEST(StragglerCore, late_contributors_get_the_stored_result_and_are_never_added) {
  const jobs::NativeJob job = this->late_job();
  this->give(job, 0, Chunk{5}, Verdict::kAbsorb);
  this->give(job, 1, Chunk{5}, Verdict::kAbsorb);
  this->wait(kTimeout);
  ASSERT_EQ(this->sweep_all().size(), 1U);
  for (const std::uint32_t rank : {2U, 0U, 2U, 1U}) {  // the straggler, a repetition, and so on
    const pipeline::Outcome out = this->send(job, rank, Chunk{5}, {.total = 16});
    ASSERT_EQ(out.verdict, Verdict::kRepeat) << rank;
    EXPECT_EQ(out.ranks, bit_of(Rank{static_cast<std::uint16_t>(rank)}));
    this->expect_sum(this->bytes_of(out), job, Chunk{5}, 0b011);
    EXPECT_EQ(header_of(this->bytes_of(out)).flags, kFlagRetransmit | kFlagIncomplete);
  }
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->pipeline_->counters(job.id).of(Verdict::kComplete), 0U);
}

TYPED_TEST(StragglerCore, a_duplicate_is_no_second_contributor) {
  const jobs::NativeJob job = this->late_job({}, 2);
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->give(job, 0, Chunk{0}, Verdict::kDrop);
  EXPECT_EQ(this->pipeline_->counters(job.id).of(Drop::kDuplicate), 1U);
  this->wait(10 * kTimeout);
  EXPECT_TRUE(this->sweep_all().empty());
}

TYPED_TEST(StragglerCore, a_query_is_answered_with_the_incomplete_result) {
  const jobs::NativeJob job = this->late_job();
  this->give(job, 1, Chunk{3}, Verdict::kAbsorb);
  this->wait(kTimeout);
  ASSERT_EQ(this->sweep_all().size(), 1U);
  const pipeline::Outcome out = this->take(job, 2, make_query(job, Rank{2}, Chunk{3}, Rank{0}));
  ASSERT_EQ(out.verdict, Verdict::kRepeat);
  this->expect_sum(this->bytes_of(out), job, Chunk{3}, 0b010);
}

// The next chunk of the entry starts afresh: with a time of its own, and nobody missing.
TYPED_TEST(StragglerCore, the_entry_s_next_chunk_remembers_nothing) {
  const jobs::NativeJob job = this->late_job();
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->wait(kTimeout);
  ASSERT_EQ(this->sweep_all().size(), 1U);
  for (std::uint32_t r = 0; r < 3; ++r)  // the numbers go on by less than a span
    this->give(job, r, Chunk{16}, r == 2 ? Verdict::kComplete : Verdict::kAbsorb);
  const Chunk next{32};
  this->give(job, 0, next, Verdict::kAbsorb);
  EXPECT_EQ(this->occupancy(job), 1U);
  this->wait(kTimeout / 2);
  EXPECT_TRUE(this->sweep_all().empty());
  this->give(job, 1, next, Verdict::kAbsorb);
  const pipeline::Outcome whole = this->send(job, 2, next, {.total = 16});
  ASSERT_EQ(whole.verdict, Verdict::kComplete);
  this->expect_sum(this->bytes_of(whole), job, next, job.members);
  const pipeline::Outcome again = this->send(job, 0, next, {.total = 16});
  ASSERT_EQ(again.verdict, Verdict::kRepeat);
  this->expect_sum(this->bytes_of(again), job, next, job.members);
  this->give(job, 2, Chunk{0}, Verdict::kDrop);  // stale: peers have the result
}

// A barrier says that everybody came. Nothing else has a total of 0.
TYPED_TEST(StragglerCore, a_barrier_waits_for_everybody) {
  const jobs::NativeJob job = this->late_job();
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.total = 0}).verdict, Verdict::kAbsorb);
  this->wait(10 * kTimeout);
  EXPECT_TRUE(this->sweep_all().empty());
  EXPECT_EQ(this->occupancy(job), 1U);
}

TYPED_TEST(StragglerCore, jobs_that_did_not_opt_in_wait_for_ever) {
  this->start(2);
  const jobs::NativeJob job = this->publish({.world = 3});
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->wait(3600 * kSecond);
  EXPECT_TRUE(this->sweep_all().empty());
}

// What is of an earlier epoch is nobody's result any more, however long it has waited.
TYPED_TEST(StragglerCore, an_entry_of_an_epoch_that_is_over_is_left_alone) {
  const jobs::NativeJob old_job = this->late_job();
  this->give(old_job, 0, Chunk{0}, Verdict::kAbsorb);
  jobs::NativeJob job = old_job;
  job.epoch = Epoch{raw(old_job.epoch) + 1};
  this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
  this->wait(10 * kTimeout);
  EXPECT_TRUE(this->sweep_all().empty());
  EXPECT_EQ(this->occupancy(job), 1U) << "until somebody claims it";
}

// A port vouched for a corrupted contribution: the finished sum is wrong, nothing leaves, all start again.
TYPED_TEST(StragglerCore, a_wrong_sum_frees_the_entry_and_is_counted) {
  const jobs::NativeJob job = this->late_job();
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.total = 16, .corrupt = true}).verdict, Verdict::kAbsorb);
  this->wait(kTimeout);
  EXPECT_TRUE(this->sweep_all().empty());
  EXPECT_EQ(this->state(job).slots.incomplete_bad, 1U);
  EXPECT_EQ(this->state(job).slots.incomplete, 0U);
  EXPECT_EQ(this->occupancy(job), 0U);
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  EXPECT_EQ(this->occupancy(job), 1U);
  this->wait(kTimeout);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 1U);
  this->expect_sum(results[0], job, Chunk{0}, 0b001);
}

// A straggler with other sizes is named beside those who are in the result, not beside itself.
// With a window smaller than the generation's largest the span reaches further back than two windows.
TYPED_TEST(StragglerCore, a_chunk_that_has_a_result_is_not_begun_again_in_an_entry_that_a_bad_sum_freed) {
  jobs::NativeJob job = this->late_job();
  job.span = 4 * job.window;
  this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->give(job, 1, Chunk{0}, Verdict::kAbsorb);
  this->wait(kTimeout + kMillisecond);
  ASSERT_EQ(this->sweep_all().size(), 1U);
  const Chunk next{2 * job.window};  // of the same entry
  this->give(job, 0, next, Verdict::kAbsorb);
  this->give(job, 1, next, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 2, next, {.total = 16, .corrupt = true}).drop, Drop::kBadSum);
  EXPECT_EQ(this->send(job, 2, Chunk{0}, {.total = 16}).drop, Drop::kStale);
  EXPECT_EQ(this->occupancy(job), 0U);
}

// Deep in one job's entries when that job goes: the same place would be behind the end of the next one's.
TEST(LateSweep, looks_at_nothing_outside_the_job_s_range_after_the_jobs_change) {
  const jobs::Stragglers late{jobs::stamp(kTimeout), 1, Chunk{}};
  const jobs::NativeJob first = make_job({.id = 1, .window = 64, .stragglers = late});
  const jobs::NativeJob second = make_job({.id = 2, .first_line = first.slots.count, .stragglers = late});
  const auto only_second = jobs::JobTable{}.with(second.id, std::make_shared<const jobs::NativeJob>(second));
  const auto both = only_second->with(first.id, std::make_shared<const jobs::NativeJob>(first));
  pipeline::LateSweep sweep;
  sweep.adopt(both.get());
  for (std::uint32_t i = 0; i < second.slots.count; ++i) ASSERT_TRUE(sweep.step());
  sweep.adopt(only_second.get());
  EXPECT_EQ(sweep.line(), second.slots.first);
}

TYPED_TEST(StragglerCore, the_sweep_begins_anew_when_the_jobs_change) {
  this->start(2);
  const jobs::Stragglers late{jobs::stamp(kTimeout), 1, Chunk{}};
  JobSpec large{.id = 1, .world = 3, .window = 64};
  large.stragglers = late;
  const jobs::NativeJob first = this->publish(large);
  JobSpec small{.id = 5, .world = 3};
  small.stragglers = late;
  const jobs::NativeJob second = this->publish(small);
  this->give(first, 0, Chunk{0}, Verdict::kAbsorb);
  for (int looks = 0; looks < 10; ++looks)
    EXPECT_FALSE(this->pipeline_->aged(this->now_));  // deep in the first
  this->give(second, 0, Chunk{0}, Verdict::kAbsorb);
  this->remove(first);
  this->wait(kTimeout + kMillisecond);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 1U);
  this->expect_sum(results[0], second, Chunk{0}, 0b001);
}

TYPED_TEST(StragglerCore, a_late_mismatch_names_those_who_came) {
  const jobs::NativeJob job = this->late_job();
  this->give(job, 0, Chunk{0}, Verdict::kAbsorb);
  this->wait(kTimeout);
  ASSERT_EQ(this->sweep_all().size(), 1U);
  EXPECT_EQ(this->send(job, 2, Chunk{0}, {.total = 15}).drop, Drop::kMismatch);
  const auto event = this->pipeline_->events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->rank, Rank{2});
  EXPECT_EQ(event->others, 0b001U);
}

// ANSWER: some ranks, or nobody and no values; sums with the keys of those it names.
TYPED_TEST(StragglerCore, an_answer_may_lack_ranks) {
  const jobs::NativeJob job = this->late_job({.world = 4}, 2);
  const auto answer = [&](std::uint64_t ranks, std::uint8_t flags, std::uint32_t n = 16) {
    Bytes out = make_contribution(job, {.rank = Rank{1}, .chunk = Chunk{7}, .values = {}, .total = 16});
    Header h = header_of(out);
    h.type = PacketType::kAnswer;
    h.flags = flags;
    h.slot = Be<std::uint32_t>{3};
    h.contributors = Be{ranks};
    h.elements = Be{static_cast<std::uint16_t>(n)};
    h.sum1 = Be{keyed(jobs::keys_of(job, ranks), Chunk{7})};
    h.sum2 = Be<std::uint32_t>{0};
    out.resize(kHeaderBytes + std::size_t{4} * n);
    set_header(out, h);
    return this->take(job, 1, out);
  };
  const pipeline::Outcome out = answer(0b0011, kFlagIncomplete);
  ASSERT_EQ(out.verdict, Verdict::kRelay);
  EXPECT_EQ(out.to, Rank{3});
  EXPECT_EQ(header_of(this->bytes_of(out)).contributors.host(), 0b0011U);
  EXPECT_EQ(header_of(this->bytes_of(out)).flags, kFlagRetransmit | kFlagIncomplete);
  const pipeline::Outcome gone = answer(0, kFlagIncomplete, 0);
  ASSERT_EQ(gone.verdict, Verdict::kRelay);
  EXPECT_EQ(header_of(this->bytes_of(gone)).contributors.host(), 0U);
  EXPECT_EQ(answer(0b1111, 0).verdict, Verdict::kRelay);
  EXPECT_EQ(answer(0, kFlagIncomplete, 16).drop, Drop::kContributors);
  EXPECT_EQ(answer(0b0001, kFlagIncomplete).verdict, Verdict::kRelay) << "the least may have been less";
  EXPECT_EQ(answer(0b1111, kFlagIncomplete).drop, Drop::kContributors);
  EXPECT_EQ(answer(0b1'0011, kFlagIncomplete).drop, Drop::kContributors);
  EXPECT_EQ(answer(0b0011, 0).drop, Drop::kContributors);
}

// All 64 ranks but one, of both halves of the bitmap.
TYPED_TEST(StragglerCore, of_64_ranks) {
  const jobs::NativeJob job = this->late_job({.world = 64}, 63);
  for (std::uint32_t r = 0; r < 64; ++r)
    if (r != 63) this->give(job, r, Chunk{1}, Verdict::kAbsorb);
  this->wait(kTimeout);
  const auto results = this->sweep_all();
  ASSERT_EQ(results.size(), 1U);
  this->expect_sum(results[0], job, Chunk{1}, ~std::uint64_t{0} >> 1);
}

}  // namespace
}  // namespace tally
