// Hazards of docs/hazards.md that come with the embedded server: what is split between an entry and a
// state, what the table forgets, what a restart leaves.

#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

// A contribution by way of the server, and then its plain copy: seen before, so it goes there too and is
// found inside the state.
TEST(Hazard, late_plain_copy_after_direct) {
  HazardRack rack(sharing());
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
  Rule& direct = rack.change({.worker = 0, .up = true, .type = kContribution}, [](Bytes& frame) {
    Header h = header_in(frame);
    h.flags |= kFlagDirect;
    set_header_in(frame, h);
  });
  rack.reduce_at(0, 0, 16);
  rack.run_for(100 * kMicrosecond);
  ASSERT_EQ(direct.hits(), 1U);
  direct.left = 0;
  EXPECT_EQ(rack.box().server().incomplete, 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.replay_forgotten(sent, 0);  // as it was before the change
  EXPECT_EQ(rack.verdicts(Verdict::kBypass), 2U);
  EXPECT_EQ(rack.box().server().merged, 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.reduce_at(1, 0, 16);
  rack.expect_exact(0);
  EXPECT_EQ(rack.shared().served, 1U);
}

// The last arrival finds its chunk split: what the entry holds follows to the server and completes at once.
TEST(Hazard, partial_of_a_last_arrival) {
  HazardRack rack(sharing({.world = 3, .jobs = 2, .shared_entries = 1}));
  rack.join();
  rack.change(
      {.worker = 0, .up = true, .type = kContribution},
      [](Bytes& frame) {
        Header h = header_in(frame);
        h.flags |= kFlagDirect;
        set_header_in(frame, h);
      },
      1);
  rack.reduce_at(1, 0, 16, 0);
  rack.run_for(100 * kMicrosecond);
  ASSERT_EQ(rack.box().occupancy(rack.id(0)), 1U);
  rack.reduce_at(0, 0, 16, 0);  // to the server
  rack.run_for(100 * kMicrosecond);
  ASSERT_EQ(rack.box().server().incomplete, 1U);
  const TimeNs before = rack.now();
  rack.reduce_at(2, 0, 16, 0);
  rack.expect_exact(0, 0);
  EXPECT_LT(rack.now() - before, 100 * kMicrosecond) << "no timer had to run";
  EXPECT_EQ(rack.shared(0).partials, 1U);
  EXPECT_EQ(rack.shared(0).served, 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id(0)), 0U);
}

// A job that waits for a rank of its own fills the server's table, and offers again what finds no state.
TEST(Hazard, job_that_waits_leaves_the_server_to_others) {
  HazardRack rack(sharing({.jobs = 2, .shared_entries = 1, .server_states = 2}));
  rack.join();
  rack.reduce_at(0, 0, 16 * 12, 0);  // rank 1 is late with its operation
  rack.run_for(kSecond);
  ASSERT_EQ(rack.box().server().incomplete, 2U);
  const TimeNs before = rack.now();
  rack.expect_exact(rack.reduce(16 * 4, 1), 1);
  EXPECT_LT(rack.now() - before, 2 * kSecond);
  EXPECT_EQ(rack.box().server().aged, 0U);
  rack.reduce_at(1, 0, 16 * 12, 0);
  rack.expect_exact(0, 0);
}

// Fewer states than chunks in flight: the server forgets, the workers offer again.
TEST(Hazard, embedded_table_forgets_a_chunk) {
  HazardRack rack(sharing({.world = 3, .jobs = 2, .shared_entries = 1, .server_states = 2}));
  rack.join();
  const std::size_t first = rack.reduce(16 * 12, 0);
  const std::size_t second = rack.reduce(16 * 12, 1);
  rack.expect_exact(first, 0, 300 * kSecond);
  rack.expect_exact(second, 1, 300 * kSecond);
  EXPECT_GT(rack.box().server().forgotten, 0U);
  EXPECT_GT(rack.shared(0).served + rack.shared(1).served, 0U);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
}

// The result of a chunk is lost to one rank, and its entry and state are those of later chunks by then.
TEST(Hazard, result_that_the_box_forgot_comes_from_a_peer) {
  HazardRack rack(sharing({.shared_entries = 1, .server_states = 1}));
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{0}}, 1);
  rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return lost.hits() == 1; }));
  const std::size_t next = rack.reduce(16);
  rack.expect_exact(next);
  rack.expect_exact(next - 1);
  EXPECT_EQ(rack.counted(0).answers, 1U);
}

// A state that nobody completes: its rank's packet was a replay of long ago, or its job is gone.
TEST(Hazard, orphan_state_at_the_server) {
  HazardRack rack(sharing({.jobs = 2, .shared_entries = 1}));
  rack.join();
  rack.reduce_at(0, 0, 16 * 3, 0);
  rack.run_for(kMillisecond / 2);
  rack.reduce_at(0, 0, 16, 1);
  rack.run_for(kMillisecond / 2);
  ASSERT_GT(rack.box().server().incomplete, 0U);
  rack.worker(0, 0).engine().abort("the program was interrupted", rack.now());
  rack.worker(0, 0).resume_service();
  rack.worker(0, 1).engine().abort("the program was interrupted", rack.now());
  rack.worker(0, 1).resume_service();
  ASSERT_TRUE(rack.until([&] { return rack.worker(1, 0).closed() && rack.worker(1, 1).closed(); }));
  rack.run_for(kMillisecond);
  EXPECT_EQ(rack.box().server().incomplete, 0U);
}

// Entries, ledger and states are gone in mid operation; control is not, or is too.
TEST(Hazard, box_restart_with_a_shared_job) {
  for (const bool everything : {false, true}) {
    for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{2}}) {
      HazardRack rack(sharing({.world = 3, .cores = cores, .shared_entries = 3}));
      rack.join();
      rack.lose({.worker = 2, .up = false, .type = kResult}, 2);
      const std::size_t sum = rack.reduce(16 * 100);
      rack.run_for(150 * kMicrosecond);
      ASSERT_FALSE(rack.done(0, sum));
      const std::uint64_t results = rack.counted(0).results;
      everything ? rack.box().restart() : rack.box().restart_data_plane();
      rack.expect_exact(sum);
      EXPECT_GT(rack.counted(0).results, results);
      EXPECT_EQ(rack.counted(0).epochs, 2U);
      EXPECT_EQ(rack.counted(0).generations, 1U);
      rack.expect_healthy();
    }
  }
}

// Two places for 16 chunks in flight: each forgets the others before they are complete, so that no rank ever
// gets a sample of the round trip, and all of them repeat after 1 s. When losses are over they must find
// together: each brings its oldest chunk again and again, and what is answered then ends the back-off.
TEST(Hazard, fewer_places_than_chunks_in_flight) {
  HazardRack rack(sharing({.world = 4, .shared_entries = 1, .server_states = 1}));
  rack.sim().network().set_faults({.loss = 0.2});
  rack.join();
  const auto number = rack.reduce(8'000);
  rack.run_for(10 * kSecond);
  rack.sim().network().set_faults({});
  rack.expect_exact(number, 0, 5 * kSecond);
}

// The bound on starvation, without loss: a chunk is denied at most once per member, what was denied is summed
// at the server, and nothing is sent twice. One entry for two jobs, and it is reserved or never given up.
TEST(Hazard, starvation_is_bounded) {
  constexpr std::uint32_t kChunks = 40;
  constexpr std::uint16_t kWorld = 3;
  for (const Discipline discipline : {Discipline::kShared, Discipline::kFcfs}) {
    HazardRack rack({.world = kWorld,
                     .jobs = 2,
                     .discipline = discipline,
                     .shared_entries = 1,
                     .quotas = {{.reserved_ppm = members::kWholePpm}}});
    rack.join();
    rack.reduce_at(0, 0, 16 * kChunks, 0);  // holds the entry while the other job comes
    rack.reduce(16 * kChunks, 1);
    rack.run_for(50 * kMicrosecond);
    for (const std::uint16_t rank : {std::uint16_t{1}, std::uint16_t{2}})
      rack.reduce_at(rank, 0, 16 * kChunks, 0);
    std::uint64_t denied = 0;
    for (const std::uint16_t job : {std::uint16_t{0}, std::uint16_t{1}}) {
      rack.expect_exact(0, job);
      const pipeline::SlotCounters counted = rack.shared(job);
      EXPECT_LE(counted.denied, std::uint64_t{kChunks} * kWorld);
      EXPECT_LE(counted.swaps, kChunks) << "within a class once per chunk";
      EXPECT_LE(counted.served, kChunks);
      for (std::uint16_t r = 0; r < kWorld; ++r)
        EXPECT_EQ(rack.counted(r, job).retransmissions, 0U) << "rank " << r << " of job " << job;
      denied += counted.denied;
    }
    EXPECT_GT(denied, 0U);
    EXPECT_GE(rack.box().server().merged, denied);
    EXPECT_EQ(rack.box().server().completed, rack.shared(0).served + rack.shared(1).served);
    EXPECT_EQ(rack.box().server().incomplete, 0U);
    EXPECT_EQ(rack.box().server().forgotten, 0U);
  }
}

}  // namespace
}  // namespace tally::sim
