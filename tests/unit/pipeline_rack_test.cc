// Jobs of racks at a rack's box, rule by rule, in both executions (docs/protocol_racks.md, 18.3): what goes to the parent,
// and what comes of its RESULTs.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "pipeline/racks.h"
#include "rack_core.h"

namespace tally {
namespace {

TYPED_TEST_SUITE(RackCore, BothExecutions);

TYPED_TEST(RackCore, the_last_of_the_rack_sends_its_sum_to_the_parent) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->expect_up(this->give_all(job), job, 1);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.above, 1U);
  this->expect_up(this->give_all(job, Chunk{6}), job, 2, 0, Chunk{6});
}

TYPED_TEST(RackCore, the_parents_result_completes_the_entry_and_goes_to_all_ranks) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->give_all(job);
  this->wait();
  this->expect_down(this->from_parent(this->result_of(job, {})), Verdict::kComplete, job, job.members, 0);
  EXPECT_EQ(this->state(job).parent_seen, this->now_);
  // From then on it is stored like any result.
  for (const std::uint32_t rank : {0U, 2U})
    this->expect_down(this->give(job, rank), Verdict::kRepeat, job, 1U << rank, kFlagRetransmit);
  this->expect_down(this->take(job, 1, make_query(job, Rank{1}, kSome)), Verdict::kRepeat, job, 0b010,
                    kFlagRetransmit);
  EXPECT_EQ(this->from_parent(this->result_of(job, {})).drop, Drop::kDuplicate);
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(RackCore, a_rack_of_one_has_an_entry_too) {
  const jobs::NativeJob job = this->rack_job({.world = 1});
  this->expect_up(this->give(job, 0), job, 1);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->give(job, 0).drop, Drop::kDuplicate) << "not yet";
  this->wait();
  this->expect_up(this->give(job, 0), job, 2, kFlagRetransmit);
  this->expect_down(this->from_parent(this->result_of(job, {})), Verdict::kComplete, job, 1, 0);
  this->expect_down(this->give(job, 0), Verdict::kRepeat, job, 1, kFlagRetransmit);
  EXPECT_EQ(this->give(job, 0, Chunk{6}, {.corrupt = true}).drop, Drop::kSum)
      << "though the port has vouched";
  this->expect_up(this->give(job, 0, Chunk{6}), job, 3, 0, Chunk{6});
}

TYPED_TEST(RackCore, what_comes_again_to_a_local_entry_makes_its_sum_leave_again_once_in_a_millisecond) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->give_all(job);
  this->wait(kMillisecond / 2);
  for (const std::uint32_t rank : {0U, 1U, 2U}) EXPECT_EQ(this->give(job, rank).drop, Drop::kDuplicate);
  this->wait(kMillisecond);
  this->expect_up(this->give(job, 1), job, 2, kFlagRetransmit);
  EXPECT_EQ(this->give(job, 0).drop, Drop::kDuplicate) << "the others' timers, at the same time";
  this->wait();
  this->expect_up(this->give(job, 0), job, 3, kFlagRetransmit);
  EXPECT_EQ(this->state(job).slots.above, 1U);
  EXPECT_EQ(this->state(job).slots.above_again, 2U);
  EXPECT_EQ(this->state(job).last_seen[0].get() == this->now_, false) << "a repetition renews no lease";
}

TYPED_TEST(RackCore, a_question_to_a_local_entry_is_answered_and_makes_its_sum_leave_again) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  this->give_all(job);
  const auto ask = [&] { return this->take(job, 1, make_query(job, Rank{1}, kSome)); };
  const pipeline::Outcome soon = ask();
  ASSERT_EQ(soon.verdict, Verdict::kTell);
  EXPECT_EQ(soon.server, pipeline::kNoServer);
  EXPECT_EQ(this->header(soon).type, PacketType::kReject);
  EXPECT_EQ(this->header(soon).contributors.host(), job.members);
  this->wait();
  const pipeline::Outcome out = ask();
  this->expect_up(out, job, 2, kFlagRetransmit, kSome, Verdict::kTell);
  EXPECT_TRUE(out.reject) << "beside it";
  EXPECT_EQ(out.reject_reason, RejectReason::kWaiting);
  EXPECT_EQ(out.reject_contributors, job.members);
  // Without room for the values in the question's buffer the asker is told all the same.
  this->wait();
  const Bytes datagram = make_query(job, Rank{1}, kSome);
  const jobs::Binding& from = job.ranks[1].binding;
  this->frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, true, 63);
  const pipeline::Outcome narrow = this->pipeline_->process(this->frame_->frame(), this->now_);
  EXPECT_EQ(narrow.verdict, Verdict::kTell);
  EXPECT_EQ(narrow.server, pipeline::kNoServer);
}

TYPED_TEST(RackCore, a_question_to_an_entry_that_fills_is_answered_as_ever) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->give(job, 2);
  this->wait();
  const pipeline::Outcome out = this->take(job, 1, make_query(job, Rank{1}, kSome));
  ASSERT_EQ(out.verdict, Verdict::kTell);
  EXPECT_EQ(out.server, pipeline::kNoServer);
  EXPECT_EQ(this->header(out).contributors.host(), 0b100U);
}

// Whatever was in the memory when its sum was right: a bit that flips there later is found before it leaves again.
TYPED_TEST(RackCore, a_sum_that_went_bad_in_memory_is_not_sent_again_but_made_anew) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  this->give_all(job);
  const std::uint32_t line = pipeline::Pool::line_of(kSome, job);
  const std::uint32_t good = this->template peek<pipeline::Sum2Reg>(line);
  this->pipeline_->execution().template undo<pipeline::Sum2Reg>(line, good ^ 0x100U);
  this->wait();
  EXPECT_EQ(this->give(job, 0).drop, Drop::kBadSum);
  EXPECT_EQ(this->give(job, 0).verdict, Verdict::kAbsorb) << "the entry is free";
  this->expect_up(this->give(job, 1), job, 3, 0);

  this->pipeline_->execution().template undo<pipeline::Sum2Reg>(line, good ^ 0x100U);
  this->wait();
  EXPECT_EQ(this->take(job, 1, make_query(job, Rank{1}, kSome)).drop, Drop::kBadSum);
  EXPECT_EQ(this->give(job, 0).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->occupancy(job), 1U);
}

TYPED_TEST(RackCore, a_wrong_sum_of_the_rack_goes_nowhere) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  this->give(job, 0, kSome, {.corrupt = true});
  EXPECT_EQ(this->give(job, 1).drop, Drop::kBadSum);
  EXPECT_EQ(this->occupancy(job), 0U);
  this->give(job, 0);
  this->expect_up(this->give(job, 1), job, 2);  // the number of the one that was not sent is not used again
}

TYPED_TEST(RackCore, a_result_for_an_entry_that_fills_completes_it) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->give(job, 0);
  EXPECT_EQ(this->occupancy(job), 1U);
  this->expect_down(this->from_parent(this->result_of(job, {})), Verdict::kComplete, job, job.members, 0);
  EXPECT_EQ(this->occupancy(job), 0U);
  this->expect_down(this->give(job, 2), Verdict::kRepeat, job, 0b100, kFlagRetransmit);
}

TYPED_TEST(RackCore, a_result_without_an_entry_is_kept_and_tells_nothing_of_others) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->expect_down(this->from_parent(this->result_of(job, {})), Verdict::kComplete, job, job.members,
                    kFlagRetransmit);
  this->expect_down(this->give(job, 2), Verdict::kRepeat, job, 0b100, kFlagRetransmit);
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(RackCore, a_repeated_result_is_passed_on_as_one) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  this->give_all(job, Chunk{4});
  this->from_parent(this->result_of(job, {.chunk = Chunk{4}}));
  this->give_all(job);
  const pipeline::Outcome out =
      this->from_parent(this->result_of(job, {.flags = kFlagRetransmit | kFlagOverflow}));
  this->expect_down(out, Verdict::kComplete, job, job.members, kFlagRetransmit | kFlagOverflow);
  EXPECT_EQ(this->before(out), 0U);
}

TYPED_TEST(RackCore, a_result_tells_which_results_came_before_it) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  for (std::uint32_t c = 4; c < 8; ++c) this->give_all(job, Chunk{c});
  for (const std::uint32_t c : {4U, 6U}) this->from_parent(this->result_of(job, {.chunk = Chunk{c}}));
  EXPECT_EQ(this->before(this->from_parent(this->result_of(job, {.chunk = Chunk{7}}))), 0b101U)
      << "5 is local";
}

TYPED_TEST(RackCore, zeros_are_left_out_both_ways) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  for (const std::uint32_t rank : {0U, 1U}) {
    const Bytes zeros = make_contribution(job, {.rank = Rank{static_cast<std::uint16_t>(rank)},
                                                .chunk = kSome,
                                                .values = std::vector<std::int32_t>(16, 0),
                                                .flags = kFlagZero,
                                                .total = 16});
    const pipeline::Outcome out = this->take(job, rank, zeros);
    ASSERT_EQ(out.verdict, Verdict::kAbsorb);
    if (rank == 0) continue;
    EXPECT_EQ(out.server, pipeline::kToParent);
    EXPECT_EQ(out.payload_bytes, kHeaderBytes);
    EXPECT_EQ(this->header(out).flags, kFlagZero);
    EXPECT_EQ(this->header(out).elements.host(), 16U);
    EXPECT_EQ(this->header(out).sum1.host(), keyed(job.key_sum, kSome));
  }
  this->expect_down(this->from_parent(this->result_of(job, {.flags = kFlagZero})), Verdict::kComplete, job,
                    job.members, kFlagZero, kSome, 0);
  this->expect_down(this->give(job, 0), Verdict::kRepeat, job, 1, kFlagZero | kFlagRetransmit, kSome, 0);
  // The others' values come though the rack had none.
  const Chunk next{6};
  this->give_all(job, next);
  this->expect_down(this->from_parent(this->result_of(job, {.chunk = next})), Verdict::kComplete, job,
                    job.members, 0, next);
}

TYPED_TEST(RackCore, a_result_behind_or_ahead_of_the_span_or_of_an_older_chunk_is_dropped) {
  const jobs::NativeJob job = this->rack_job({.world = 2, .window = 16});
  this->give_all(job, Chunk{100});
  EXPECT_EQ(this->from_parent(this->result_of(job, {.chunk = Chunk{68}})).drop, Drop::kStale);
  EXPECT_EQ(this->from_parent(this->result_of(job, {.chunk = Chunk{132}})).drop, Drop::kAhead);
  jobs::NativeJob wide = job;  // the window was larger in an epoch before
  wide.span = 64;
  this->put(wide);
  EXPECT_EQ(this->from_parent(this->result_of(wide, {.chunk = Chunk{68}})).drop, Drop::kStale)
      << "the entry's is newer";
  this->wait();
  this->expect_up(this->give(wide, 0, Chunk{100}), wide, 2, kFlagRetransmit,
                  Chunk{100});  // it is still there
  // As a contribution does it moves what is ahead.
  this->from_parent(this->result_of(wide, {.chunk = Chunk{163}}));
  EXPECT_EQ(this->give(wide, 0, Chunk{99}).drop, Drop::kStale);
}

TYPED_TEST(RackCore, of_the_parent_nothing_is_taken_that_is_not_right) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  this->give_all(job);
  const Bytes right = this->result_of(job, {});
  EXPECT_EQ(this->from_parent(this->result_of(job, {.off = 1})).drop, Drop::kSum);
  Bytes other_keys = right;  // the sum of this rack alone
  Header h = header_of(right);
  h.sum1 = Be{h.sum1.host() - keyed(job.parent.key_sum, kSome) + keyed(job.key_sum, kSome)};
  set_header(other_keys, h);
  EXPECT_EQ(this->from_parent(other_keys).drop, Drop::kSum);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.epoch = Be{std::uint32_t{9}}; }).drop, Drop::kEpoch);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.rank = Be{std::uint16_t{0}}; }).drop, Drop::kRank);
  EXPECT_EQ(this->changed(right, [&](Header& x) { x.cookie = Be{raw(job.result_cookie)}; }).drop,
            Drop::kCookie);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.contributors = Be{std::uint64_t{0b011}}; }).drop,
            Drop::kContributors);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.flags = kFlagIncomplete; }).drop, Drop::kFlags);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.flags = kFlagServed; }).drop, Drop::kFlags);
  EXPECT_EQ(this->changed(right, [](Header& x) { x.version = 1; }).drop, Drop::kVersion);
  Bytes wide(kHeaderBytes + 4 * 32);
  h = header_of(right);
  h.elements = Be{std::uint16_t{32}};
  set_header(wide, h);
  EXPECT_EQ(this->from_parent(wide).drop, Drop::kElements);
  EXPECT_EQ(this->changed(right, [&](Header& x) { x.job = Be{std::uint16_t{5}}; }).drop, Drop::kType)
      << "another's";
  // From elsewhere it is a packet that no worker may send.
  EXPECT_EQ(this->take(job, 0, right).drop, Drop::kType);
  EXPECT_EQ(this->from_parent(right, kBasePort - 1).drop, Drop::kType);
  EXPECT_EQ(this->from_parent(right, kBasePort + 1).drop, Drop::kType) << "the parent has one shard";
  EXPECT_FALSE(this->pipeline_->counters(job.id).of(Verdict::kComplete));
  this->expect_down(this->from_parent(right), Verdict::kComplete, job, job.members, 0);
}

TYPED_TEST(RackCore, of_the_parents_data_cores_nothing_else_is_taken_and_of_its_control_all) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  const Bytes right = this->result_of(job, {});
  const auto as = [&](PacketType type, std::size_t bytes) {
    Bytes datagram(bytes);
    Header h = header_of(right);
    h.type = type;
    h.flags = type == PacketType::kJoined ? kFlagRacks : 0;
    h.elements = {};
    h.contributors = {};
    set_header(datagram, h);
    return datagram;
  };
  const auto bare = [&](PacketType type) { return this->from_parent(as(type, kHeaderBytes)).drop; };
  for (const PacketType type : {PacketType::kNack, PacketType::kReject, PacketType::kResend,
                                PacketType::kPartial, PacketType::kFlush})
    EXPECT_EQ(bare(type), Drop::kType) << static_cast<int>(type);
  for (const PacketType type : {PacketType::kJoined, PacketType::kChallenge, PacketType::kLeave,
                                PacketType::kHeartbeat, PacketType::kAbort, PacketType::kReject}) {
    const pipeline::Outcome out = this->from_parent(as(type, kHeaderBytes + 24));
    EXPECT_EQ(out.verdict, Verdict::kPunt) << static_cast<int>(type) << " " << name_of(out.drop);
    EXPECT_TRUE(out.member) << "with the cookie of the epoch";
  }
  // Whoever else says so is no parent.
  for (const PacketType type : {PacketType::kJoined, PacketType::kChallenge, PacketType::kReject})
    EXPECT_EQ(this->take(job, 0, as(type, kHeaderBytes + 24)).drop, Drop::kType);

  // Before there is a row control is heard from the addresses that are configured.
  this->adopt(this->table_->with(job.id, {}));
  EXPECT_EQ(this->from_parent(as(PacketType::kJoined, kHeaderBytes + 24)).drop, Drop::kType);
  this->adopt(this->table_->with_parents({test_parent().address}));
  EXPECT_EQ(this->from_parent(as(PacketType::kJoined, kHeaderBytes + 24)).verdict, Verdict::kPunt);
  EXPECT_EQ(this->from_parent(right).drop, Drop::kType) << "but no data";
}

// What another core has used must not come a second time from this one.
TYPED_TEST(RackCore, cores_of_one_box_never_use_one_sequence_twice_at_one_shard_of_the_parent) {
  for (const auto ours : std::to_array<std::uint8_t>({1, 2, 3, 4}))
    for (const auto theirs : std::to_array<std::uint8_t>({1, 2, 3, 4, 8})) {
      const jobs::NativeJob job = make_job({.shards = ours, .racks = kRackCount, .parent_shards = theirs});
      std::set<std::pair<std::uint32_t, std::uint32_t>> used;  // shard of the parent, sequence
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> counts;
      for (std::uint32_t c = 0; c < 200; ++c) {
        const std::uint8_t core = static_cast<std::uint8_t>(c % job.window % ours);
        const std::uint8_t shard = jobs::shard_at(job.parent, Chunk{c});
        const std::uint32_t sequence = pipeline::RackPool::sequence_of(++counts[{core, shard}], core, job);
        EXPECT_NE(sequence, 0U);
        EXPECT_TRUE(used.emplace(shard, sequence).second)
            << int{ours} << " " << int{theirs} << " chunk " << c;
      }
      // Where it need not be, there are no holes that the parent would tell of.
      if (ours == theirs && std::has_single_bit(ours)) {
        EXPECT_TRUE(used.contains({0U, 200U / ours}));
      }
    }
}

TYPED_TEST(RackCore, sequences_count_each_shard_of_the_parent_and_begin_anew_with_an_epoch) {
  jobs::NativeJob job = this->rack_job({.world = 2});
  job.parent.shards = 2;
  this->put(job);
  this->expect_up(this->give_all(job, Chunk{4}), job, 1, 0, Chunk{4});
  this->expect_up(this->give_all(job, Chunk{5}), job, 1, 0, Chunk{5});
  this->expect_up(this->give_all(job, Chunk{6}), job, 2, 0, Chunk{6});
  job.epoch = Epoch{raw(job.epoch) + 1};
  this->put(job);
  this->expect_up(this->give_all(job, Chunk{6}), job, 1, 0, Chunk{6});
}

TYPED_TEST(RackCore, results_of_chunks_that_another_core_owns_are_handed_over_and_questions_are_not) {
  jobs::NativeJob job = this->rack_job({.world = 2});
  job.shards = 2;
  this->put(job);
  const pipeline::Outcome out = this->from_parent(this->result_of(job, {.chunk = Chunk{5}}));
  EXPECT_EQ(out.verdict, Verdict::kHandOver);
  EXPECT_EQ(out.owner, 1U);
  EXPECT_EQ(this->from_parent(this->query_of_rack(job, 2, 0, Chunk{5})).verdict, Verdict::kRelay);
  this->expect_down(this->from_parent(this->result_of(job, {.chunk = Chunk{4}})), Verdict::kComplete, job,
                    job.members, kFlagRetransmit, Chunk{4});
}

TYPED_TEST(RackCore, mismatch_duplicate_and_direct_are_as_ever) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  this->give(job, 0);
  EXPECT_EQ(this->give(job, 0).drop, Drop::kDuplicate);
  EXPECT_EQ(this->give(job, 1, kSome, {.flags = kFlagDirect}).drop, Drop::kDirect);
  EXPECT_EQ(this->send(job, 1, kSome, {.total = 15}).drop, Drop::kMismatch);
  EXPECT_TRUE(this->pipeline_->events().pop().has_value());
  this->give(job, 1);
  this->expect_up(this->give(job, 2), job, 1);
  EXPECT_EQ(this->send(job, 1, kSome, {.total = 15}).drop, Drop::kMismatch) << "of a local entry too";
}

// A flat job beside it, of the number that the rack's has at the parent.
TYPED_TEST(RackCore, a_job_of_this_box_with_the_parents_number_is_another) {
  const jobs::NativeJob job = this->rack_job({.world = 2});
  JobSpec spec{.id = raw(kAbove), .world = 2, .first_line = 512};
  const jobs::NativeJob flat = this->put(make_job(spec));
  this->give(flat, 0);
  EXPECT_EQ(this->give(flat, 1).verdict, Verdict::kComplete);
  this->give_all(job);
  this->expect_down(this->from_parent(this->result_of(job, {})), Verdict::kComplete, job, job.members, 0);
}

}  // namespace
}  // namespace tally
