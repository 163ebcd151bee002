// The hazard 'straggler' of docs/hazards.md in jobs that opted in to INCOMPLETE results: the others go on
// without it, and whatever is lost or restarted meanwhile, nobody ever holds another sum of a chunk than the
// others do (../models/protocol/straggler.cc).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

using testing::HasSubstr;

constexpr TimeNs kTimeout = 50 * kMillisecond;

RackOptions rack_of(std::uint16_t world, std::uint16_t least) {
  return {.world = world, .stragglers = members::StragglerPolicy{kTimeout, least}};
}
bool has(HazardRack& rack, std::uint16_t rank, std::size_t number) { return rack.done(rank, number); }

// Every rank that is done has the same sums, of exactly the ranks it names, and names the same.
void expect_agreement(HazardRack& rack, std::size_t number) {
  std::optional<OperationStats> first;
  for (const std::uint16_t rank : rack.ranks()) {
    if (!rack.done(rank, number)) continue;
    rack.expect_named_at(rank, number);
    const OperationStats& stats = rack.stats(rank, number);
    if (!first) first = stats;
    EXPECT_EQ(stats.partial, first->partial) << rank;
    EXPECT_EQ(stats.contributors, first->contributors) << rank;
    EXPECT_EQ(stats.overflow, first->overflow) << rank;
  }
}

TEST(HazardStraggler, straggler_that_the_others_do_not_wait_for) {
  HazardRack rack(rack_of(3, 2));
  rack.join();
  rack.reduce_at(0, 0, 16 * 40);
  rack.reduce_at(2, 0, 16 * 40);
  ASSERT_TRUE(rack.until([&] { return has(rack, 0, 0) && has(rack, 2, 0); }, kSecond));
  EXPECT_EQ(rack.stats(0, 0).contributors, 0b101U);
  EXPECT_EQ(rack.stats(0, 0).incomplete_chunks, 40U);
  EXPECT_EQ(rack.stats(0, 0).partial.size(), 1U) << "neighbours are one";
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  EXPECT_EQ(rack.box().incomplete(rack.id()), 40U);
  // It comes late, and offers what was finished without it: some from the box, some from peers.
  rack.reduce_at(1, 0, 16 * 40);
  ASSERT_TRUE(rack.until([&] { return has(rack, 1, 0); }));
  expect_agreement(rack, 0);
  EXPECT_GT(rack.verdicts(Verdict::kRepeat), 0U);
  EXPECT_EQ(rack.verdicts(Verdict::kComplete), 0U) << "never an add";
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.expect_healthy();
  EXPECT_FALSE(rack.stats(0, 1).incomplete);
}

TEST(HazardStraggler, fewer_than_the_least_wait_for_the_straggler) {
  HazardRack rack(rack_of(3, 3));
  rack.join();
  rack.reduce_at(0, 0, 16 * 4);
  rack.reduce_at(2, 0, 16 * 4);
  rack.run_for(2 * kSecond);
  EXPECT_FALSE(has(rack, 0, 0));
  rack.reduce_at(1, 0, 16 * 4);
  rack.expect_exact(0);
}

TEST(HazardStraggler, lost_incomplete_result_of_every_rank) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  const Rule& lost = rack.lose(
      {.up = false, .type = kResult, .also = [](const Header& h) { return h.flags == kFlagIncomplete; }});
  rack.reduce_at(0, 0, 16 * 6);
  rack.reduce_at(2, 0, 16 * 6);
  ASSERT_TRUE(rack.until([&] { return has(rack, 0, 0) && has(rack, 2, 0); }));
  EXPECT_EQ(lost.hits(), 18U) << "the stored ones come with RETRANSMIT";
  expect_agreement(rack, 0);
}

// A late contribution under way when the result was sent, and copies of it ever after.
TEST(HazardStraggler, late_contributor_and_its_duplicates_change_nothing) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  const Rule& sent = rack.record({.worker = 1, .up = true, .type = PacketType::kContribute});
  const Rule& lost = rack.lose({.worker = 1, .up = true, .type = PacketType::kContribute}, 3);
  const std::size_t sum = rack.reduce(16 * 3);
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  EXPECT_EQ(lost.hits(), 3U);
  EXPECT_EQ(rack.stats(1, sum).contributors, 0b101U);
  expect_agreement(rack, sum);
  const std::uint64_t repeats = rack.verdicts(Verdict::kRepeat);
  rack.replay(sent, 1, true);
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), repeats + sent.hits());
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.expect_healthy();
}

// Rank 0 has the sum of 0 and 2, the others lost it, and the box forgets. The others must not make a sum of
// their own: rank 0's is to be had.
TEST(HazardStraggler, fence_against_a_result_of_an_earlier_epoch) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  rack.lose({.worker = 1, .up = false, .type = kResult}, 5);
  rack.lose({.worker = 2, .up = false, .type = kResult}, 5);
  rack.lose({.worker = 1, .up = true, .type = PacketType::kContribute}, 1);
  const std::size_t sum = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }, kSecond));
  EXPECT_FALSE(rack.done(1, sum) || rack.done(2, sum));
  EXPECT_EQ(rack.stats(0, sum).contributors, 0b101U);
  rack.box().restart_data_plane();
  const Rule& from_the_box = rack.record(
      {.up = false, .type = kResult, .also = [](const Header& h) { return h.flags == kFlagIncomplete; }});
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  expect_agreement(rack, sum);
  EXPECT_EQ(from_the_box.hits(), 0U);
  EXPECT_EQ(rack.box().incomplete(rack.id()), 0U) << "in the life since";
  EXPECT_GT(rack.counted(0).answers, 0U);
  rack.expect_healthy();
}

// The same, but nobody has a result: what was offered before is summed of everybody, however long it takes.
TEST(HazardStraggler, no_incomplete_result_below_the_fence) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  rack.reduce_at(0, 0, 16 * 4);
  rack.run_for(kTimeout / 2);
  rack.box().restart_data_plane();
  ASSERT_TRUE(rack.until([&] { return rack.running() && rack.counted(0).epochs == 2; }));
  rack.run_for(10 * kTimeout);
  EXPECT_FALSE(has(rack, 0, 0));
  rack.reduce_at(0, 1, 16 * 4);  // behind the fence
  rack.run_for(10 * kTimeout);
  EXPECT_EQ(rack.box().incomplete(rack.id()), 4U);
  rack.reduce_at(1, 0, 16 * 4);
  rack.reduce_at(2, 0, 16 * 4);
  rack.expect_exact(0);
  rack.reduce_at(1, 1, 16 * 4);
  rack.reduce_at(2, 1, 16 * 4);
  ASSERT_TRUE(rack.until([&] { return rack.done(1); }));
  expect_agreement(rack, 1);
  EXPECT_EQ(rack.stats(2, 1).contributors, 0b001U);
}

// While one member has not heard of the new epoch, the others' chunks may be finished without it: it comes,
// offers them and gets what they have.
TEST(HazardStraggler, joined_of_the_new_epoch_lost_to_the_straggler) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  rack.expect_healthy();
  rack.box().restart();
  rack.lose({.worker = 1, .up = false, .type = PacketType::kJoined}, 4);
  const std::size_t sum = rack.reduce(16 * 30);
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  expect_agreement(rack, sum);
  EXPECT_EQ(rack.counted(1).generations, 1U);
  rack.expect_healthy();
}

// The box has lost everything, and older copies of JOINs come from two ranks that have gone ahead since,
// while what they say now is lost: with these the epoch's fence would lie before chunks that they hold, and
// the other two would get other sums of these. But their challenges are of the box's former life.
TEST(HazardStraggler, two_sums_after_total_loss_and_copies_of_old_joins) {
  HazardRack rack(rack_of(4, 2));
  rack.join();
  rack.expect_healthy();
  const Rule& joins_0 = rack.record({.worker = 0, .up = true, .type = PacketType::kJoin});
  const Rule& joins_1 = rack.record({.worker = 1, .up = true, .type = PacketType::kJoin});
  rack.box().restart_data_plane();
  const auto in_epoch = [&](std::uint16_t rank, std::uint64_t epochs) {
    return rack.worker(rank).engine_running() && rack.counted(rank).epochs == epochs;
  };
  ASSERT_TRUE(
      rack.until([&] { return in_epoch(0, 2) && in_epoch(1, 2) && in_epoch(2, 2) && in_epoch(3, 2); }));
  const std::vector<Bytes> old_0 = joins_0.frames;
  const std::vector<Bytes> old_1 = joins_1.frames;
  rack.reduce_at(0, 1, 16 * 4);
  rack.reduce_at(1, 1, 16 * 4);
  ASSERT_TRUE(rack.until([&] { return has(rack, 0, 1) && has(rack, 1, 1); }, kSecond));
  ASSERT_EQ(rack.stats(0, 1).contributors, 0b0011U);
  rack.box().restart();
  Rule& silent_0 = rack.lose({.worker = 0, .up = true});
  Rule& silent_1 = rack.lose({.worker = 1, .up = true});
  rack.run_for(kTimeout);
  for (const Bytes& frame : old_0) rack.sim().network().inject(0, true, frame);
  for (const Bytes& frame : old_1) rack.sim().network().inject(1, true, frame);
  rack.reduce_at(2, 1, 16 * 4);
  rack.reduce_at(3, 1, 16 * 4);
  rack.run_for(10 * kTimeout);
  EXPECT_GE(rack.control_drops(members::MembershipDrop::kChallenge), old_0.size() + old_1.size());
  EXPECT_EQ(rack.status().phase, members::JobPhase::kForming);
  EXPECT_EQ(rack.box().incomplete(rack.id()), 0U);
  silent_0.left = silent_1.left = 0;
  ASSERT_TRUE(rack.until([&] { return rack.done(1); }));
  expect_agreement(rack, 1);
  EXPECT_EQ(rack.stats(2, 1).contributors, 0b0011U);
  EXPECT_EQ(rack.counted(2).generations, 1U);
  // Late ranks are left out again.
  rack.reduce_at(2, 2, 16 * 4);
  rack.reduce_at(3, 2, 16 * 4);
  ASSERT_TRUE(rack.until([&] { return has(rack, 2, 2) && has(rack, 3, 2); }, kSecond));
  rack.reduce_at(0, 2, 16 * 4);
  rack.reduce_at(1, 2, 16 * 4);
  ASSERT_TRUE(rack.until([&] { return rack.done(2); }));
  expect_agreement(rack, 2);
}

// A restart in the middle, at every moment: sums made in either epoch, some lost, some late.
TEST(HazardStraggler, restart_while_results_are_incomplete) {
  for (TimeNs at = 0; at <= 4 * kTimeout; at += kTimeout / 4) {
    HazardRack rack(rack_of(3, 1));
    rack.join();
    rack.lose({.worker = 1, .up = false, .type = kResult}, 7);
    rack.lose({.worker = 2, .up = false, .type = kResult, .chunk = Chunk{3}}, 2);
    rack.reduce_at(0, 0, 16 * 24);
    rack.run_for(kTimeout / 3);
    rack.reduce_at(2, 0, 16 * 24);
    rack.run_for(at);
    rack.box().restart_data_plane();
    rack.reduce_at(1, 0, 16 * 24);
    ASSERT_TRUE(rack.until([&] { return rack.done(0); })) << at;
    expect_agreement(rack, 0);
    rack.expect_healthy();
  }
}

// Two windows behind, the box refuses its chunks and peers still have them; further, nobody has.
TEST(HazardStraggler, fell_behind) {
  HazardRack rack(rack_of(3, 2));
  rack.join();
  rack.reduce_at(0, 0, 16 * 200);
  rack.reduce_at(2, 0, 16 * 200);
  ASSERT_TRUE(rack.until([&] { return has(rack, 0, 0) && has(rack, 2, 0); }));
  rack.reduce_at(1, 0, 16 * 200);
  ASSERT_TRUE(rack.until([&] { return rack.failed(1, 0); }));
  EXPECT_THAT(rack.error(1, 0), HasSubstr("fell behind"));
  expect_agreement(rack, 0);
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).engine().state() == engine::EngineState::kClosed; }));
  EXPECT_THAT(rack.worker(0).engine().why_closed().text(), HasSubstr("rank 1: "));
  EXPECT_THAT(rack.worker(0).engine().why_closed().text(), HasSubstr("fell behind"));
}

TEST(HazardStraggler, behind_by_less_than_the_history_of_peers) {
  HazardRack rack(rack_of(3, 2));
  rack.join();
  rack.reduce_at(0, 0, 16 * 47);  // a history is 3 x 16 results long
  rack.reduce_at(2, 0, 16 * 47);
  ASSERT_TRUE(rack.until([&] { return has(rack, 0, 0) && has(rack, 2, 0); }));
  rack.reduce_at(1, 0, 16 * 47);
  ASSERT_TRUE(rack.until([&] { return has(rack, 1, 0); }));
  EXPECT_GT(rack.drops(Drop::kStale), 0U);
  EXPECT_GT(rack.counted(1).queries, 0U);
  expect_agreement(rack, 0);
  rack.expect_healthy();
}

// Exponents without rank 1, whose values are larger: all ranks have the same bits, and OVERFLOW says why.
TEST(HazardStraggler, late_block_exceeds_the_exponent) {
  HazardRack rack(rack_of(3, 1));
  rack.join();
  rack.lose({.worker = 1, .up = true, .type = PacketType::kContribute}, 1);
  const std::size_t sum = rack.reduce_floats({{1.0F, 0.5F}, {8.0F, -0.25F}, {0.5F, 0.5F}});
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  for (const std::uint16_t rank : rack.ranks()) {
    EXPECT_TRUE(rack.stats(rank, sum).overflow) << rank;
    EXPECT_FALSE(rack.stats(rank, sum).incomplete) << "all values are in the sum";
    EXPECT_EQ(rack.floats(rank, sum), (std::vector<float>{1.0F + 1.0F + 0.5F, 0.75F})) << rank;
  }
}

// Each rank is late now and then, with packets lost both ways: 30 operations, all agree on each.
TEST(HazardStraggler, everybody_is_late_in_turn) {
  HazardRack rack({.world = 4, .cores = 2, .stragglers = members::StragglerPolicy{20 * kMillisecond, 2}});
  rack.join();
  int n = 0;
  rack.lose({.type = kResult, .also = [&](const Header&) { return ++n % 7 == 0; }});
  int m = 0;
  rack.lose({.type = PacketType::kContribute, .also = [&](const Header&) { return ++m % 11 == 0; }});
  std::uint64_t incomplete = 0;
  for (std::uint16_t i = 0; i < 30; ++i) {
    const auto late = static_cast<std::uint16_t>(i % 4);
    for (const std::uint16_t rank : rack.ranks())
      if (rank != late) rack.reduce_at(rank, i, 16 * 12);
    rack.run_for((i % 5) * 10 * kMillisecond);
    rack.reduce_at(late, i, 16 * 12);
    ASSERT_TRUE(rack.until([&] { return rack.done(i); })) << i;
    expect_agreement(rack, i);
    incomplete += rack.stats(0, i).incomplete_chunks;
  }
  EXPECT_GT(incomplete, 30U);
  rack.run_for(kSecond);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

// A barrier says that everybody came, also in such a job.
TEST(HazardStraggler, leave_waits_for_the_straggler) {
  HazardRack rack(rack_of(2, 1));
  rack.join();
  rack.worker(0).engine().leave(rack.now());
  rack.worker(0).resume_service();
  rack.run_for(2 * kSecond);
  EXPECT_EQ(rack.worker(0).engine().state(), engine::EngineState::kRunning);
  rack.worker(1).engine().leave(rack.now());
  rack.worker(1).resume_service();
  ASSERT_TRUE(rack.until([&] {
    return rack.worker(0).engine().state() == engine::EngineState::kClosed &&
           rack.worker(1).engine().state() == engine::EngineState::kClosed;
  }));
  EXPECT_EQ(rack.worker(1).engine().why_closed().code, ErrorCode::kClosed);
}

}  // namespace
}  // namespace tally::sim
