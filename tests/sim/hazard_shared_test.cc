// Hazards of docs/hazards.md that come with shared slots: who holds an entry, who takes it, who gives it
// back.

#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

// Rank 0 of job 0 fills the only entry with chunk 0; then job 1 takes it. What rank 1 of job 0 sends later
// finds no entry, and meets the evicted part at the server.
TEST(Hazard, eviction_and_a_late_packet) {
  HazardRack rack(sharing({.jobs = 2, .shared_entries = 1}));
  rack.join();
  rack.reduce_at(0, 0, 16, 0);
  rack.run_for(100 * kMicrosecond);
  rack.reduce_at(0, 0, 16, 1);  // the first arrival of its chunk
  rack.run_for(100 * kMicrosecond);
  EXPECT_EQ(rack.shared(0).evicted, 1U);
  EXPECT_EQ(rack.shared(1).swaps, 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id(0)), 0U);
  EXPECT_EQ(rack.box().occupancy(rack.id(1)), 1U);
  rack.reduce_at(1, 0, 16, 0);
  rack.run_for(100 * kMicrosecond);
  rack.expect_exact(0, 0);
  EXPECT_EQ(rack.shared(0).served, 1U);
  EXPECT_EQ(rack.counted(0).retransmissions + rack.counted(1).retransmissions, 0U);
  rack.reduce_at(1, 0, 16, 1);
  rack.expect_exact(0, 1);
  EXPECT_EQ(rack.shared(1).served, 0U);
}

// What is evicted is the sum of what the entry held, and a copy of a contribution in it changes nothing.
TEST(Hazard, eviction_and_a_late_copy) {
  HazardRack rack(sharing({.world = 3, .jobs = 2, .shared_entries = 1}));
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
  rack.reduce_at(0, 0, 16, 0);
  rack.reduce_at(1, 0, 16, 0);
  rack.run_for(100 * kMicrosecond);
  rack.reduce_at(0, 0, 16, 1);
  rack.run_for(100 * kMicrosecond);
  ASSERT_EQ(rack.shared(0).evicted, 1U);
  rack.replay_forgotten(sent, 0);
  EXPECT_EQ(rack.box().server().merged, 1U);  // the copy is inside the state
  EXPECT_EQ(rack.box().occupancy(rack.id(0)), 0U) << "a duplicate never claims";
  rack.reduce_at(2, 0, 16, 0);
  rack.expect_exact(0, 0);
}

// A contribution of a finished chunk whose result nobody keeps any more claims by hash an entry in which
// nothing will ever complete. It is swept.
TEST(Hazard, zombie_entry_of_a_finished_chunk) {
  HazardRack rack(sharing({.discipline = Discipline::kFcfs, .shared_entries = 1, .server_states = 1}));
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}});
  rack.expect_exact(rack.reduce(16));
  rack.expect_exact(rack.reduce(16));  // takes the entry of chunk 0
  ASSERT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.replay_forgotten(sent, 0);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  ASSERT_TRUE(rack.until([&] { return rack.box().occupancy(rack.id()) == 0; }, 2 * kSecond));
  EXPECT_EQ(rack.shared().swept, 1U);
  EXPECT_EQ(rack.box().server().incomplete, 1U) << "and is an orphan at the server";
  ASSERT_TRUE(rack.until([&] { return rack.box().server().incomplete == 0; }, 10 * kSecond));
  EXPECT_EQ(rack.box().server().aged, 1U);
  rack.expect_healthy();
}

// The ledger knows better: all have been seen. The first copy asks a peer and is summed nowhere, so that it
// leaves nothing behind; only who comes twice may mean it.
TEST(Hazard, zombie_of_a_finished_chunk_claims_nothing_with_a_ledger) {
  for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{2}}) {
    HazardRack rack(sharing({.cores = cores, .shared_entries = 1, .server_states = 1}));
    rack.join();
    const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}});
    for (int i = 0; i < 2 * cores; ++i) rack.expect_exact(rack.reduce(16));
    rack.replay_forgotten(sent, 0);
    EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
    EXPECT_EQ(rack.verdicts(Verdict::kRelay), 2U) << "the question, and the answer of rank 1";
    EXPECT_EQ(rack.box().server().incomplete, 0U);
    // Another goes to the server, where nobody will complete what it begins; but the answer of rank 1 shows that
    // it is finished.
    const std::uint64_t merged = rack.box().server().merged;
    rack.replay_forgotten(sent, 0);
    EXPECT_EQ(rack.verdicts(Verdict::kBypass), 1U);
    EXPECT_EQ(rack.box().server().merged, merged + 1);
    EXPECT_EQ(rack.verdicts(Verdict::kRelay), 3U) << "another answer";
    EXPECT_EQ(rack.box().server().incomplete, 0U);
    rack.expect_healthy();
  }
}

// The result is lost on its way to one rank, and its entry is somebody else's by the time the rank asks: the
// box asks a peer for it, and no timer has to run.
TEST(Hazard, lost_result_whose_entry_was_reclaimed) {
  HazardRack rack(sharing({.shared_entries = 1, .server_states = 1}));
  rack.join();
  const Rule& lost = rack.lose({.worker = 0, .up = false, .type = kResult}, 1);
  rack.reduce_at(0, 0, 16);
  rack.reduce_at(1, 0, 16);
  rack.reduce_at(0, 1, 16);
  rack.reduce_at(1, 1, 16);
  rack.expect_exact(0);
  rack.expect_exact(1);
  EXPECT_EQ(lost.hits(), 1U);
  EXPECT_EQ(rack.counted(0).retransmissions, 0U);
  EXPECT_EQ(rack.counted(0).asks, 1U);
  EXPECT_EQ(rack.counted(1).answers, 1U);
  EXPECT_EQ(rack.box().server().incomplete, 0U);
}

// Nobody got the result and nothing keeps it: what everybody sends again is summed again.
TEST(Hazard, lost_result_that_nobody_has) {
  HazardRack rack(sharing({.world = 3, .shared_entries = 1, .server_states = 4}));
  rack.join();
  const Rule& lost = rack.lose({.up = false, .type = kResult, .chunk = Chunk{0}}, 3);
  for (std::uint16_t r = 0; r < 3; ++r) {
    rack.reduce_at(r, 0, 16);
    rack.reduce_at(r, 1, 16);
  }
  rack.expect_exact(0);
  rack.expect_exact(1);
  EXPECT_EQ(lost.hits(), 3U);
  EXPECT_EQ(rack.shared().served, 1U);
}

// A row of zeros is not a row of chunk 0, whatever the numbers: seen == 0 says that it is empty.
TEST(Hazard, ledger_with_first_chunk_2_31_plus_5) {
  for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{3}}) {
    HazardRack rack(
        sharing({.world = 3, .first_chunk = Chunk{0x8000'0005U}, .cores = cores, .shared_entries = 2}));
    rack.join();
    const Rule& lost = rack.lose({.worker = 1, .up = true, .type = kContribution}, 3);
    rack.expect_exact(rack.reduce(16 * 200));
    EXPECT_EQ(lost.hits(), 3U);
    EXPECT_EQ(rack.drops(Drop::kStale), 0U);
    EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  }
}

TEST(Hazard, chunk_wrap_with_a_ledger) {
  HazardRack rack(sharing({.first_chunk = Chunk{0xFFFF'FFFDU}, .shared_entries = 2}));
  rack.join();
  const Rule& lost = rack.lose({.up = false, .type = kResult}, 5);
  rack.expect_exact(rack.reduce(16 * 60));
  EXPECT_EQ(lost.hits(), 5U);
  EXPECT_EQ(rack.drops(Drop::kStale), 0U);
}

// A class is above another: not only first arrivals take entries from it, and none of its own is lost.
TEST(Hazard, swap_by_a_higher_class) {
  for (const Discipline discipline : {Discipline::kShared, Discipline::kPreemptive}) {
    HazardRack rack(
        sharing({.jobs = 2, .discipline = discipline, .shared_entries = 1, .priorities = {10, 200}}));
    rack.join();
    rack.reduce_at(0, 0, 16 * 4, 0);
    rack.run_for(100 * kMicrosecond);
    EXPECT_EQ(rack.box().occupancy(rack.id(0)), 1U);
    rack.reduce_at(0, 0, 16, 1);
    rack.run_for(100 * kMicrosecond);
    EXPECT_EQ(rack.shared(1).swaps, 1U);
    rack.reduce_at(1, 0, 16 * 4, 0);  // takes nothing from above
    rack.run_for(100 * kMicrosecond);
    EXPECT_EQ(rack.shared(1).evicted, 0U);
    EXPECT_EQ(rack.box().occupancy(rack.id(1)), 1U);
    rack.expect_exact(0, 0);
    rack.reduce_at(1, 0, 16, 1);
    rack.expect_exact(0, 1);
    EXPECT_EQ(rack.shared(1).served, 0U) << "summed where it was claimed";
  }
}

// Job 0 has the whole region reserved, and its entry only waits: it is taken, once it is stalled.
TEST(Hazard, stalled_entry_is_taken_under_its_reservation) {
  HazardRack rack(
      sharing({.jobs = 2, .shared_entries = 1, .quotas = {{.reserved_ppm = members::kWholePpm}}}));
  rack.join();
  rack.reduce_at(0, 0, 16, 0);
  rack.run_for(50 * kMicrosecond);
  ASSERT_EQ(rack.status(0).reserved, 1U);
  ASSERT_EQ(rack.box().occupancy(rack.id(0)), 1U);
  rack.reduce_at(0, 0, 16, 1);  // at once: it has to go to the server
  rack.run_for(50 * kMicrosecond);
  EXPECT_EQ(rack.shared(1).denied, 1U);
  EXPECT_EQ(rack.shared(0).evicted, 0U);
  rack.run_for(kMillisecond);  // tau is 200 us while nothing is known of the job; it is swept after 10 ms
  rack.reduce_at(0, 1, 16, 1);
  rack.run_for(50 * kMicrosecond);
  EXPECT_EQ(rack.shared(0).evicted, 1U);
  EXPECT_EQ(rack.shared(1).swaps, 1U);
  rack.reduce_at(1, 0, 16, 0);
  rack.reduce_at(1, 0, 16, 1);
  rack.reduce_at(1, 1, 16, 1);
  rack.expect_exact(0, 0);
  rack.expect_exact(0, 1);
  rack.expect_exact(1, 1);
}

// Members die with entries half full. Nobody wipes them at once; the sweep gives all of them back.
TEST(Hazard, job_that_is_gone_gives_back_all_its_entries) {
  HazardRack rack(sharing({.lease = kSecond, .shared_entries = 16}));
  rack.join();
  rack.reduce_at(0, 0, 16 * 12);
  rack.run_for(kMillisecond);
  const JobId id = rack.id();
  EXPECT_GT(rack.box().occupancy(id), 0U);
  rack.worker(0).engine().abort("the program was interrupted", rack.now());
  rack.worker(0).resume_service();
  ASSERT_TRUE(rack.until([&] { return rack.worker(1).closed(); }));
  ASSERT_TRUE(rack.until([&] { return rack.box().occupancy(id) == 0; }, 2 * kSecond));
  EXPECT_EQ(rack.shared().swept, rack.shared().claims);
  EXPECT_EQ(rack.box().server().incomplete, 0U) << "what belongs to no epoch goes nowhere";
}

}  // namespace
}  // namespace tally::sim
