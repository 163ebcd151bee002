// The check values of pipeline.md: SwitchML's program on Tofino 1.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fit_programs.h"
#include "pipeline/fit.h"

namespace tally {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const pipeline::Profile kTofino1 = *pipeline::profile_named("tofino1");
const pipeline::Profile kTofino2 = *pipeline::profile_named("tofino2");
const pipeline::Profile kCommodity = *pipeline::profile_named("commodity");

TEST(FitReport, an_array_of_16384_pairs_takes_8_blocks_and_a_spare) {
  EXPECT_EQ(pipeline::blocks_of(16'384, 64), 9u);
}

TEST(FitReport, switchml_on_tofino1_has_the_published_shape) {
  const pipeline::FitReport r = pipeline::fit(bench::switchml_program(16'384, 256).need, kTofino1);
  EXPECT_TRUE(r.fits()) << bench::to_text(r);
  EXPECT_EQ(r.value_arrays, 32u);
  EXPECT_EQ(r.elements_per_pass, 64u);
  EXPECT_EQ(r.pipes, 4u);
  EXPECT_EQ(r.passes_to_complete, 11u);
  int full = 0;
  for (const auto& stage : r.stages) full += stage.blocks == 36 && stage.arrays.size() == 4 ? 1 : 0;
  EXPECT_EQ(full, 8);
}

TEST(FitReport, switchml_with_64_elements_completes_in_2_passes) {
  const pipeline::FitReport r = pipeline::fit(bench::switchml_program(16'384, 64).need, kTofino1);
  EXPECT_EQ(r.pipes, 1u);
  EXPECT_EQ(r.passes_to_complete, 2u);
}

TEST(FitReport, twice_the_pairs_are_refused_with_68_of_48_blocks) {
  const pipeline::FitReport r = pipeline::fit(bench::switchml_program(32'768, 256).need, kTofino1);
  ASSERT_FALSE(r.fits());
  EXPECT_THAT(r.violations.front(), HasSubstr("68 blocks of a stage's 48"));
}

TEST(FitReport, our_head_is_too_wide_for_tofino1_and_fits_tofino2) {
  const pipeline::FitReport one = pipeline::fit(pipeline::pool_program(512, 256, 1, kTofino1), kTofino1);
  ASSERT_FALSE(one.fits());
  EXPECT_THAT(one.violations, Contains(HasSubstr("head is 128 bits wide")));
  EXPECT_THAT(one.violations, Contains(HasSubstr("sequence is 128 bits wide")));
  const pipeline::FitReport two = pipeline::fit(pipeline::pool_program(512, 256, 1, kTofino2), kTofino2);
  EXPECT_TRUE(two.fits()) << bench::to_text(two);
}

// Two arrays more than the pool, one of them narrow, and no other stage.
TEST(FitReport, stragglers_cost_two_arrays_and_still_fit_tofino2) {
  const pipeline::FitReport pool = pipeline::fit(pipeline::pool_program(512, 256, 1, kTofino2), kTofino2);
  const pipeline::FitReport late =
      pipeline::fit(bench::straggler_program(512, 256, 1, kTofino2).need, kTofino2);
  EXPECT_TRUE(late.fits()) << bench::to_text(late);
  EXPECT_EQ(late.memory_bytes - pool.memory_bytes,
            512u * (sizeof(pipeline::ClaimedReg::Word) + sizeof(pipeline::MissingReg::Word)));
  EXPECT_EQ(late.passes_to_add, pool.passes_to_add);
  EXPECT_THAT(bench::to_text(late), HasSubstr("claimed"));
  EXPECT_THAT(bench::to_text(late), HasSubstr("missing"));
}

TEST(FitReport, a_shared_entry_needs_a_head_wider_than_tofino2_has) {
  const pipeline::FitReport r =
      pipeline::fit(bench::shared_program(512, 512, 256, 1, kTofino2).need, kTofino2);
  ASSERT_EQ(r.violations.size(), 1u) << bench::to_text(r);
  EXPECT_THAT(r.violations.front(), HasSubstr("head+owner is 216 bits wide"));
  const bench::ToldProgram one = bench::shared_program(512, 512, 256, 1, kTofino1);
  const std::string text = bench::to_text(pipeline::fit(one.need, kTofino1), one.remarks);
  EXPECT_THAT(text, HasSubstr("ledger is 128 bits wide"));
  EXPECT_THAT(text, HasSubstr("a claim behind a stale ledger pointer takes one recirculation"));
}

TEST(FitReport, a_session_needs_a_head_wider_than_tofino2_has_and_fits_no_limits) {
  const pipeline::FitReport r =
      pipeline::fit(pipeline::session_program(512, 256, 8, jobs::TsiRule::kPacket, kTofino2), kTofino2);
  ASSERT_EQ(r.violations.size(), 1u) << bench::to_text(r);
  EXPECT_THAT(r.violations.front(), HasSubstr("head+operation is 160 bits wide"));
  EXPECT_TRUE(
      pipeline::fit(pipeline::session_program(512, 256, 8, jobs::TsiRule::kPacket, kCommodity), kCommodity)
          .fits());
}

// One head of 128 bits decides for both sets of a slot.
TEST(FitReport, an_opaque_session_has_a_head_for_each_slot_and_fits_tofino2) {
  const pipeline::FitReport two =
      pipeline::fit(pipeline::session_program(512, 256, 8, jobs::TsiRule::kOpaque, kTofino2), kTofino2);
  EXPECT_TRUE(two.fits()) << bench::to_text(two);
  const pipeline::FitReport packet =
      pipeline::fit(pipeline::session_program(512, 256, 8, jobs::TsiRule::kPacket, kTofino2), kTofino2);
  EXPECT_EQ(packet.memory_bytes - two.memory_bytes, 512u * 20 - 256u * 16);
  EXPECT_THAT(bench::to_text(two), HasSubstr(" ALUs: head\n"));
  const pipeline::FitReport one =
      pipeline::fit(pipeline::session_program(512, 256, 8, jobs::TsiRule::kOpaque, kTofino1), kTofino1);
  ASSERT_FALSE(one.fits());
  EXPECT_THAT(one.violations, Contains(HasSubstr("head is 128 bits wide")));
}

// What has no room anywhere does not keep the rest from theirs.
TEST(FitReport, a_session_has_a_return_path_for_each_member_of_each_entry) {
  const pipeline::FitReport r =
      pipeline::fit(pipeline::session_program(8'192, 32, 32, jobs::TsiRule::kOpaque, kTofino2), kTofino2);
  ASSERT_EQ(r.violations.size(), 1u) << bench::to_text(r);
  EXPECT_THAT(r.violations.front(), HasSubstr("no room for path (65 blocks) in 20 stages"));
}

TEST(FitReport, a_shared_packet_asks_the_ledger_before_it_knows_its_entry) {
  const pipeline::FitReport r =
      pipeline::fit(bench::shared_program(512, 512, 256, 1, kTofino2).need, kTofino2);
  ASSERT_GE(r.stages.size(), 5u);
  EXPECT_THAT(r.stages[0].arrays, ElementsAre("high", "sequence"));
  EXPECT_THAT(r.stages[1].arrays, ElementsAre("ledger"));
  EXPECT_THAT(r.stages[2].arrays, ElementsAre("head+owner"));
  EXPECT_THAT(r.stages[3].arrays, ElementsAre("shape"));
  EXPECT_THAT(r.stages[4].arrays, ElementsAre("finished", "exponent", "marks", "sum1"));
  EXPECT_THAT(r.stages[5].arrays, Contains("sum2"));
}

TEST(FitReport, the_shared_program_needs_a_ledger_beside_the_pools_registers) {
  const pipeline::FitReport pool = pipeline::fit(pipeline::pool_program(512, 256, 1, kCommodity), kCommodity);
  const pipeline::FitReport shared =
      pipeline::fit(bench::shared_program(512, 1'024, 256, 1, kCommodity).need, kCommodity);
  EXPECT_TRUE(shared.fits()) << bench::to_text(shared);
  constexpr std::uint64_t kOwnerBytes = 11;
  constexpr std::uint64_t kRowBytes = 16;
  EXPECT_EQ(shared.memory_bytes, pool.memory_bytes + 512 * kOwnerBytes + 1'024 * kRowBytes);
}

TEST(FitReport, a_plan_is_memory_alone_and_is_looked_up_before_the_ledger) {
  const auto shared = pipeline::fit(bench::shared_program(512, 1'024, 256, 1, kTofino2).need, kTofino2);
  const bench::ToldProgram told = bench::planned_program(512, 1'024, 256, 1, 16, kTofino2);
  const auto planned = pipeline::fit(told.need, kTofino2);
  EXPECT_EQ(planned.memory_bytes - shared.memory_bytes, 16U * 17 * 1'024);
  EXPECT_EQ(planned.violations, shared.violations) << "it needs nothing that a shared job does not";
  ASSERT_GE(planned.stages.size(), 2U);
  EXPECT_EQ(planned.stages[0].table_blocks, 8U + 1 + 8);
  EXPECT_THAT(planned.stages[0].arrays, ElementsAre("high", "sequence"));
  EXPECT_THAT(planned.stages[1].arrays, ElementsAre("ledger"));
  EXPECT_THAT(bench::to_text(planned, told.remarks), HasSubstr("high sequence; tables: 17 blocks"));
}

// 17 MiB: 513 blocks for who is here, 65 and 513. The ledger waits for all that lies before it.
TEST(FitReport, plans_of_all_jobs_have_no_room_on_a_small_chip) {
  const std::uint32_t jobs = kMaxJobs + 1;
  const auto small =
      pipeline::fit(bench::planned_program(512, 1'024, 256, jobs, jobs, kTofino1).need, kTofino1);
  EXPECT_THAT(small.violations, Contains(HasSubstr("blocks of the table through")));
  const auto commodity =
      pipeline::fit(bench::planned_program(512, 1'024, 256, jobs, jobs, kCommodity).need, kCommodity);
  EXPECT_TRUE(commodity.fits());
  EXPECT_EQ(commodity.memory_bytes -
                pipeline::fit(bench::shared_program(512, 1'024, 256, jobs, kCommodity).need, kCommodity)
                    .memory_bytes,
            std::uint64_t{jobs} * 17 * 1'024);
}

TEST(FitReport, commodity_is_limited_by_memory_only) {
  const pipeline::FitReport r =
      pipeline::fit(pipeline::pool_program(1 << 20, 2'224, 1'024, kCommodity), kCommodity);
  EXPECT_TRUE(r.fits());
  EXPECT_EQ(r.passes_to_complete, 1u);
  EXPECT_GT(r.memory_bytes, std::uint64_t{1} << 33);
}

TEST(FitReport, an_array_larger_than_a_stage_names_the_rule) {
  const pipeline::FitReport r = pipeline::fit(pipeline::pool_program(1 << 20, 256, 1, kTofino2), kTofino2);
  ASSERT_FALSE(r.fits());
  EXPECT_THAT(bench::to_text(r), HasSubstr("DOES NOT FIT"));
}

}  // namespace
}  // namespace tally
