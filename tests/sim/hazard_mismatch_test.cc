// Hazards of docs/hazards.md: the programs do not do the same thing, and must be told who did what.

#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

// Every word is in the error of every rank.
void expect_all_told(HazardRack& rack, const std::vector<std::string>& words) {
  ASSERT_TRUE(rack.until([&] {
    for (const std::uint16_t r : rack.ranks()) {
      if (!rack.worker(r).closed()) return false;
    }
    return true;
  }));
  for (const std::uint16_t r : rack.ranks()) {
    const std::string text = rack.worker(r).engine().why_closed().text();
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << word << ": " << text;
  }
  ASSERT_FALSE(rack.box().events().empty());
  EXPECT_EQ(rack.box().events().front().kind, pipeline::EventKind::kMismatch);
}

TEST(Hazard, operation_mismatch_352_704_against_704_352) {
  HazardRack rack({.elements = 352});
  rack.join();
  rack.reduce_at(0, 0, 352);
  rack.reduce_at(0, 1, 704);
  rack.reduce_at(1, 0, 704);
  rack.reduce_at(1, 1, 352);
  expect_all_told(rack, {"the ranks issued different operations", "rank 0", "rank 1",
                         "352 elements of an operation of 352", "352 elements of an operation of 704"});
  for (const std::uint16_t r : rack.ranks()) {
    for (const std::size_t operation : {0U, 1U}) {
      EXPECT_TRUE(rack.failed(r, operation));
      EXPECT_NE(rack.error(r, operation).find("different operations"), std::string::npos);
    }
  }
  rack.run_for(kMillisecond);  // the cores take up the empty row
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

TEST(Hazard, operation_mismatch_of_sizes_in_a_packet) {
  HazardRack rack({.world = 3, .elements = 64});
  rack.join();
  rack.expect_healthy();
  rack.reduce_at(0, 1, 48);
  rack.reduce_at(2, 1, 48);
  rack.run_for(100 * kMicrosecond);
  rack.reduce_at(1, 1, 30);
  expect_all_told(rack, {"rank 1 sent 32 elements of an operation of 30",
                         "ranks 0 and 2 48 elements of an operation of 48"});
}

// The second of the two was complete when the first came again with another size: a program that replays.
TEST(Hazard, operation_mismatch_with_a_stored_result) {
  HazardRack rack;
  rack.join();
  rack.expect_healthy();
  rack.inject_up(
      1, make_contribution(
             rack.row(), {.rank = Rank{1}, .chunk = Chunk{2}, .total = 40, .sequence = kForgottenSequence}));
  expect_all_told(rack, {"rank 1 sent 0 elements", "ranks 0 and 1 16 elements"});
}

TEST(Hazard, operation_mismatch_of_types) {
  HazardRack rack;
  rack.join();
  std::vector<float> floats(16, 1.0F);
  rack.reduce_at(0, 0, 16);
  ASSERT_TRUE(rack.worker(1).engine().allreduce(std::span{floats}, rack.now()));
  rack.worker(1).resume_service();
  expect_all_told(
      rack, {"rank 0", "rank 1", "16 elements of an operation of 16", "0 elements of an operation of 16"});
}

TEST(Hazard, operation_mismatch_of_types_only) {
  HazardRack rack;
  rack.join();
  rack.reduce_at(0, 0, 16);
  rack.inject_up(1,
                 make_contribution(
                     rack.row(),
                     {.rank = Rank{1}, .values = std::vector<std::int32_t>(16, 1), .dtype = 1, .total = 16}));
  expect_all_told(rack, {"rank 0", "rank 1", "with another element type"});
}

// The first packet of an exact sum has values, that of a quantised one an exponent alone.
TEST(Hazard, operation_mismatch_of_how_floats_travel) {
  for (const WireType other : {WireType::kInt32, WireType::kInt16}) {
    HazardRack rack;
    rack.join();
    std::vector<float> floats(100, 1.0F);
    for (const std::uint16_t r : rack.ranks()) {
      engine::OperationOptions options;
      options.wire = r == 0 ? WireType::kExact : other;
      ASSERT_TRUE(rack.worker(r).engine().allreduce(std::span{floats}, rack.now(), options));
      rack.worker(r).resume_service();
    }
    expect_all_told(rack, {"rank 0", "rank 1", "0 elements of an operation of 100"});
  }
}

TEST(Hazard, operation_mismatch_of_a_barrier) {
  HazardRack rack;
  rack.join();
  rack.reduce_at(0, 0, 16);
  ASSERT_TRUE(rack.worker(1).engine().barrier(rack.now()));
  rack.worker(1).resume_service();
  expect_all_told(rack, {"16 elements of an operation of 16", "0 elements of an operation of 0"});
}

// The barrier before LEAVE is none of the program's: who is still in one waits for operations that never
// come.
TEST(Hazard, leave_against_a_barrier_of_the_program) {
  HazardRack rack;
  rack.join();
  rack.expect_healthy();
  rack.worker(0).engine().leave(rack.now());
  rack.worker(0).resume_service();
  rack.reduce_at(1, 1, 0);
  rack.reduce_at(1, 2, 16 * 4);
  expect_all_told(rack, {"rank 0", "rank 1", "one leaves the job"});
  EXPECT_TRUE(rack.failed(1, 1));
  EXPECT_TRUE(rack.failed(1, 2));
}

// The switch cannot see it when the sizes agree in every chunk; the other jobs of the box see nothing at all.
TEST(Hazard, operation_mismatch_leaves_other_jobs_alone) {
  HazardRack rack({.jobs = 2});
  rack.join();
  const std::size_t other = rack.reduce(16 * 200, 1);
  rack.reduce_at(0, 0, 32);
  rack.reduce_at(1, 0, 48);
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed() && rack.worker(1).closed(); }));
  rack.expect_exact(other, 1);
  EXPECT_EQ(rack.counted(0, 1).epochs, 1U);
  EXPECT_EQ(rack.drops(Drop::kMismatch, 1), 0U);
}

}  // namespace
}  // namespace tally::sim
