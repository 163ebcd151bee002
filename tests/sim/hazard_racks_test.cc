// Hazards of docs/hazards.md that come with a job of racks: what is lost or changed between the two levels, and either
// of them without its memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

using testing::HasSubstr;

RackOptions in_racks(std::vector<std::uint8_t> racks = {2, 3, 1}, RackOptions o = {}) {
  o.world = static_cast<std::uint16_t>(std::accumulate(racks.begin(), racks.end(), 0));
  o.racks = std::move(racks);
  return o;
}

void expect_one_generation(HazardRack& rack, std::uint64_t epochs) {
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
    EXPECT_EQ(rack.counted(r).epochs, epochs) << "rank " << r;
  }
}

// A reduction that is under way when this returns; its number.
std::size_t begin_in_racks(HazardRack& rack, std::uint32_t chunks = 300) {
  const std::size_t number = rack.reduce(16 * chunks);
  rack.run_for(150 * kMicrosecond);
  for (const std::uint16_t r : rack.ranks()) EXPECT_FALSE(rack.done(r, number));
  return number;
}

TEST(HazardRacks, racks_of_any_size_sum_as_one) {
  for (const std::vector<std::uint8_t>& sizes :
       std::vector<std::vector<std::uint8_t>>{{2, 3, 1}, {1, 1}, {1}, {4}}) {
    HazardRack rack(in_racks(sizes));
    rack.join();
    rack.expect_exact(rack.reduce(16 * 40));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(rack.of_rack(i).above, 40U) << "each chunk once, of rack " << i;
      EXPECT_EQ(rack.of_rack(i).above_again, 0U);
    }
    expect_one_generation(rack, 1);
  }
}

// The same values in one rack of 64, and in eight of 8: the same bits, of floats too.
TEST(HazardRacks, floats_of_two_levels_have_the_bits_of_one) {
  std::vector<std::vector<float>> values(64);
  for (std::size_t r = 0; r < values.size(); ++r)
    for (std::size_t i = 0; i < 100; ++i)
      values[r].push_back(std::ldexp(std::sin(static_cast<float>(97 * r + i)), static_cast<int>(i % 7) - 3));
  HazardRack flat({.world = 64});
  HazardRack racks(in_racks(std::vector<std::uint8_t>(8, 8)));
  for (const WireType wire : {WireType::kInt32, WireType::kInt16, WireType::kExact}) {
    std::vector<std::vector<float>> sums;
    for (HazardRack* const rack : {&flat, &racks}) {
      if (!rack->running()) rack->join();
      engine::OperationOptions options;
      options.wire = wire;
      options.mean = wire == WireType::kExact;
      const std::size_t number = rack->reduce_floats(values, options);
      ASSERT_TRUE(rack->until([&] { return rack->done(number); }));
      for (const std::uint16_t r : rack->ranks()) sums.push_back(rack->floats(r, number));
    }
    for (const auto& sum : sums)
      ASSERT_TRUE(std::equal(sum.begin(), sum.end(), sums[0].begin(), [](float a, float b) {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
      }));
  }
}

TEST(HazardRacks, a_sum_of_a_rack_that_is_lost_above_is_sent_again) {
  HazardRack rack(in_racks());
  rack.join();
  const Rule& lost =
      rack.lose({.worker = rack.link_to_parent(1), .up = true, .type = kContribution, .chunk = Chunk{5}}, 2);
  rack.expect_exact(rack.reduce(16 * 20));
  EXPECT_EQ(lost.hits(), 2U);
  EXPECT_GE(rack.of_rack(1).above_again, 2U);
  EXPECT_EQ(rack.of_rack(0).above, 20U);
}

TEST(HazardRacks, a_result_that_is_lost_above_is_fetched_by_who_waits) {
  HazardRack rack(in_racks());
  rack.join();
  const Rule& lost =
      rack.lose({.worker = rack.link_to_parent(0), .up = false, .type = kResult, .chunk = Chunk{7}}, 2);
  rack.expect_exact(rack.reduce(16 * 20));
  EXPECT_EQ(lost.hits(), 2U);
  EXPECT_GE(rack.of_rack(0).above_again, 2U) << "the parent repeats what it has";
}

// A parent whose memory is bad, or somebody between: the headers are right, the values are not.
TEST(HazardRacks, what_the_parent_sums_wrongly_reaches_no_worker) {
  HazardRack rack(in_racks());
  rack.join();
  const Rule& wrong = rack.change(
      {.worker = rack.link_to_parent(0), .up = false, .type = kResult},
      [](Bytes& frame) { frame.back() ^= std::byte{1}; }, 3);
  const Rule& below = rack.record({.worker = rack.link_in_rack(0), .up = false, .type = kResult});
  rack.expect_exact(rack.reduce(16 * 20));
  EXPECT_EQ(wrong.hits(), 3U);
  EXPECT_EQ(rack.drops_of_rack(0, Drop::kSum), 3U);
  EXPECT_EQ(rack.counted(0).of(Refused::kSum), 0U);
  EXPECT_GE(below.hits(), 20U);
}

// A rack's box that adds a worker twice, or leaves one out, sends a sum whose key is another: here it claims that of
// one worker for the rack's.
TEST(HazardRacks, a_rack_that_lacks_a_worker_is_not_added_at_the_parent) {
  HazardRack rack(in_racks());
  rack.join();
  std::uint32_t key = 0;
  const Rule& wrong = rack.change(
      {.worker = rack.link_to_parent(1), .up = true, .type = kContribution},
      [&](Bytes& frame) {
        Header h = header_in(frame);
        key = racked_key(rack.membership(0).generation, 3);
        h.sum1 = Be{h.sum1.host() - keyed(key, h.chunk_id())};
        set_header_in(frame, h);
      },
      4);
  rack.expect_exact(rack.reduce(16 * 20));
  EXPECT_EQ(wrong.hits(), 4U);
  EXPECT_EQ(rack.drops(Drop::kSum), 4U);
}

class HazardRacksRestart : public testing::TestWithParam<std::tuple<std::size_t, bool>> {
 protected:
  // The parent, or the box of a rack.
  static void restart(HazardRack& rack) {
    const auto [box, all] = GetParam();
    all ? rack.box(box).restart() : rack.box(box).restart_data_plane();
  }
};

TEST_P(HazardRacksRestart, a_box_of_either_level_that_restarts_costs_an_epoch_and_no_sum) {
  HazardRack rack(in_racks());
  rack.join();
  rack.expect_exact(rack.reduce(16 * 20));
  const std::size_t number = begin_in_racks(rack);
  restart(rack);
  rack.expect_exact(number);
  expect_one_generation(rack, 2);
  rack.expect_healthy();
}

// All results of a chunk were lost on their way to one rack, and then what the boxes knew: only workers of the other
// racks have it.
TEST_P(HazardRacksRestart, who_lacks_a_result_finds_it_in_another_rack) {
  HazardRack rack(in_racks());
  rack.join();
  Rule& lost = rack.lose({.worker = rack.link_to_parent(0), .up = false, .type = kResult, .chunk = Chunk{3}});
  const std::size_t number = rack.reduce(16 * 10);
  ASSERT_TRUE(rack.until([&] { return rack.done(2, number) && rack.done(5, number) && lost.hits() != 0; }));
  for (std::size_t box = 0; box <= 3; ++box)
    std::get<1>(GetParam()) ? rack.box(box).restart() : rack.box(box).restart_data_plane();
  lost.left = 0;
  rack.expect_exact(number);
  EXPECT_EQ(rack.stats(0, number).incomplete, false);
  std::uint64_t answers = 0;
  for (std::uint16_t r = 2; r < 6; ++r) answers += rack.counted(r).answers;
  EXPECT_GT(answers, 0U);
  expect_one_generation(rack, 2);
  rack.expect_healthy();
}

INSTANTIATE_TEST_SUITE_P(Boxes, HazardRacksRestart,
                         testing::Combine(testing::Values(std::size_t{0}, std::size_t{1}), testing::Bool()));

TEST(HazardRacks, everything_restarts_at_once) {
  HazardRack rack(in_racks());
  rack.join();
  const std::size_t number = begin_in_racks(rack);
  for (std::size_t box = 0; box <= 3; ++box) rack.box(box).restart();
  rack.expect_exact(number);
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
}

// No echo of the parent reaches rack 1: its workers are not told, and half a lease later its box asks again. Meanwhile
// nothing happens, or the parent loses its slots, or forgets all.
TEST(HazardRacks, a_rack_that_never_lost_state_is_never_taken_for_one_that_did) {
  for (const std::uint64_t epochs : {1U, 2U, 3U}) {
    HazardRack rack(in_racks());
    const std::size_t link = rack.link_to_parent(1);
    Rule& lost = rack.lose({.worker = link, .up = false, .type = PacketType::kHeartbeat});
    const Rule& asked = rack.record({.worker = link, .up = true, .type = PacketType::kJoin, .also = [](const Header& h) {
                                       return h.epoch_id() != Epoch{};
                                     }});
    for (const std::uint16_t r : rack.ranks()) rack.worker(r).start();
    ASSERT_TRUE(rack.until([&] { return asked.hits() >= 2; }));
    EXPECT_TRUE(rack.worker(0).engine_running());
    EXPECT_FALSE(rack.worker(2).engine_running());
    if (epochs == 2) rack.box(0).restart_data_plane();
    if (epochs == 3) rack.box(0).restart();
    lost.left = 0;
    rack.expect_exact(rack.reduce(16 * 20));
    for (const std::uint16_t r : rack.ranks()) {
      EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
      EXPECT_EQ(rack.counted(r).epochs, rack.rack_of(r) != 1 && epochs > 1 ? 2U : 1U) << "rank " << r;
    }
  }
}

TEST(HazardRacks, a_worker_that_dies_is_named_by_its_number_to_all_racks) {
  HazardRack rack(in_racks());
  rack.join();
  rack.expect_healthy();
  const std::size_t number = rack.reduce(16 * 2'000);
  rack.run_for(100 * kMicrosecond);
  rack.worker(4).crash();
  for (const std::uint16_t r : rack.ranks()) {
    if (r == 4) continue;
    ASSERT_TRUE(rack.until([&] { return rack.failed(r, number); })) << r;
    EXPECT_THAT(rack.error(r, number), HasSubstr("rank 4")) << "at rank " << r;
  }
}

TEST(HazardRacks, a_rack_whose_link_is_cut_is_named_and_all_end) {
  HazardRack rack(in_racks());
  rack.join();
  rack.expect_healthy();
  rack.cut(rack.link_to_parent(1));
  const std::size_t number = rack.reduce(16 * 20);
  for (const std::uint16_t r : rack.ranks()) {
    ASSERT_TRUE(rack.until([&] { return rack.failed(r, number); })) << r;
    EXPECT_THAT(rack.error(r, number),
                HasSubstr(rack.rack_of(r) == 1 ? "the parent at 10.255.0.1 was silent" : "rack 1"))
        << "at rank " << r;
  }
}

TEST(HazardRacks, an_abort_of_one_worker_reaches_all_racks) {
  HazardRack rack(in_racks());
  rack.join();
  const std::size_t number = begin_in_racks(rack);
  rack.worker(3).engine().abort("it had enough", rack.now());
  rack.worker(3).resume_service();
  for (const std::uint16_t r : rack.ranks()) {
    if (r == 3) continue;
    ASSERT_TRUE(rack.until([&] { return rack.failed(r, number); })) << r;
    EXPECT_THAT(rack.error(r, number), HasSubstr("it had enough")) << "at rank " << r;
  }
}

// The greatest job there is. Under AddressSanitizer a sixteenth of it.
TEST(HazardRacks, four_thousand_and_ninety_six_workers) {
  constexpr std::size_t kRacks = TALLY_SEED_SHARE == 1 ? 64 : 16;
  HazardRack rack(in_racks(std::vector<std::uint8_t>(kRacks, kRacks)));
  rack.join();
  rack.expect_exact(rack.reduce(3 * 16));
  const std::size_t world = kRacks * kRacks;
  const int shift = std::bit_width(0x7fffffffU / static_cast<unsigned>(world)) - 1;
  std::vector<std::vector<float>> values(world);
  std::vector<std::int64_t> sums(16);
  for (std::size_t r = 0; r < world; ++r) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      values[r].push_back(std::sin(static_cast<float>(31 * r + i)));
      sums[i] +=
          std::llrint(std::ldexp(static_cast<double>(values[r].back()), shift));  // E is 0: all below 1
    }
  }
  const std::size_t number = rack.reduce_floats(values);
  ASSERT_TRUE(rack.until([&] { return rack.done(number); }));
  std::vector<float> expected;
  for (const std::int64_t sum : sums) expected.push_back(std::ldexp(static_cast<float>(sum), -shift));
  for (const std::uint16_t r : rack.ranks()) ASSERT_EQ(rack.floats(r, number), expected) << "rank " << r;
}

}  // namespace
}  // namespace tally::sim
