// A box of several (docs/protocol_boxes.md, 17.4): whose contributions meet here, what leaves for which server, and
// what it says of those who come to other boxes.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "agree.h"
#include "external_core.h"
#include "plans.h"
#include "random_packets.h"

namespace tally {
namespace {

// Groups of the plan of most tests, of which this is box 0: 4 ranks, 2 servers.
constexpr Chunk kRack{0};       // ranks 0 and 1 here, 2 and 3 at the other box; server 1
constexpr Chunk kAll{1};        // all of them here; server 0
constexpr Chunk kAlone{2};      // rank 2 here alone; server 1
constexpr Chunk kElsewhere{3};  // nobody here; server 0
constexpr Chunk kDirect{4};     // ranks 0 to 2 here, of which 2 is direct; server 1

template <class Exec>
class Planned : public ExternalCore<Exec> {
 protected:
  static Plan plan() {
    Plan plan = one_box_plan(4, 2);
    plan.boxes.push_back(mapped({10, 254, 0, 9}));
    plan.tables.assign(4, RouteTable{});
    plan.table_of = {0, 1, 2, 3};
    constexpr Route here{.box = 0};
    constexpr Route there{.box = 1};
    constexpr Route direct{.box = 0, .direct = true};
    set(plan, kRack, {here, here, there, there}, 1);
    set(plan, kAll, {here, here, here, here}, 0);
    set(plan, kAlone, {there, there, here, there}, 1);
    set(plan, kElsewhere, {there, there, there, there}, 0);
    set(plan, kDirect, {here, here, direct, there}, 1);
    return plan;
  }
  static void set(Plan& plan, Chunk chunk, const std::array<Route, 4>& routes, std::uint8_t server) {
    for (std::size_t rank = 0; rank < 4; ++rank) plan.tables[rank][plan_group(chunk)] = routes[rank];
    plan.servers[plan_group(chunk)] = server;
  }
  jobs::NativeJob planned_job(JobSpec spec = {}) {
    spec.world = 4;
    spec.servers = 2;
    spec.part = share_part(plan(), 0);
    return this->shared_job(spec);
  }
  // The row as it is while some have not enlisted.
  jobs::NativeJob without(jobs::NativeJob job, std::uint64_t ranks, std::uint32_t servers = 0) {
    for (std::uint32_t r = 0; r < job.world; ++r)
      if ((ranks >> r & 1) != 0) job.ranks[r].binding = {};
    for (std::uint32_t s = 0; s < job.servers; ++s)
      if ((servers >> s & 1) != 0) job.server_ranks[s].binding = {};
    job.take_part(job.part);
    this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
    return job;
  }
  pipeline::Outcome ask(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk, std::uint8_t flags = 0) {
    Bytes query = make_query(job, Rank{static_cast<std::uint16_t>(rank)}, chunk);
    Header h = header_of(query);
    h.flags = flags;
    set_header(query, h);
    return this->take(job, rank, query);
  }
  std::uint64_t waiting(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk) {
    const pipeline::Outcome out = ask(job, rank, chunk);
    EXPECT_EQ(out.verdict, Verdict::kTell);
    EXPECT_EQ(out.to, Rank{static_cast<std::uint16_t>(rank)});
    const Header h = header_of({out.payload, kHeaderBytes});
    EXPECT_EQ(h.type, PacketType::kReject);
    return h.contributors.host();
  }
  Bytes result(const jobs::NativeJob& job, Chunk chunk, std::uint64_t ranks, std::uint8_t flags = 0) {
    return make_server_packet(job, PacketType::kResult, chunk, ranks, this->sum_of(job, chunk), 0, flags);
  }
};
TYPED_TEST_SUITE(Planned, BothExecutions);

TYPED_TEST(Planned, an_entry_leaves_as_PARTIAL_when_all_who_are_here_have_come_and_is_free) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  EXPECT_EQ(this->send(job, 1, kRack, {.priority = 70}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->occupancy(job), 1U);
  const pipeline::Outcome out = this->send(job, 0, kRack);
  EXPECT_EQ(out.verdict, Verdict::kAbsorb);
  this->expect_departs(out, job, kRack, 0b0011);
  EXPECT_EQ(this->type_of(out), PacketType::kPartial);
  EXPECT_EQ(header_of({out.payload, kHeaderBytes}).rank_id(), kSwitchRank);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->pipeline_->shared().filling(), 0U);
  EXPECT_EQ(this->state(job).slots.partials, 1U);
  EXPECT_EQ(this->row(job, kRack).seen, 0b0011U) << "the row goes on knowing who came";
}

TYPED_TEST(Planned, a_chunk_is_finished_here_when_all_members_are) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  for (const std::uint32_t rank : {3U, 0U, 2U})
    EXPECT_EQ(this->send(job, rank, kAll).verdict, Verdict::kAbsorb);
  this->expect_result(this->send(job, 1, kAll), Verdict::kComplete, job, kAll, 0b1111);
  this->expect_result(this->send(job, 3, kAll), Verdict::kRepeat, job, kAll, 0b1000);
}

TYPED_TEST(Planned, what_is_of_nobody_here_goes_by_and_leaves_no_trace) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const std::array cases{std::pair{3U, kRack}, std::pair{2U, kDirect}, std::pair{0U, kElsewhere}};
  for (const auto& [rank, chunk] : cases) {
    for (int again = 0; again < 3; ++again) {
      const pipeline::Outcome out = this->send(job, rank, chunk, {.priority = 9});
      EXPECT_EQ(out.verdict, Verdict::kBypass);
      this->expect_departs(out, job, chunk, std::uint64_t{1} << rank);
      EXPECT_EQ(this->type_of(out), PacketType::kContribute);
      EXPECT_EQ(this->flags_of(out), 0U) << "no COLLISION: it would have had an entry";
      EXPECT_EQ(out.priority, 9);
      EXPECT_EQ(this->row(job, chunk).seen, 0U);
    }
    EXPECT_EQ(this->state(job).last_seen[rank], 0U) << "no ledger tells whether it is a replay";
  }
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.denied, 0U);
}

TYPED_TEST(Planned, what_goes_by_is_verified_and_a_damaged_one_is_dropped) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const pipeline::Outcome out = this->send(job, 3, kRack, {.corrupt = true});
  EXPECT_EQ(out.verdict, Verdict::kDrop);
  EXPECT_EQ(out.drop, Drop::kSum);
  EXPECT_EQ(out.server, pipeline::kNoServer);
  EXPECT_EQ(this->state(job).bad_sums_in_row, 1U);
}

TYPED_TEST(Planned, who_is_here_alone_takes_no_entry_and_is_passed_on) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const pipeline::Outcome out = this->send(job, 2, kAlone);
  EXPECT_EQ(out.verdict, Verdict::kBypass);
  this->expect_departs(out, job, kAlone, 0b0100);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->row(job, kAlone).seen, 0b0100U) << "seen it was, and a replay renews no lease";
  EXPECT_EQ(this->state(job).last_seen[2], this->now_);
}

TYPED_TEST(Planned, its_server_is_the_groups_and_no_other_one_may_speak) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  EXPECT_EQ(jobs::server_of(job, kRack), 1U) << "not 0 = chunk mod 2";
  EXPECT_EQ(jobs::server_of(job, kRack + kPlanGroups), 1U);
  for (const auto type : {PacketType::kResult, PacketType::kResend, PacketType::kFlush}) {
    const bool valued = type == PacketType::kResult;
    Bytes packet = make_server_packet(job, type, kRack, type == PacketType::kFlush ? 0 : 0b0011,
                                      valued ? this->sum_of(job, kRack) : std::vector<std::int32_t>{});
    EXPECT_NE(this->say(job, packet).verdict, Verdict::kDrop);
    Header h = header_of(packet);
    h.rank = Be{raw(server_rank(0))};
    h.cookie = Be{raw(job.server_ranks[0].cookie)};
    set_header(packet, h);
    EXPECT_EQ(this->say(job, packet).drop, Drop::kRank);
  }
}

TYPED_TEST(Planned, waiting_names_who_was_seen_and_all_who_are_elsewhere) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  EXPECT_EQ(this->waiting(job, 0, kRack), 0b1100U) << "nobody was seen: those who are here are waited for";
  EXPECT_EQ(this->send(job, 1, kRack).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->waiting(job, 0, kRack), 0b1110U);
  EXPECT_EQ(this->waiting(job, 3, kRack), 0b1110U) << "who is elsewhere is told the same";
  EXPECT_EQ(this->waiting(job, 0, kAll), 0U) << "all are here, and nobody was seen";
  EXPECT_EQ(this->send(job, 2, kAll).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->waiting(job, 0, kAll), 0b0100U);
  EXPECT_EQ(this->waiting(job, 2, kDirect), 0b1100U) << "direct ones count as elsewhere";
}

// Beside the QUERY that goes to a peer.
TYPED_TEST(Planned, waiting_is_said_beside_a_QUERY_of_a_chunk_that_somebody_came_for) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const auto query = [&] {
    this->now_ += kSecond;  // REJECTs are limited
    return this->take(job, 0, make_query(job, Rank{0}, kRack, Rank{3}));
  };
  const pipeline::Outcome none = query();
  EXPECT_EQ(none.verdict, Verdict::kRelay);
  EXPECT_FALSE(none.reject);
  EXPECT_EQ(this->send(job, 1, kRack).verdict, Verdict::kAbsorb);
  const pipeline::Outcome half = query();
  EXPECT_EQ(half.to, Rank{3});
  ASSERT_TRUE(half.reject);
  EXPECT_EQ(half.reject_contributors, 0b1110U);
  EXPECT_EQ(this->send(job, 0, kRack).server, 1);
  EXPECT_FALSE(query().reject) << "nobody is waited for here";
}

// A peer may not have it either: the chunk can wait at the server for other boxes. The server knows.
TYPED_TEST(Planned, a_repeated_contribution_of_a_chunk_that_left_becomes_a_question_to_its_server) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  for (const std::uint32_t rank : {0U, 1U}) (void)this->send(job, rank, kRack);
  for (const std::uint32_t rank : {1U, 0U}) {
    const pipeline::Outcome asked = this->send(job, rank, kRack, {.priority = 70, .flags = kFlagRetransmit});
    EXPECT_EQ(asked.verdict, Verdict::kRelay);
    ASSERT_EQ(asked.server, 1);
    EXPECT_EQ(asked.priority, 70) << "behind what it asks for";
    EXPECT_EQ(asked.payload_bytes, kHeaderBytes);
    const Header h = header_of({asked.payload, kHeaderBytes});
    EXPECT_EQ(h.type, PacketType::kQuery);
    EXPECT_EQ(h.contributors.host(), std::uint64_t{1} << rank);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
  }
  for (const std::uint32_t rank : {1U, 0U, 0U}) {
    const pipeline::Outcome out = this->send(job, rank, kRack, {.flags = kFlagRetransmit});
    EXPECT_EQ(out.verdict, Verdict::kBypass) << "the server may have forgotten it";
    this->expect_departs(out, job, kRack, std::uint64_t{1} << rank);
  }
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(Planned, a_repeated_contribution_of_a_chunk_that_all_came_for_asks_a_peer) {
  this->start(1);
  const jobs::NativeJob job = this->planned_job();
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) (void)this->send(job, rank, kAll);
  EXPECT_EQ(this->send(job, 0, kRack).verdict, Verdict::kAbsorb) << "the entry is another chunk's now";
  const pipeline::Outcome out = this->send(job, 2, kAll, {.flags = kFlagRetransmit});
  EXPECT_EQ(out.verdict, Verdict::kRelay);
  EXPECT_EQ(out.server, pipeline::kNoServer);
  EXPECT_NE(out.to, Rank{2});
}

TYPED_TEST(Planned, a_QUERY_that_names_nobody_asks_a_peer_and_with_DIRECT_the_server) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  for (const std::uint32_t rank : {0U, 1U}) (void)this->send(job, rank, kRack);
  for (const Chunk chunk : {kRack, kElsewhere}) {  // of nobody here: nobody is waited for here
    const pipeline::Outcome peer = this->ask(job, 0, chunk);
    EXPECT_EQ(peer.verdict, Verdict::kRelay);
    EXPECT_EQ(peer.server, pipeline::kNoServer);
    EXPECT_NE(peer.to, Rank{0});
    const pipeline::Outcome server = this->ask(job, 0, chunk, kFlagDirect);
    EXPECT_EQ(server.verdict, Verdict::kRelay);
    EXPECT_EQ(server.server, jobs::server_of(job, chunk));
  }
}

TYPED_TEST(Planned, a_RESULT_to_all_who_come_through_it_is_a_finished_chunk) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const Chunk later = kDirect + 1024;
  this->expect_result(this->say(job, this->result(job, kDirect, 0b0111)), Verdict::kComplete, job, kDirect,
                      0b0111);
  EXPECT_EQ(this->flags_of(this->say(job, this->result(job, kRack, 0b0011))), kFlagServed);
  EXPECT_EQ(this->state(job).slots.served, 2U);
  const pipeline::Outcome out = this->say(job, this->result(job, later, 0b0111));
  this->expect_result(out, Verdict::kComplete, job, later, 0b0111);
  EXPECT_EQ(this->state(job).slots.served, 3U);
}

TYPED_TEST(Planned, a_RESULT_to_some_of_them_or_with_RETRANSMIT_is_not) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  this->expect_result(this->say(job, this->result(job, kDirect, 0b0011)), Verdict::kRepeat, job, kDirect,
                      0b0011);
  (void)this->say(job, this->result(job, kDirect, 0b0111, kFlagRetransmit));
  (void)this->say(job, this->result(job, kDirect, 0b1111));
  EXPECT_EQ(this->state(job).slots.served, 0U);
  EXPECT_EQ(this->before(this->say(job, this->result(job, kDirect + 1024, 0b0111))), 0U);
}

TYPED_TEST(Planned, the_next_RESULTs_tell_of_what_was_finished_here_or_came_to_all_of_through) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  EXPECT_EQ(this->before(this->say(job, this->result(job, kRack, 0b0011))), 0U);
  for (const std::uint32_t rank : {0U, 1U, 2U}) (void)this->send(job, rank, kAll);
  EXPECT_EQ(this->before(this->send(job, 3, kAll)), 0b1U) << "chunk 0 came from the server";
  EXPECT_EQ(this->before(this->say(job, this->result(job, kAlone, 0b0100))), 0b11U);
  EXPECT_EQ(this->before(this->say(job, this->result(job, kDirect, 0b0111))), 0b1110U)
      << "chunk 3 has nobody here: nothing is known of it";
}

TYPED_TEST(Planned, a_FLUSH_and_the_sweep_and_who_evicts_send_the_entry_to_the_groups_server) {
  this->start(1);
  const jobs::NativeJob job = this->planned_job();
  const Bytes flush = make_server_packet(job, PacketType::kFlush, kRack, 0);
  EXPECT_EQ(this->send(job, 0, kRack).verdict, Verdict::kAbsorb);
  const pipeline::Outcome flushed = this->say(job, flush);
  this->expect_departs(flushed, job, kRack, 0b0001);
  EXPECT_EQ(this->say(job, flush).verdict, Verdict::kAbsorb) << "without an entry it says nothing";

  const Chunk second = kRack + 1024;
  EXPECT_EQ(this->send(job, 1, second).verdict, Verdict::kAbsorb);
  this->now_ += 5 * kSecond;
  const auto swept = this->sweep();
  ASSERT_TRUE(swept.has_value());
  this->expect_departs(*swept, job, second, 0b0010);

  const Chunk third = kRack + 2048;
  EXPECT_EQ(this->send(job, 1, third).verdict, Verdict::kAbsorb);
  const jobs::NativeJob urgent = this->shared_job({.id = 2});
  const pipeline::Outcome evicted = this->send(urgent, 0, Chunk{0}, {.priority = kClass3});
  EXPECT_EQ(evicted.verdict, Verdict::kEvict);
  this->expect_departs(evicted, job, third, 0b0010);
}

TYPED_TEST(Planned, who_came_DIRECT_is_seen_and_the_last_one_finds_nobody_to_merge_with) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  const pipeline::Outcome first = this->send(job, 0, kRack, {.flags = kFlagDirect});
  EXPECT_EQ(first.verdict, Verdict::kBypass);
  const pipeline::Outcome out = this->send(job, 1, kRack);
  EXPECT_EQ(out.verdict, Verdict::kBypass);
  this->expect_departs(out, job, kRack, 0b0010);
  EXPECT_EQ(this->occupancy(job), 0U);
}

// Nobody but this box sees the contributions of those who are here: the server would drop the PARTIAL, and the job
// would hang with nobody to blame.
TYPED_TEST(Planned, a_wrong_sum_of_all_who_are_here_never_leaves_and_who_corrupts_is_named) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  Chunk chunk = kRack;
  for (std::uint32_t i = 0; i < pipeline::JobState::kSuspectAfter; ++i, chunk = chunk + kPlanGroups) {
    EXPECT_EQ(this->send(job, 0, chunk, {.corrupt = true}).verdict, Verdict::kAbsorb) << "the port vouched";
    const pipeline::Outcome out = this->send(job, 1, chunk);
    EXPECT_EQ(out.drop, Drop::kBadSum);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(this->row(job, chunk).seen, 0U) << "both send again";
    EXPECT_EQ(this->occupancy(job), 0U);
  }
  EXPECT_TRUE(this->state(job).suspect());
  EXPECT_EQ(this->send(job, 0, chunk, {.corrupt = true}).drop, Drop::kSum);
  const auto event = this->pipeline_->events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, pipeline::EventKind::kPoisoned);
  EXPECT_EQ(event->rank, Rank{0});
}

TYPED_TEST(Planned, a_chunk_that_left_whole_tells_how_long_one_takes_and_ends_a_suspicion) {
  this->start(4);
  const jobs::NativeJob job = this->planned_job();
  (void)this->send(job, 0, kRack, {.corrupt = true});
  (void)this->send(job, 1, kRack);
  EXPECT_EQ(this->state(job).bad_sums_in_row, 1U);
  const Chunk next = kRack + kPlanGroups;
  (void)this->send(job, 0, next);
  this->now_ += 40 * kMillisecond;
  (void)this->send(job, 1, next);
  EXPECT_EQ(this->state(job).filling_time, jobs::stamp(kSecond + 40 * kMillisecond) - jobs::stamp(kSecond));
  EXPECT_EQ(this->state(job).bad_sums_in_row, 0U);
}

// Who has not enlisted has no binding: what comes in its name is nobody's, by the template as by the gates.
TYPED_TEST(Planned, who_has_not_enlisted_is_believed_nothing) {
  this->start(4);
  const jobs::NativeJob job = this->without(this->planned_job(), 0b0010, 0b10);
  const Bytes contribution =
      make_contribution(job, {.rank = Rank{1}, .chunk = kRack, .values = std::vector<std::int32_t>(16, 1)});
  EXPECT_EQ(this->arrive(contribution, test_binding(raw(job.id), 1)).drop, Drop::kRank);
  EXPECT_EQ(this->arrive(make_query(job, Rank{1}, kRack), test_binding(raw(job.id), 1)).drop, Drop::kRank);
  const Bytes resend = make_server_packet(job, PacketType::kResend, kRack, 0b0001);
  EXPECT_EQ(this->arrive(resend, test_binding(raw(job.id), 101)).drop, Drop::kRank);
  for (const Bytes& datagram : {contribution, resend}) {  // as if from nowhere
    EXPECT_EQ(pipeline::job_of_member(header_of(datagram), jobs::Binding{}, this->table_.get()), nullptr);
    pipeline::Parsed parsed;
    pipeline::match_job(parsed, header_of(datagram), jobs::Binding{}, this->table_.get(), this->region_, 0,
                        true);
    EXPECT_EQ(parsed.kind, pipeline::Kind::kBad);
    EXPECT_EQ(parsed.drop, Drop::kRank);
  }
}

// An empty binding would have a template, of frames from IPv6's :: and the MAC of zeros.
TYPED_TEST(Planned, no_frame_is_like_who_has_not_enlisted) {
  this->start(4);
  const jobs::NativeJob job = this->without(this->planned_job(), 0b0010);
  Bytes values =
      make_contribution(job, {.rank = Rank{1}, .chunk = kRack, .values = std::vector<std::int32_t>(16, 1)});
  jobs::Box box = test_box();
  box.ipv6 = {0xfd, 1};
  SlotMemory memory(this->region_.line_of(this->region_.entries));
  pipeline::Pipeline<TypeParam> pipeline({.core = 0, .box = box, .shared = this->region_}, memory.region(),
                                         kernels::best_kernels());
  pipeline.adopt(this->table_.get());
  for (const jobs::Binding& from : {test_binding(raw(job.id), 1), jobs::Binding{}}) {
    ReceivedFrame frame(wrap(values, from, box, kBasePort), from.port, true);
    EXPECT_TRUE(template_agrees_with_gates(pipeline, frame.frame()));
    EXPECT_EQ(pipeline.process(frame.frame(), this->now_).verdict, Verdict::kDrop);
  }
}

TYPED_TEST(Planned, nothing_is_sent_to_who_has_not_enlisted) {
  this->start(4);
  const jobs::NativeJob all = this->planned_job();
  const jobs::NativeJob job = this->without(all, 0b0010);
  EXPECT_EQ(this->say(job, this->result(job, kRack, 0b0011)).ranks, 0b0001U);
  EXPECT_EQ(this->state(job).slots.served, 1U) << "finished it is all the same";
  EXPECT_EQ(this->say(job, make_server_packet(job, PacketType::kResend, kRack, 0b0011)).ranks, 0b0001U);
  const pipeline::Outcome nobody =
      this->say(job, make_server_packet(job, PacketType::kResend, kRack, 0b0010));
  EXPECT_EQ(nobody.verdict, Verdict::kAbsorb);
  EXPECT_EQ(nobody.server, pipeline::kNoServer);
  EXPECT_EQ(this->take(job, 0, make_query(job, Rank{0}, kRack, Rank{1})).drop, Drop::kRank);
  for (int i = 0; i < 12; ++i) {
    const pipeline::Outcome asked = this->ask(job, 0, kElsewhere);
    ASSERT_EQ(asked.verdict, Verdict::kRelay);
    ASSERT_TRUE(asked.to == Rank{2} || asked.to == Rank{3}) << raw(asked.to);
  }
  const jobs::NativeJob alone = this->without(all, 0b1110);
  const pipeline::Outcome asked = this->ask(alone, 0, kElsewhere);
  EXPECT_EQ(asked.verdict, Verdict::kAbsorb);
  EXPECT_EQ(asked.server, pipeline::kNoServer);
}

TYPED_TEST(Planned, an_ANSWER_for_who_has_not_enlisted_is_dropped) {
  this->start(4);
  const jobs::NativeJob job = this->without(this->planned_job(), 0b0010, 0b10);
  for (const std::uint32_t asker : {1U, std::uint32_t{raw(server_rank(1))}}) {
    Bytes answer =
        make_contribution(job, {.rank = Rank{0}, .chunk = kRack, .values = this->sum_of(job, kRack)});
    Header h = header_of(answer);
    h.type = PacketType::kAnswer;
    h.contributors = Be{job.members};
    h.slot = Be{asker};
    h.sum1 = Be{h.sum1.host() - keyed(job.ranks[0].key, kRack) + keyed(job.key_sum, kRack)};
    set_header(answer, h);
    EXPECT_EQ(this->take(job, 0, answer).drop, Drop::kRank);
    h.slot = Be{std::uint32_t{2}};
    set_header(answer, h);
    EXPECT_EQ(this->take(job, 0, answer).to, Rank{2});
  }
}

TYPED_TEST(Planned, what_is_for_a_server_that_is_lost_from_sight_is_lost) {
  this->start(4);
  const jobs::NativeJob all = this->planned_job();
  EXPECT_EQ(this->send(all, 0, kRack).verdict, Verdict::kAbsorb);
  const jobs::NativeJob job = this->without(all, 0, 0b10);
  const pipeline::Outcome last = this->send(job, 1, kRack);
  EXPECT_EQ(last.verdict, Verdict::kAbsorb);
  EXPECT_EQ(last.server, pipeline::kNoServer);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->send(job, 2, kAlone).server, pipeline::kNoServer);
  const pipeline::Outcome asked = this->send(job, 0, kRack, {.flags = kFlagRetransmit});
  EXPECT_EQ(asked.verdict, Verdict::kAbsorb);
  EXPECT_EQ(asked.server, pipeline::kNoServer);
  EXPECT_EQ(this->send(job, 0, kElsewhere).server, 0) << "the other one is there";
}

TYPED_TEST(Planned, a_job_of_one_rank_has_its_RESULT_from_whichever_box_it_sends_to) {
  this->start(4);
  Rng rng(5);
  const Plan plan = random_plan(rng, {.boxes = 2, .world = 1, .servers = 1, .direct = 0.5});
  const jobs::NativeJob job = this->shared_job({.world = 1, .servers = 1, .part = share_part(plan, 0)});
  for (std::uint32_t chunk = 0; chunk < 30; ++chunk)
    this->expect_result(this->send(job, 0, Chunk{chunk}), Verdict::kComplete, job, Chunk{chunk}, 0b1);
  for (std::uint32_t chunk = 0; chunk < 30; ++chunk)
    EXPECT_EQ(this->waiting(job, 0, Chunk{chunk}), 0U) << "and is told to contribute when it asks instead";
}

// The same packets to a box with a plan by which everybody comes to it, and to one without a plan.
TYPED_TEST(Planned, a_plan_by_which_everybody_comes_here_changes_no_byte) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto world = static_cast<std::uint8_t>(rng.between(1, 6));
    const auto servers = static_cast<std::uint8_t>(rng.between(1, 2));  // 1,024 is a multiple of both
    const auto shared = static_cast<std::uint32_t>(rng.between(1, 6));
    const JobSpec spec{.world = world,
                       .elements = 32,
                       .servers = servers,
                       .discipline = Discipline::kShared,
                       .shared_slots = shared};
    JobSpec planned = spec;
    planned.part = share_part(one_box_plan(world, servers), 0);
    const jobs::NativeJob job = make_job(spec);
    const jobs::NativeJob with_plan = make_job(planned);
    const auto lines = static_cast<std::uint32_t>(job.slots.count + jobs::shared_lines(shared, 32));
    const pipeline::PipelineOptions options{
        .core = 0, .box = test_box(), .shared = jobs::shared_region(lines, shared, 32)};
    SlotMemory first(lines);
    SlotMemory second(lines);
    pipeline::Pipeline<TypeParam> x(options, first.region(), kernels::best_kernels());
    pipeline::Pipeline<TypeParam> y(options, second.region(), kernels::best_kernels());
    const auto one = jobs::JobTable().with(job.id, std::make_shared<const jobs::NativeJob>(job));
    const auto two = jobs::JobTable().with(job.id, std::make_shared<const jobs::NativeJob>(with_plan));
    x.adopt(one.get());
    y.adopt(two.get());
    std::uint32_t front = 40;
    for (int i = 0; i < 400; ++i) {
      if (rng.chance(0.6 / world)) ++front;
      const TimeNs now = kSecond + static_cast<TimeNs>(i) * kMillisecond;
      const Bytes datagram = random_datagram(rng, job, front);
      const jobs::Binding from = binding_of_sender(job, header_of(datagram));
      const Bytes wire = wrap(datagram, from, test_box(), kBasePort);
      const bool vouched = rng.chance(0.5);
      ReceivedFrame f(wire, from.port, vouched, 9000);
      ReceivedFrame g(wire, from.port, vouched, 9000);
      const pipeline::Outcome a = x.process(f.frame(), now);
      const pipeline::Outcome b = y.process(g.frame(), now);
      ASSERT_EQ(difference(a, b), "");
      if (a.verdict != Verdict::kDrop) {
        ASSERT_TRUE(f.buffer() == g.buffer());
      }
      if (!rng.chance(0.3)) continue;
      const bool aged = x.aged(now);
      ASSERT_EQ(y.aged(now), aged);
      if (!aged) continue;
      Bytes s(kHeaderBytes + 4 * kMaxElements);
      Bytes t(s.size());
      const pipeline::Outcome c = x.sweep(s, now);
      const pipeline::Outcome d = y.sweep(t, now);
      ASSERT_EQ(difference(c, d), "");
      ASSERT_TRUE(s == t);
    }
    EXPECT_EQ(x.counters(job.id), y.counters(job.id));
    EXPECT_GT(x.counters(job.id).of(Verdict::kAbsorb) + x.counters(job.id).of(Verdict::kComplete), 0U);
  }
}

}  // namespace
}  // namespace tally
