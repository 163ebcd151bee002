// Hazards of docs/hazards.md that come with servers in processes of their own: what is lost between box
// and server, what a server forgets with its process, what is split between an entry and a state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

constexpr auto kPartial = PacketType::kPartial;

RackOptions external(RackOptions o = {}) {
  if (!shares_slots(o.discipline)) o.discipline = Discipline::kShared;
  if (o.servers == 0) o.servers = 1;
  return o;
}

// The next contribution of the rank of job 0 asks for the server.
void go_direct(HazardRack& rack, std::uint16_t rank, int times = 1) {
  rack.change(
      {.worker = rank, .up = true, .type = kContribution},
      [](Bytes& frame) {
        Header h = header_in(frame);
        h.flags |= kFlagDirect;
        set_header_in(frame, h);
      },
      times);
}

void settle(HazardRack& rack) { rack.run_for(100 * kMicrosecond); }

// What finds no slot is summed by the server, and nobody sends anything twice.
TEST(HazardExternal, sums_what_finds_no_slot) {
  for (const Discipline discipline : {Discipline::kShared, Discipline::kFcfs, Discipline::kPreemptive}) {
    for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{3}}) {
      HazardRack rack(external({.world = 3,
                                .jobs = 2,
                                .first_chunk = Chunk{0xFFFF'FFFDU},
                                .cores = cores,
                                .discipline = discipline,
                                .shared_entries = 2}));
      rack.join();
      const std::size_t first = rack.reduce(16 * 100, 0);
      const std::size_t second = rack.reduce(16 * 100, 1);
      rack.expect_exact(first, 0);
      rack.expect_exact(second, 1);
      EXPECT_GT(rack.server().counted(0).completed + rack.server().counted(1).completed, 0U);
      EXPECT_GT(rack.shared(0).served + rack.shared(1).served, 0U);
      ASSERT_TRUE(rack.until([&] { return rack.server().incomplete() == 0; }));
    }
  }
}

TEST(HazardExternal, eviction_and_a_late_packet) {
  HazardRack rack(external({.jobs = 2, .shared_entries = 1}));
  rack.join();
  rack.reduce_at(0, 0, 16, 0);
  settle(rack);
  rack.reduce_at(0, 0, 16, 1);  // the first arrival of its chunk
  settle(rack);
  EXPECT_EQ(rack.shared(0).evicted, 1U);
  EXPECT_EQ(rack.server().counted(0).partials, 1U);
  EXPECT_EQ(rack.server().incomplete(), 1U);
  rack.reduce_at(1, 0, 16, 0);
  settle(rack);
  rack.expect_exact(0, 0);
  EXPECT_EQ(rack.server().counted(0).completed, 1U);
  EXPECT_EQ(rack.server().counted(0).resends, 0U);
  EXPECT_EQ(rack.counted(0).retransmissions + rack.counted(1).retransmissions, 0U);
  rack.reduce_at(1, 0, 16, 1);
  rack.expect_exact(0, 1);
}

// The same, and what was evicted never arrives: the server asks for it, before any worker's timer.
TEST(HazardExternal, partial_lost) {
  HazardRack rack(external({.jobs = 2, .shared_entries = 1}));
  rack.join();
  const Rule& lost = rack.lose({.worker = rack.server_link(), .up = false, .type = kPartial}, 1);
  rack.reduce_at(0, 0, 16, 0);
  settle(rack);
  rack.reduce_at(0, 0, 16, 1);
  settle(rack);
  ASSERT_EQ(lost.hits(), 1U);
  EXPECT_EQ(rack.server().incomplete(), 0U);
  const TimeNs before = rack.now();
  rack.reduce_at(1, 0, 16, 0);
  rack.expect_exact(0, 0);
  EXPECT_LT(rack.now() - before, 10 * kMillisecond);
  EXPECT_EQ(rack.server().counted(0).flushes, 2U) << "one in vain, one when all was done";
  EXPECT_EQ(rack.server().counted(0).resends, 1U);
  EXPECT_EQ(rack.counted(0).direct, 1U);
  EXPECT_EQ(rack.counted(0).retransmissions, 1U);
  rack.reduce_at(1, 0, 16, 1);
  rack.expect_exact(0, 1);
}

// Nobody has the RESULT but the server: peers are asked in vain, then the server, before any timer.
TEST(HazardExternal, result_of_a_server_that_reached_nobody) {
  HazardRack rack(external({.world = 3}));
  rack.join();
  rack.expect_exact(rack.reduce(16));  // workers know now how long a round trip is
  const Rule& lost = rack.lose({.worker = rack.server_link(), .up = true, .type = kResult}, 1);
  for (std::uint16_t r = 0; r < 3; ++r) go_direct(rack, r);
  const TimeNs before = rack.now();
  rack.expect_exact(rack.reduce(16));
  EXPECT_EQ(lost.hits(), 1U);
  EXPECT_LT(rack.now() - before, 3 * kMillisecond);
  EXPECT_GE(rack.server().counted().queries, 1U);
  EXPECT_EQ(rack.server().counted().resends, 0U) << "it lacks nothing";
  for (std::uint16_t r = 0; r < 3; ++r) EXPECT_EQ(rack.counted(r).retransmissions, 0U);
}

// What was lost on the way to the server comes by a question, too, before the server's own timer asks for it.
TEST(HazardExternal, question_brings_what_was_lost_on_the_way_to_the_server) {
  HazardRack rack(external({.world = 3}));
  rack.join();
  rack.expect_exact(rack.reduce(16));
  const Rule& lost = rack.lose({.worker = rack.server_link(), .up = false, .type = kContribution}, 2);
  for (std::uint16_t r = 0; r < 3; ++r) go_direct(rack, r);
  const TimeNs before = rack.now();
  rack.expect_exact(rack.reduce(16));
  EXPECT_EQ(lost.hits(), 2U);
  EXPECT_LT(rack.now() - before, 3 * kMillisecond);
  EXPECT_GE(rack.server().counted().queries, 1U);
  EXPECT_GE(rack.server().counted().resends, 1U);
  for (std::uint16_t r = 0; r < 3; ++r)
    EXPECT_LE(rack.counted(r).direct, 2U) << "asked for by its own question and by another's";
}

// A chunk that is split between entry and server when its last contribution comes: the entry is sent after
// it, and lost.
TEST(HazardExternal, partial_of_a_last_arrival_lost) {
  for (const bool lose : {false, true}) {
    HazardRack rack(external({.world = 3}));
    rack.join();
    Rule& lost = rack.lose({.worker = rack.server_link(), .up = false, .type = kPartial}, lose ? 1 : 0);
    go_direct(rack, 0);
    rack.reduce_at(0, 0, 16);
    settle(rack);
    rack.reduce_at(1, 0, 16);
    settle(rack);
    EXPECT_EQ(rack.server().incomplete(), 1U);
    EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
    const TimeNs before = rack.now();
    rack.reduce_at(2, 0, 16);
    rack.expect_exact(0);
    EXPECT_EQ(rack.shared().partials, 1U);
    EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
    EXPECT_EQ(lost.hits(), lose ? 1U : 0U);
    EXPECT_EQ(rack.server().counted().resends, lose ? 1U : 0U);
    for (const std::uint16_t rank : {std::uint16_t{1}, std::uint16_t{2}})
      EXPECT_EQ(rack.counted(rank).direct, lose ? 1U : 0U);
    EXPECT_LT(rack.now() - before, lose ? 10 * kMillisecond : 100 * kMicrosecond);
    rack.expect_healthy();
  }
}

// The last contribution asks for the server and leaves its chunk's entry behind. The server fetches it.
TEST(HazardExternal, direct_last_arrival_leaves_an_entry_behind) {
  HazardRack rack(external({.world = 3}));
  rack.join();
  rack.reduce_at(0, 0, 16);
  rack.reduce_at(1, 0, 16);
  settle(rack);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  go_direct(rack, 2);
  const TimeNs before = rack.now();
  rack.reduce_at(2, 0, 16);
  rack.expect_exact(0);
  EXPECT_LT(rack.now() - before, 5 * kMillisecond);
  EXPECT_EQ(rack.server().counted().partials, 1U);
  EXPECT_EQ(rack.shared().flushed, 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  for (std::uint16_t r = 0; r < 3; ++r) EXPECT_EQ(rack.counted(r).retransmissions, 0U);
  EXPECT_GT(rack.server().counted().flush_time, 0U);
}

// A copy of a contribution that went to the server: with a ledger it follows it; by hash it claims an entry,
// in which the chunk may even complete, and the state is left behind.
TEST(HazardExternal, late_plain_copy_after_direct) {
  for (const Discipline discipline : {Discipline::kShared, Discipline::kFcfs}) {
    HazardRack rack(external({.discipline = discipline}));
    rack.join();
    const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
    go_direct(rack, 0);
    rack.reduce_at(0, 0, 16);
    settle(rack);
    EXPECT_EQ(rack.server().counted().merged, 1U);
    rack.replay_forgotten(sent, 0);  // as it was before the change
    settle(rack);
    const bool ledger = discipline == Discipline::kShared;
    EXPECT_EQ(rack.server().counted().inside, ledger ? 1U : 0U);
    EXPECT_EQ(rack.box().occupancy(rack.id()), ledger ? 0U : 1U);
    rack.reduce_at(1, 0, 16);
    rack.expect_exact(0);
    ASSERT_TRUE(rack.until([&] { return rack.server().incomplete() == 0; }, kSecond));
    EXPECT_EQ(rack.server().counted().completed, 1U) << "by itself, or by the box's sum";
    EXPECT_EQ(rack.server().counted().sums, ledger ? 0U : 1U);
    EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
    rack.expect_healthy();
  }
}

// A replay of a finished chunk begins a state that nobody will complete. While the box keeps the sum it tells
// it; later a worker does.
TEST(HazardExternal, orphan_state_at_the_server) {
  for (const bool kept : {true, false}) {
    HazardRack rack(external({.world = 3, .shared_entries = 1}));
    rack.join();
    const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}});
    go_direct(rack, 0, 0);
    rack.expect_exact(rack.reduce(16));
    if (!kept) rack.expect_exact(rack.reduce(16));  // takes the entry
    Bytes frame = sent.frames.at(0);
    Header h = header_in(frame);
    h.flags |= kFlagDirect;
    h.slot = Be{kForgottenSequence};
    set_header_in(frame, h);
    rack.sim().network().inject(0, true, frame);
    settle(rack);
    ASSERT_EQ(rack.server().incomplete(), 1U);
    ASSERT_TRUE(rack.until([&] { return rack.server().incomplete() == 0; }, kSecond));
    EXPECT_EQ(rack.server().counted().completed, 1U);
    EXPECT_EQ(rack.server().counted().fruitless, 0U);
    EXPECT_EQ(rack.counted(1).answers + rack.counted(2).answers, kept ? 0U : 2U);
    settle(rack);
    EXPECT_EQ(rack.counted(0).of(Refused::kLate), 1U) << "it gets the sum once more";
    rack.expect_healthy();
  }
}

// The states of a job that is gone are gone.
TEST(HazardExternal, orphan_states_of_a_job_that_ended) {
  HazardRack rack(external({.jobs = 2, .shared_entries = 1}));
  rack.join();
  go_direct(rack, 0, 3);
  rack.reduce_at(0, 0, 16 * 3, 0);
  settle(rack);
  ASSERT_EQ(rack.server().incomplete(), 3U);
  rack.worker(0, 0).engine().abort("the program was interrupted", rack.now());
  rack.worker(0, 0).resume_service();
  ASSERT_TRUE(rack.until([&] { return rack.worker(1, 0).closed(); }));
  settle(rack);
  EXPECT_EQ(rack.server().incomplete(), 0U);
  rack.expect_healthy(1);
  // The server waits for the next members of the job.
  for (const std::uint16_t rank : {std::uint16_t{0}, std::uint16_t{1}}) rack.worker(rank, 0).program_again();
  ASSERT_TRUE(rack.until([&] { return rack.running(0); }));
  rack.expect_healthy(0);
}

// By hash a replay claims an entry in which nothing completes. It is swept to the server, which asks.
TEST(HazardExternal, zombie_entry_of_a_finished_chunk) {
  HazardRack rack(external({.discipline = Discipline::kFcfs, .shared_entries = 1}));
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}});
  rack.expect_exact(rack.reduce(16));
  rack.expect_exact(rack.reduce(16));  // takes the entry of chunk 0
  ASSERT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.replay_forgotten(sent, 0);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  ASSERT_TRUE(rack.until([&] { return rack.box().occupancy(rack.id()) == 0; }, 2 * kSecond));
  EXPECT_EQ(rack.shared().swept, 1U);
  ASSERT_TRUE(rack.until([&] { return rack.server().counted().completed == 1; }, kSecond));
  EXPECT_EQ(rack.server().counted().partials, 1U);
  EXPECT_EQ(rack.server().incomplete(), 0U);
  EXPECT_EQ(rack.counted(1).answers, 1U);
  rack.expect_healthy();
}

// The process is gone with half a chunk, and another one is there at once, with an empty table.
TEST(HazardExternal, server_restart_mid_chunk) {
  HazardRack rack(external({.world = 3}));
  rack.join();
  go_direct(rack, 0);
  go_direct(rack, 1);
  rack.reduce_at(0, 0, 16);
  rack.reduce_at(1, 0, 16);
  settle(rack);
  ASSERT_EQ(rack.server().incomplete(), 1U);
  rack.server().crash();
  rack.server().start();
  ASSERT_TRUE(rack.until([&] { return rack.server().running(); }, 5 * kMillisecond))
      << "its place is its own";
  const TimeNs before = rack.now();
  rack.reduce_at(2, 0, 16);  // the last one that the box sees
  rack.expect_exact(0);
  EXPECT_LT(rack.now() - before, 20 * kMillisecond);
  EXPECT_GE(rack.counted(0).direct + rack.counted(1).direct, 2U);
  for (std::uint16_t r = 0; r < 3; ++r) EXPECT_EQ(rack.counted(r).epochs, 1U);
  rack.expect_healthy();
}

// Some ranks have the sum, one has not, and the server that made it is another process now.
TEST(HazardExternal, server_restart_beside_lost_results) {
  HazardRack rack(external({.world = 3}));
  rack.join();
  const Rule& lost = rack.lose({.worker = 2, .up = false, .type = kResult}, 1);
  for (std::uint16_t r = 0; r < 3; ++r) go_direct(rack, r);
  const std::size_t sum = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum) && rack.done(1, sum); }));
  ASSERT_EQ(lost.hits(), 1U);
  rack.server().crash();
  rack.server().start();
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(2).epochs, 1U);
  rack.expect_healthy();
}

// Down for a while in mid operation: what goes to it is lost, and sent again.
TEST(HazardExternal, server_crash_and_return_under_load) {
  HazardRack rack(external({.world = 3, .jobs = 2, .shared_entries = 2}));
  rack.join();
  const std::size_t first = rack.reduce(16 * 300, 0);
  const std::size_t second = rack.reduce(16 * 300, 1);
  rack.run_for(300 * kMicrosecond);
  ASSERT_FALSE(rack.done(first, 0));
  rack.server().crash();
  rack.run_for(300 * kMillisecond);
  rack.server().start();
  rack.expect_exact(first, 0);
  rack.expect_exact(second, 1);
  for (const std::uint16_t job : {std::uint16_t{0}, std::uint16_t{1}})
    EXPECT_EQ(rack.counted(0, job).epochs, 1U);
}

// It does not come back: the job ends, and the text names it.
TEST(HazardExternal, server_gone_for_good_is_named) {
  HazardRack rack(external({.lease = kSecond}));
  rack.join();
  rack.expect_healthy();
  rack.server().crash();
  const TimeNs before = rack.now();
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed() && rack.worker(1).closed(); }));
  EXPECT_LT(rack.now() - before, 3 * kSecond);
  EXPECT_THAT(rack.worker(0).engine().why_closed().what,
              testing::HasSubstr("server 0 at 10.0.200.1 was silent"));
}

// Slow beyond every timer, but alive.
TEST(HazardExternal, server_pausing_longer_than_rto_but_alive) {
  HazardRack rack(external({.world = 3, .shared_entries = 1}));
  rack.join();
  const std::size_t sum = rack.reduce(16 * 100);
  rack.run_for(200 * kMicrosecond);
  rack.server().pause(rack.now() + 700 * kMillisecond);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
  ASSERT_TRUE(rack.until([&] { return rack.server().incomplete() == 0; }));
}

// Each server gets its chunks and no others, and both are needed.
TEST(HazardExternal, two_servers_share_the_chunks) {
  for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{2}}) {
    HazardRack rack(external({.world = 3, .jobs = 2, .cores = cores, .shared_entries = 1, .servers = 2}));
    rack.join();
    const Rule& zero = rack.record({.worker = rack.server_link(0), .up = false});
    const Rule& one = rack.record({.worker = rack.server_link(1), .up = false});
    rack.lose({.also = [n = 0](const Header&) mutable { return ++n % 20 == 0; }}, 200);
    const std::size_t first = rack.reduce(16 * 200, 0);
    const std::size_t second = rack.reduce(16 * 200, 1);
    rack.expect_exact(first, 0);
    rack.expect_exact(second, 1);
    for (const Rule* rule : {&zero, &one}) {
      std::size_t chunks = 0;
      for (const Bytes& frame : rule->frames) {
        const Header h = header_in(frame);
        if (is_control(h.type) || h.type == PacketType::kReject) continue;
        EXPECT_EQ(h.chunk.host() % 2, rule == &one ? 1U : 0U);
        ++chunks;
      }
      EXPECT_GT(chunks, 0U);
    }
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
      EXPECT_GT(rack.server(i).counted(0).completed + rack.server(i).counted(1).completed, 0U);
    EXPECT_EQ(rack.counted(0).epochs, 1U);
  }
}

// Of everything between box and server a fifth is lost, another fifth comes twice.
TEST(HazardExternal, loss_and_copies_of_everything) {
  HazardRack rack(external({.world = 4, .jobs = 2, .shared_entries = 2, .server_states = 6}));
  rack.join();
  rack.lose({.worker = rack.server_link(),
             .also = [n = 0](const Header& h) mutable { return !is_control(h.type) && ++n % 5 == 0; }});
  rack.copy({.worker = rack.server_link(),
             .also = [n = 0](const Header& h) mutable { return !is_control(h.type) && ++n % 5 == 2; }});
  const std::size_t first = rack.reduce(16 * 300, 0);
  const std::size_t second = rack.reduce(16 * 300, 1);
  rack.expect_exact(first, 0, 300 * kSecond);
  rack.expect_exact(second, 1, 300 * kSecond);
  const ps::PsJobStatistics& s = rack.server().counted(0);
  EXPECT_GT(s.partials, 0U);
  EXPECT_GT(s.flushes, s.completed) << "timers ran";
  EXPECT_EQ(s.mismatches + s.bad_sums, 0U);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
}

// Sizes that differ are found where the contributions meet; here that is the server.
TEST(HazardExternal, operation_mismatch_at_the_server) {
  HazardRack rack(external());
  rack.join();
  go_direct(rack, 0, 100);
  go_direct(rack, 1, 100);
  rack.reduce_at(0, 0, 352);
  settle(rack);
  rack.reduce_at(1, 0, 704);
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed() && rack.worker(1).closed(); }));
  EXPECT_THAT(rack.error(0, 0), testing::HasSubstr("they issue different operations"));
  EXPECT_THAT(rack.error(0, 0), testing::HasSubstr("of 704"));
}

}  // namespace
}  // namespace tally::sim
