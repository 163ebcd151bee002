// Jobs with external servers: what goes to them, what they may say, and whom it reaches.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "external_core.h"

namespace tally {
namespace {

template <class Exec>
class ExternalServer : public ExternalCore<Exec> {};
TYPED_TEST_SUITE(ExternalServer, BothExecutions);

TYPED_TEST(ExternalServer, gets_what_found_no_entry_as_it_came_and_flagged_COLLISION) {
  this->start(1);
  const jobs::NativeJob bulk = this->shared_job({.id = 2});
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  EXPECT_EQ(this->send(bulk, 0, Chunk{0}, {.priority = kClass3}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(job, 1, Chunk{5}, {.priority = 70, .flags = kFlagOverflow});
  EXPECT_EQ(out.verdict, Verdict::kBypass);
  this->expect_departs(out, job, Chunk{5}, 0b10);
  EXPECT_EQ(this->type_of(out), PacketType::kContribute);
  EXPECT_EQ(header_of({out.payload, kHeaderBytes}).rank_id(), Rank{1});
  EXPECT_EQ(this->flags_of(out), kFlagOverflow | kFlagCollision);
  EXPECT_EQ(out.priority, 70);
  EXPECT_EQ(this->state(job).slots.denied, 1U);
  EXPECT_EQ(this->server().merged, 0U) << "the embedded server has no part in it";
}

TYPED_TEST(ExternalServer, gets_a_DIRECT_contribution_unmerged_and_without_COLLISION) {
  this->start(4);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  EXPECT_EQ(this->send(job, 0, Chunk{3}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(job, 1, Chunk{3}, {.flags = kFlagDirect});
  EXPECT_EQ(out.verdict, Verdict::kBypass);
  this->expect_departs(out, job, Chunk{3}, 0b10);
  EXPECT_EQ(this->flags_of(out), kFlagDirect);
  EXPECT_EQ(this->occupancy(job), 1U) << "the entry stays until the server asks for it";
}

TYPED_TEST(ExternalServer, of_the_evicted_job_gets_its_partial_whoever_evicts) {
  this->start(1);
  const jobs::NativeJob low = this->shared_job({.id = 2, .world = 3, .servers = 2});
  const jobs::NativeJob high = this->shared_job({});  // with the embedded server
  EXPECT_EQ(this->send(low, 0, Chunk{7}, {.priority = 9}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(low, 2, Chunk{7}, {.priority = 9}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(high, 0, Chunk{0}, {.priority = kClass3});
  EXPECT_EQ(out.verdict, Verdict::kEvict);
  this->expect_departs(out, low, Chunk{7}, 0b101);
  EXPECT_EQ(this->type_of(out), PacketType::kPartial);
  EXPECT_EQ(header_of({out.payload, kHeaderBytes}).rank_id(), kSwitchRank);
  EXPECT_EQ(out.server, 1) << "odd chunks are server 1's";
  EXPECT_EQ(out.priority, 9) << "it queues with the priority of what it was";
  EXPECT_EQ(this->occupancy(low), 0U);
  EXPECT_EQ(this->occupancy(high), 1U);
}

TYPED_TEST(ExternalServer, the_embedded_server_of_an_evicted_job_merges_at_once) {
  this->start(1);
  const jobs::NativeJob low = this->shared_job({.id = 2});
  const jobs::NativeJob high = this->shared_job({.servers = 1});
  EXPECT_EQ(this->send(low, 0, Chunk{7}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(high, 0, Chunk{0}, {.priority = kClass3});
  EXPECT_EQ(out.verdict, Verdict::kEvict);
  EXPECT_EQ(out.server, pipeline::kNoServer);
  EXPECT_EQ(this->server().merged, 1U);
}

TYPED_TEST(ExternalServer, gets_a_split_chunk_with_its_last_arrival) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  EXPECT_EQ(this->send(job, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(job, 2, Chunk{0});
  EXPECT_EQ(out.verdict, Verdict::kAbsorb);
  this->expect_departs(out, job, Chunk{0}, 0b110);
  EXPECT_EQ(this->type_of(out), PacketType::kPartial);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.partials, 1U);
}

TYPED_TEST(ExternalServer, gets_every_duplicate_since_it_alone_knows) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(this->send(job, rank, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  }
  // Everybody's was seen: most likely a peer has the result, so that one is asked first.
  for (const std::uint32_t rank : {0U, 1U})
    EXPECT_EQ(this->send(job, rank, Chunk{0}, {.flags = kFlagRetransmit}).verdict, Verdict::kRelay);
  for (const std::uint32_t rank : {0U, 1U, 1U}) {
    const pipeline::Outcome out = this->send(job, rank, Chunk{0}, {.flags = kFlagRetransmit});
    EXPECT_EQ(out.verdict, Verdict::kBypass);
    this->expect_departs(out, job, Chunk{0}, std::uint64_t{1} << rank);
    EXPECT_EQ(this->flags_of(out), kFlagRetransmit);
  }
  EXPECT_EQ(this->occupancy(job), 0U) << "a duplicate never claims";
}

TYPED_TEST(ExternalServer, gets_what_nobody_touched_for_too_long) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  EXPECT_EQ(this->send(job, 2, Chunk{4}).verdict, Verdict::kAbsorb);
  this->now_ += 5 * kSecond;
  const auto out = this->sweep();
  ASSERT_TRUE(out.has_value());
  this->expect_departs(*out, job, Chunk{4}, 0b100);
  EXPECT_EQ(this->type_of(*out), PacketType::kPartial);
  EXPECT_EQ(this->occupancy(job), 0U);
}

// A QUERY names whom everybody waits for: also those are there whose contributions went to the server.
TYPED_TEST(ExternalServer, waiting_names_who_was_not_seen_also_of_what_it_holds) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.world = 4, .servers = 1});
  const auto query = [&](Chunk chunk) {
    this->now_ += kSecond;  // REJECTs are limited
    return this->take(job, 0, make_query(job, Rank{0}, chunk, Rank{1}));
  };
  EXPECT_FALSE(query(Chunk{0}).reject) << "nobody was seen";
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 3, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  const pipeline::Outcome half = query(Chunk{0});
  EXPECT_EQ(half.verdict, Verdict::kRelay);
  EXPECT_TRUE(half.reject);
  EXPECT_EQ(half.reject_reason, RejectReason::kWaiting);
  EXPECT_EQ(half.reject_contributors, 0b1001U) << "one in the entry, one at the server";
  EXPECT_EQ(this->send(job, 2, Chunk{1}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(query(Chunk{1}).reject_contributors, 0b0100U) << "without an entry";
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U})
    EXPECT_EQ(this->send(job, rank, Chunk{2}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_FALSE(query(Chunk{2}).reject) << "nobody is waited for";
  EXPECT_FALSE(query(Chunk{0} + job.span).reject) << "the row is another chunk's";
}

// Everybody was seen and nothing is here any more: a peer's turn, or with DIRECT the server's.
TYPED_TEST(ExternalServer, is_asked_by_a_QUERY_with_DIRECT_when_everybody_was_seen) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.servers = 2});
  const auto query = [&](Chunk chunk, std::uint8_t flags) {
    Bytes q = make_query(job, Rank{0}, chunk);
    Header h = header_of(q);
    h.flags = flags;
    h.priority = 70;
    set_header(q, h);
    return this->take(job, 0, q);
  };
  EXPECT_EQ(this->send(job, 0, Chunk{3}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(query(Chunk{3}, kFlagDirect).verdict, Verdict::kTell) << "somebody is waited for";
  EXPECT_EQ(this->send(job, 1, Chunk{3}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  const pipeline::Outcome peer = query(Chunk{3}, 0);
  EXPECT_EQ(peer.verdict, Verdict::kRelay);
  EXPECT_EQ(peer.server, pipeline::kNoServer);
  EXPECT_EQ(peer.to, Rank{1});
  const pipeline::Outcome out = query(Chunk{3}, kFlagDirect);
  EXPECT_EQ(out.verdict, Verdict::kRelay);
  ASSERT_EQ(out.server, 1) << "odd chunks are server 1's";
  EXPECT_EQ(out.priority, 70) << "behind what it asks for";
  EXPECT_EQ(out.payload_bytes, kHeaderBytes);
  const Header h = header_of({out.payload, kHeaderBytes});
  EXPECT_EQ(h.type, PacketType::kQuery);
  EXPECT_EQ(h.rank_id(), Rank{0});
  EXPECT_EQ(h.contributors.host(), 0b01U);
  EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
  EXPECT_EQ(h.slot.host(), slot_of(jobs::slot_map(job), Chunk{3}));
}

TYPED_TEST(ExternalServer, an_embedded_one_is_not_asked_by_DIRECT) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({});
  for (const std::uint32_t rank : {0U, 1U}) (void)this->send(job, rank, Chunk{0});
  Bytes q = make_query(job, Rank{0}, Chunk{0});
  Header h = header_of(q);
  h.flags = kFlagDirect;
  set_header(q, h);
  EXPECT_EQ(this->take(job, 0, q).verdict, Verdict::kRepeat) << "it answers from what it has";
}

TYPED_TEST(ExternalServer, waiting_is_not_said_by_hash_where_nothing_tells_who_is_there) {
  this->start(8);
  for (const auto discipline : {Discipline::kFcfs, Discipline::kPreemptive}) {
    const std::uint16_t id = discipline == Discipline::kFcfs ? 1 : 2;
    const jobs::NativeJob job = this->publish({.id = id, .world = 3, .servers = 1, .discipline = discipline});
    EXPECT_EQ(this->send(job, 0, Chunk{id}).verdict, Verdict::kAbsorb);
    EXPECT_EQ(this->send(job, 2, Chunk{id}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
    this->now_ += kSecond;
    const pipeline::Outcome out = this->take(job, 0, make_query(job, Rank{0}, Chunk{id}, Rank{1}));
    EXPECT_EQ(out.verdict, Verdict::kRelay);
    EXPECT_FALSE(out.reject);
  }
}

// The ledger tells a replay; by hash nothing does, so what goes by renews no lease.
TYPED_TEST(ExternalServer, a_bypass_renews_a_lease_only_where_a_ledger_tells_a_replay) {
  this->start(8);
  const jobs::NativeJob hashed = this->publish({.id = 2, .servers = 1, .discipline = Discipline::kFcfs});
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(this->send(hashed, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
    EXPECT_EQ(this->state(hashed).last_seen[1], 0U);
  }
  const TimeNs first = this->now_;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
    EXPECT_EQ(this->state(job).last_seen[1], first);
    this->now_ += kSecond;
  }
}

// The port vouched for what it is not worth: no server gets it, and the rank that goes on so is named.
TYPED_TEST(ExternalServer, gets_no_damaged_contribution_and_who_goes_on_sending_them_is_named) {
  this->start(4);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  std::uint32_t sent = 0;
  for (; !this->state(job).suspect(); ++sent) {
    ASSERT_LT(sent, 10U);
    const pipeline::Outcome out = this->send(job, 1, Chunk{0}, {.flags = kFlagDirect, .corrupt = true});
    EXPECT_EQ(out.drop, Drop::kSum);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(this->row(job, Chunk{0}).seen, 0U) << "it leaves no trace";
  }
  EXPECT_EQ(sent, pipeline::JobState::kSuspectAfter);
  EXPECT_EQ(this->state(job).last_seen[1], 0U);
  EXPECT_FALSE(this->pipeline_->events().pop().has_value());
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect, .corrupt = true}).drop, Drop::kSum);
  const auto event = this->pipeline_->events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, pipeline::EventKind::kPoisoned);
  EXPECT_EQ(event->rank, Rank{1});
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->row(job, Chunk{0}).seen, 0b010U);
}

// A damaged copy of what was seen takes nothing back.
TYPED_TEST(ExternalServer, a_damaged_duplicate_is_dropped_and_its_rank_stays_seen) {
  this->start(4);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(job, 1, Chunk{0}, {.flags = kFlagDirect, .corrupt = true}).drop, Drop::kSum);
  EXPECT_EQ(this->row(job, Chunk{0}).seen, 0b010U);
}

TYPED_TEST(ExternalServer, a_RESULT_to_all_is_a_finished_chunk) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  const Bytes result =
      make_server_packet(job, PacketType::kResult, Chunk{9}, job.members, this->sum_of(job, Chunk{9}));
  this->expect_result(this->say(job, result), Verdict::kComplete, job, Chunk{9}, 0b111);
  EXPECT_EQ(header_of({this->frame_->buffer().data() + 42, kHeaderBytes}).rank_id(), kSwitchRank);
  EXPECT_EQ(this->state(job).slots.served, 1U);
  EXPECT_EQ(this->pipeline_->counters(job.id).of(Verdict::kRelay), 1U);
}

TYPED_TEST(ExternalServer, a_finished_chunk_is_told_of_by_the_next_RESULTs) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  const auto result = [&](std::uint32_t chunk, std::uint64_t ranks, std::uint8_t flags) {
    Bytes made =
        make_server_packet(job, PacketType::kResult, Chunk{chunk}, ranks, this->sum_of(job, Chunk{chunk}));
    Header h = header_of(made);
    h.flags |= flags;
    std::memcpy(made.data(), &h, sizeof h);
    seal(made);
    return this->before(this->say(job, made));
  };
  EXPECT_EQ(result(4, job.members, 0), 0U);
  EXPECT_EQ(result(5, 0b01, 0), 0U) << "not to all: a repetition";
  EXPECT_EQ(result(6, job.members, kFlagRetransmit), 0U);
  EXPECT_EQ(result(7, job.members, 0), 0b100U) << "chunk 4";
  EXPECT_EQ(this->send(job, 0, Chunk{8}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->before(this->send(job, 1, Chunk{8})), 0b1001U) << "chunks 7 and 4";
}

TYPED_TEST(ExternalServer, a_RESULT_to_some_says_that_all_contributed) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  const Bytes result =
      make_server_packet(job, PacketType::kResult, Chunk{9}, 0b101, this->sum_of(job, Chunk{9}));
  this->expect_result(this->say(job, result), Verdict::kRepeat, job, Chunk{9}, 0b101);
  EXPECT_EQ(this->state(job).slots.served, 0U);
}

TYPED_TEST(ExternalServer, a_RESULT_with_wrong_sums_reaches_nobody) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  std::vector<std::int32_t> wrong = this->sum_of(job, Chunk{9});
  Bytes result = make_server_packet(job, PacketType::kResult, Chunk{9}, job.members, wrong);
  result[kHeaderBytes + 7] ^= std::byte{4};
  const pipeline::Outcome out = this->say(job, result);
  EXPECT_EQ(out.verdict, Verdict::kDrop);
  EXPECT_EQ(out.drop, Drop::kSum);
  EXPECT_EQ(this->state(job).slots.served, 0U);
}

TYPED_TEST(ExternalServer, a_RESEND_goes_to_the_ranks_that_it_names) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  const pipeline::Outcome out = this->say(job, make_server_packet(job, PacketType::kResend, Chunk{2}, 0b110));
  EXPECT_EQ(out.verdict, Verdict::kRepeat);
  EXPECT_EQ(out.ranks, 0b110U);
  EXPECT_EQ(out.payload_bytes, kHeaderBytes);
  const Header h = header_of({out.payload, kHeaderBytes});
  EXPECT_EQ(h.type, PacketType::kResend);
  EXPECT_EQ(h.rank_id(), server_rank(0));
  EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
}

TYPED_TEST(ExternalServer, a_FLUSH_fetches_a_filling_entry_and_frees_it) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.world = 3, .servers = 1});
  EXPECT_EQ(this->send(job, 0, Chunk{2}, {.priority = 33}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->say(job, make_server_packet(job, PacketType::kFlush, Chunk{2}, 0));
  this->expect_departs(out, job, Chunk{2}, 0b001);
  EXPECT_EQ(this->type_of(out), PacketType::kPartial);
  EXPECT_EQ(out.priority, 33);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.flushed, 1U);
  // Its ledger row stays: who was in the entry is a duplicate, and who was not has nothing to merge with
  // here.
  EXPECT_EQ(this->send(job, 0, Chunk{2}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(ExternalServer, a_FLUSH_of_a_complete_entry_is_answered_by_the_result) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  EXPECT_EQ(this->send(job, 0, Chunk{2}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 1, Chunk{2}).verdict, Verdict::kComplete);
  const pipeline::Outcome out = this->say(job, make_server_packet(job, PacketType::kFlush, Chunk{2}, 0));
  this->expect_departs(out, job, Chunk{2}, job.members);
  EXPECT_EQ(this->type_of(out), PacketType::kResult);
  EXPECT_EQ(this->send(job, 1, Chunk{2}).verdict, Verdict::kRepeat) << "the entry keeps it";
}

TYPED_TEST(ExternalServer, a_FLUSH_of_anything_else_is_ignored) {
  this->start(2);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  const pipeline::Outcome out = this->say(job, make_server_packet(job, PacketType::kFlush, Chunk{2}, 0));
  EXPECT_EQ(out.verdict, Verdict::kAbsorb);
  EXPECT_EQ(out.server, pipeline::kNoServer);
}

TYPED_TEST(ExternalServer, an_ANSWER_for_it_becomes_the_RESULT_that_it_lacks) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.servers = 2});
  Bytes answer =
      make_contribution(job, {.rank = Rank{1}, .chunk = Chunk{3}, .values = this->sum_of(job, Chunk{3})});
  Header h = header_of(answer);
  h.type = PacketType::kAnswer;
  h.contributors = Be{job.members};
  h.slot = Be{std::uint32_t{raw(server_rank(1))}};
  h.sum1 = Be{h.sum1.host() - keyed(job.ranks[1].key, Chunk{3}) + keyed(job.key_sum, Chunk{3})};
  set_header(answer, h);
  const pipeline::Outcome out = this->arrive(answer, job.ranks[1].binding);
  this->expect_departs(out, job, Chunk{3}, job.members);
  EXPECT_EQ(this->type_of(out), PacketType::kResult);
}

TYPED_TEST(ExternalServer, says_nothing_of_chunks_that_are_another_servers) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.servers = 2});
  Bytes resend = make_server_packet(job, PacketType::kResend, Chunk{2}, 0b11);
  Header h = header_of(resend);
  h.rank = Be{raw(server_rank(1))};
  h.cookie = Be{raw(job.server_ranks[1].cookie)};
  set_header(resend, h);
  EXPECT_EQ(this->say(job, resend).drop, Drop::kRank);
}

TYPED_TEST(ExternalServer, is_believed_with_its_secret_and_from_its_place_only) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.servers = 1});
  const Bytes resend = make_server_packet(job, PacketType::kResend, Chunk{2}, 0b11);
  EXPECT_EQ(this->arrive(resend, job.ranks[0].binding).drop, Drop::kSource);
  struct Case {
    void (*change)(Header&);
    Drop why;
  };
  const std::array<Case, 6> cases{{
      {[](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; }, Drop::kCookie},
      {[](Header& h) { h.rank = Be{std::uint16_t{0}}; }, Drop::kRank},
      {[](Header& h) { h.contributors = Be{std::uint64_t{0}}; }, Drop::kContributors},
      {[](Header& h) { h.contributors = Be{std::uint64_t{0b100}}; }, Drop::kContributors},
      {[](Header& h) { h.slot = Be{h.slot.host() + 1}; }, Drop::kSlot},
      {[](Header& h) { h.epoch = Be{h.epoch.host() + 1}; }, Drop::kEpoch},
  }};
  for (const auto& [change, why] : cases) {
    Bytes changed = resend;
    Header h = header_of(changed);
    change(h);
    set_header(changed, h);
    EXPECT_EQ(this->arrive(changed, job.server_ranks[0].binding).drop, why) << name_of(why);
  }
}

TYPED_TEST(ExternalServer, what_only_a_server_sends_is_no_type_for_a_job_without) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  jobs::NativeJob served = job;
  served.servers = 1;
  for (const auto type : {PacketType::kResult, PacketType::kResend, PacketType::kFlush}) {
    const Bytes packet = make_server_packet(served, type, Chunk{0}, 0b11);
    EXPECT_EQ(this->arrive(packet, job.ranks[0].binding).drop, Drop::kType);
  }
}

}  // namespace
}  // namespace tally
