// Jobs of racks at a rack's box, rule by rule, in both executions (docs/protocol_racks.md, 18.3): what goes to the parent,
// what comes of its RESULTs, and what is asked across.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "pipeline/racks.h"
#include "shared_core.h"

namespace tally {
namespace {

constexpr std::uint8_t kRackCount = 3;
constexpr std::uint8_t kOurRack = 1;  // ours
constexpr std::uint64_t kAllRacks = 0b111;
constexpr JobId kAbove{999};  // at the parent: kJobAbove - 1
constexpr Chunk kSome{5};

template <class Exec>
class RackCore : public SharedCore<Exec> {
 protected:
  jobs::NativeJob rack_job(JobSpec spec = {}) {
    this->start(0);
    spec.epoch += 0x10000;
    spec.racks = kRackCount;
    return put(make_job(spec));
  }
  jobs::NativeJob put(const jobs::NativeJob& job) {
    this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
    return job;
  }
  pipeline::Outcome give(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk = kSome, Sent how = {}) {
    how.total = 16;
    return this->send(job, rank, chunk, how);
  }
  // All of the rack: what the last one makes.
  pipeline::Outcome give_all(const jobs::NativeJob& job, Chunk chunk = kSome) {
    for (std::uint32_t r = 0; r + 1 < job.world; ++r) {
      const pipeline::Outcome out = give(job, r, chunk);
      EXPECT_EQ(out.verdict, Verdict::kAbsorb) << name_of(out.drop);
      EXPECT_EQ(out.server, pipeline::kNoServer);
    }
    return give(job, job.world - 1U, chunk);
  }
  // Everything of a packet of the parent but what the test changes.
  struct Above {
    Chunk chunk = kSome;
    std::int32_t value = 4242;
    std::uint8_t flags = 0;
    std::uint32_t off = 0;  // added to sum1
  };
  static Bytes result_of(const jobs::NativeJob& job, const Above& how) {
    const bool zero = (how.flags & kFlagZero) != 0;
    Bytes out = make_result_above(job, how.chunk, std::vector<std::int32_t>(16, zero ? 0 : how.value), 0,
                                  how.flags, 16);
    Header h = header_of(out);
    h.sum1 = Be{h.sum1.host() + how.off};
    set_header(out, h);
    return out;
  }
  static Bytes query_of_rack(const jobs::NativeJob& job, std::uint16_t rack, std::uint32_t total,
                             Chunk chunk = kSome) {
    return make_query_above(job, chunk, rack, total);
  }
  pipeline::Outcome from_parent(const Bytes& datagram, std::uint16_t port = kBasePort,
                                std::size_t room = 4 * kMaxElements) {
    jobs::Binding from = test_parent();
    from.udp_port = port;
    this->frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, true, room);
    return this->pipeline_->process(this->frame_->frame(), this->now_);
  }
  template <class F>
  pipeline::Outcome changed(Bytes datagram, F change) {
    Header h = header_of(datagram);
    change(h);
    set_header(datagram, h);
    return from_parent(datagram);
  }
  static Header header(const pipeline::Outcome& out) { return header_of({out.payload, kHeaderBytes}); }
  static std::int32_t value(const pipeline::Outcome& out, std::size_t i = 0) {
    Be<std::int32_t> word;
    std::memcpy(&word, out.payload + kHeaderBytes + 4 * i, sizeof word);
    return word.host();
  }
  // The CONTRIBUTE of the rack.
  void expect_up(const pipeline::Outcome& out, const jobs::NativeJob& job, std::uint32_t sequence,
                 std::uint8_t flags = 0, Chunk chunk = kSome, Verdict verdict = Verdict::kAbsorb) {
    ASSERT_EQ(out.verdict, verdict) << name_of(out.verdict) << " " << name_of(out.drop);
    ASSERT_EQ(out.server, pipeline::kToParent);
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 64U);
    const Header h = header(out);
    EXPECT_EQ(h.type, PacketType::kContribute);
    EXPECT_EQ(h.flags, flags);
    EXPECT_EQ(h.job_id(), kAbove);
    EXPECT_EQ(raw(h.rank_id()), kOurRack);
    EXPECT_EQ(h.epoch_id(), job.epoch);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.sequence(), sequence);
    EXPECT_EQ(h.elements.host(), 16U);
    EXPECT_EQ(h.contributors.host(), 1ULL << kOurRack);
    EXPECT_EQ(h.cookie.host(), raw(job.parent.cookie));
    EXPECT_EQ(h.total.host(), 16U);
    std::uint32_t sum = 0;
    for (std::uint32_t r = 0; r < job.world; ++r) sum += static_cast<std::uint32_t>(value_of(r, chunk));
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(static_cast<std::uint32_t>(value(out, i)), sum);
    EXPECT_EQ(h.sum1.host(), 16 * sum + keyed(job.key_sum, chunk));
    EXPECT_EQ(h.sum2.host(), 136 * sum);
    Bytes again(out.payload, out.payload + out.payload_bytes);
    set_header(again, h);
    EXPECT_EQ(header_of(again).check.host(), h.check.host());
  }
  // The parent's RESULT as the workers get it.
  void expect_down(const pipeline::Outcome& out, Verdict verdict, const jobs::NativeJob& job,
                   std::uint64_t ranks, std::uint8_t flags, Chunk chunk = kSome,
                   std::int32_t expected = 4242) {
    ASSERT_EQ(out.verdict, verdict) << name_of(out.verdict) << " " << name_of(out.drop);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(out.ranks, ranks);
    ASSERT_NE(out.job, nullptr);
    EXPECT_EQ(out.job->id, job.id);
    const Header h = header(out);
    EXPECT_EQ(h.type, PacketType::kResult);
    EXPECT_EQ(h.flags, flags);
    EXPECT_EQ(h.job_id(), job.id);
    EXPECT_EQ(h.rank_id(), kSwitchRank);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.contributors.host(), job.members) << "the ranks of this rack";
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
    const auto sum = static_cast<std::uint32_t>(expected);
    EXPECT_EQ(h.sum1.host(), 16 * sum + keyed(job.parent.key_sum, chunk))
        << "keys of all workers of all racks";
    EXPECT_EQ(h.sum2.host(), 136 * sum);
    if ((flags & kFlagZero) != 0) {
      EXPECT_EQ(out.payload_bytes, kHeaderBytes);
      return;
    }
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 64U);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(value(out, i), expected);
  }
  void wait(TimeNs time = 2 * kMillisecond) { this->now_ += time; }
};
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

TYPED_TEST(RackCore, a_question_to_another_rack_goes_to_the_parent) {
  const jobs::NativeJob job = this->rack_job({.world = 3, .window = 16});
  const Chunk chunk{21};
  Bytes question = make_query(job, Rank{2}, chunk);
  Header h = header_of(question);
  h.flags = kFlagDirect;
  h.contributors = Be{std::uint64_t{0b100}};
  h.total = Be{std::uint32_t{7}};
  set_header(question, h);
  const pipeline::Outcome out = this->take(job, 2, question);
  ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
  EXPECT_EQ(out.server, pipeline::kToParent);
  EXPECT_FALSE(out.reject);
  EXPECT_EQ(out.payload_bytes, kHeaderBytes);
  const Header up = this->header(out);
  EXPECT_EQ(up.type, PacketType::kQuery);
  EXPECT_EQ(up.flags, kFlagDirect);
  EXPECT_EQ(up.job_id(), kAbove);
  EXPECT_EQ(raw(up.rank_id()), kOurRack);
  EXPECT_EQ(up.slot.host(), 21U) << "of the parent's window of 32";
  EXPECT_EQ(up.contributors.host(), 0b100U);
  EXPECT_EQ(up.cookie.host(), raw(job.parent.cookie));
  EXPECT_EQ(up.total.host(), 7U);

  for (const std::uint64_t racks : {0b010ULL, 0b1000ULL, 0b101ULL}) {
    h.contributors = Be{racks};
    set_header(question, h);
    EXPECT_EQ(this->take(job, 2, question).drop, Drop::kPeer) << racks;
  }
  // A complete entry answers by itself.
  this->from_parent(this->result_of(job, {.chunk = chunk}));
  h.contributors = Be{std::uint64_t{0b100}};
  set_header(question, h);
  this->expect_down(this->take(job, 2, question), Verdict::kRepeat, job, 0b100, kFlagRetransmit, chunk);
}

TYPED_TEST(RackCore, a_question_that_names_nobody_is_of_this_box_also_with_direct) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  Bytes question = make_query(job, Rank{2}, kSome);
  Header h = header_of(question);
  h.flags = kFlagDirect;
  set_header(question, h);
  EXPECT_EQ(this->take(job, 2, question).verdict, Verdict::kTell);
}

TYPED_TEST(RackCore, a_question_of_another_rack_goes_to_the_rank_it_names_or_the_most_advanced) {
  const jobs::NativeJob job = this->rack_job({.world = 3, .window = 16});
  for (const auto& [total, rank] : {std::pair{1U, 1U}, {3U, 2U}, {~0U, 2U}}) {
    const pipeline::Outcome out = this->from_parent(this->query_of_rack(job, 2, total, Chunk{21}));
    ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(raw(out.to), rank);
    const Header h = this->header(out);
    EXPECT_EQ(h.job_id(), job.id);
    EXPECT_EQ(raw(h.rank_id()), kRackRankBase + 2);
    EXPECT_EQ(h.slot.host(), 5U) << "of our window";
    EXPECT_EQ(h.contributors.host(), 1ULL << rank);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
  }
  EXPECT_EQ(this->from_parent(this->query_of_rack(job, kOurRack, 0)).drop, Drop::kRank) << "not our own";
  EXPECT_EQ(this->from_parent(this->query_of_rack(job, kRackCount, 0)).drop, Drop::kRank);
  EXPECT_EQ(
      this->changed(this->query_of_rack(job, 2, 0), [](Header& h) { h.contributors = Be{std::uint64_t{1}}; })
          .drop,
      Drop::kPeer);
  EXPECT_EQ(
      this->changed(this->query_of_rack(job, 2, 0), [](Header& h) { h.slot = Be{std::uint32_t{99}}; }).drop,
      Drop::kSlot);
}

TYPED_TEST(RackCore, an_answer_for_another_rack_goes_to_the_parent_and_one_for_a_rank_to_it) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  Bytes answer = this->result_of(job, {});
  Header h = header_of(answer);
  h.type = PacketType::kAnswer;
  h.job = Be{raw(job.id)};
  h.rank = Be{std::uint16_t{2}};
  h.slot = Be{std::uint32_t{kRackRankBase}};
  h.contributors = Be{job.members};
  h.cookie = Be{raw(job.ranks[2].cookie)};
  set_header(answer, h);
  const pipeline::Outcome out = this->take(job, 2, answer);
  ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
  EXPECT_EQ(out.server, pipeline::kToParent);
  const Header up = this->header(out);
  EXPECT_EQ(up.type, PacketType::kAnswer);
  EXPECT_EQ(up.job_id(), kAbove);
  EXPECT_EQ(raw(up.rank_id()), kOurRack);
  EXPECT_EQ(up.slot.host(), 0U) << "the rack that asked";
  EXPECT_EQ(up.contributors.host(), kAllRacks);
  EXPECT_EQ(up.cookie.host(), raw(job.parent.cookie));
  EXPECT_EQ(this->value(out, 15), 4242);
  EXPECT_EQ(up.sum1.host(), h.sum1.host());

  const auto with_slot = [&](std::uint32_t slot, std::uint32_t off = 0) {
    Header x = h;
    x.slot = Be{slot};
    x.sum1 = Be{x.sum1.host() + off};
    set_header(answer, x);
    return this->take(job, 2, answer);
  };
  EXPECT_EQ(with_slot(kRackRankBase + kOurRack).drop, Drop::kAsker) << "ours";
  EXPECT_EQ(with_slot(kRackRankBase + kRackCount).drop, Drop::kAsker);
  EXPECT_EQ(with_slot(kRackRankBase + 2, 1).drop, Drop::kSum);
  const pipeline::Outcome to_rank = with_slot(1);
  ASSERT_EQ(to_rank.verdict, Verdict::kRelay);
  EXPECT_EQ(raw(to_rank.to), 1U);
  EXPECT_EQ(to_rank.server, pipeline::kNoServer);
  EXPECT_EQ(this->header(to_rank).sum1.host(), h.sum1.host()) << "by the keys of all, not of the rack";
  EXPECT_EQ(with_slot(1, keyed(job.key_sum - job.parent.key_sum, kSome)).drop, Drop::kSum);
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
