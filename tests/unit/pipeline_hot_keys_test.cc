// Hot keys in a chip's register arrays: tally_fit_report --hot.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "hot_keys.h"

namespace tally::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<Batch>> read(const std::string& text) {
  std::istringstream in(text);
  return read_batches(in, "keys.txt");
}
std::string error_of(const std::string& text) {
  const auto batches = read(text);
  return batches ? "" : batches.error().text();
}
Passes by_heat(const Arrays& arrays, const std::vector<Batch>& packets) {
  const Assignment assignment(arrays, packets);
  return passes_of(assignment, assignment, packets, arrays.count);
}

TEST(FitHotKeys, a_line_is_a_batch) {
  const auto batches = read("# of one worker\n1 2\t3\n\n  18446744073709551615 0 \n");
  ASSERT_TRUE(batches) << batches.error().text();
  EXPECT_THAT(*batches, ElementsAre(ElementsAre(1, 2, 3), ElementsAre(~std::uint64_t{0}, 0)));
}
TEST(FitHotKeys, bad_input_is_told_with_its_place) {
  EXPECT_EQ(error_of("1 2\n3 x4\n"), "keys.txt:2:3: 'x4' is no key; write a number from 0 to 2^64 - 1");
  EXPECT_EQ(error_of("1 2\n\n5 -6\n"), "keys.txt:3:3: '-6' is no key; write a number from 0 to 2^64 - 1");
  EXPECT_THAT(error_of("1 18446744073709551616\n"),
              HasSubstr("keys.txt:1:3: '18446744073709551616' is no key"));
  EXPECT_THAT(error_of("1 2\r\n"), HasSubstr("keys.txt:1:3: '2\r' is no key"));
  EXPECT_EQ(error_of("1 2 1\n"), "keys.txt:1:5: key 1 stands twice in a batch; write each once");
  EXPECT_EQ(error_of("1 2 3\n"),
            "keys.txt: 1 batches; two are needed, one to learn from and one to count on");
  EXPECT_THAT(load_batches("/nonexistent/keys").error().text(), HasSubstr("/nonexistent/keys: cannot open"));
}

TEST(FitHotKeys, batches_are_cut_into_packets_in_their_order) {
  EXPECT_THAT(packets_of({{9}, {1, 2, 3, 4, 5}}, 2),
              ElementsAre(ElementsAre(9), ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5)));
}
// Pairs that are always together and never otherwise: two arrays are enough.
TEST(FitHotKeys, keys_that_are_together_come_into_different_arrays) {
  std::vector<Batch> packets;
  for (std::uint64_t pair = 0; pair < 500; ++pair) packets.push_back({2 * pair, 2 * pair + 1});
  const Arrays two{.count = 2, .words = 1'000};
  EXPECT_EQ(by_heat(two, packets).more_than_one, 0U);
  const Assignment none(two);
  const Passes hashed = passes_of(none, none, packets, two.count);
  EXPECT_NEAR(static_cast<double>(hashed.more_than_one), 250, 60);
  EXPECT_EQ(hashed.most, 2U);
  EXPECT_EQ(hashed.all, hashed.packets + hashed.more_than_one);
}
TEST(FitHotKeys, what_does_not_fit_is_the_coldest_and_is_in_no_packet) {
  const std::vector<Batch> packets{{1, 2}, {1, 2}, {1, 3}, {4}};
  const Assignment assignment({.count = 1, .words = 2}, packets);
  EXPECT_EQ(assignment.cold(), 2U);
  EXPECT_FALSE(assignment.is_cold(1));
  EXPECT_FALSE(assignment.is_cold(2));
  EXPECT_TRUE(assignment.is_cold(3));
  EXPECT_TRUE(assignment.is_cold(4));
  EXPECT_FALSE(assignment.is_cold(5)) << "not known: by hash";
  const Passes passes = passes_of(assignment, assignment, packets, 1);
  EXPECT_EQ(passes.packets, 3U);
  EXPECT_EQ(passes.more_than_one, 2U);
}
// Samples of eight fields, whose keys are never together with another of their field.
TEST(FitHotKeys, with_fields_of_a_model_few_packets_need_a_second_pass) {
  std::mt19937_64 random(1);
  std::vector<Batch> batches;
  for (int sample = 0; sample < 4'000; ++sample) {
    Batch batch;
    for (std::uint64_t field = 0; field < 8; ++field) batch.push_back(100 * field + random() % 20);
    batches.push_back(batch);
  }
  const Arrays arrays{.count = 24, .words = 1'000};
  const std::vector<Batch> counted = packets_of({batches.begin() + 2'000, batches.end()}, 8);
  const Assignment assignment(arrays, packets_of({batches.begin(), batches.begin() + 2'000}, 8));
  const Passes heat = passes_of(assignment, assignment, counted, arrays.count);
  const Passes hash = passes_of(Assignment(arrays), assignment, counted, arrays.count);
  EXPECT_LT(heat.more_than_one, hash.more_than_one / 10);
  EXPECT_GT(hash.more_than_one, 1'000U);
}

TEST(FitHotKeys, workers_that_take_one_key_of_each_array_need_no_second_pass_but_maybe_more_packets) {
  const Arrays two{.count = 2, .words = 10};
  const Assignment apart(two, {{1, 2}, {3, 4}, {1, 4}, {2, 3}});  // 1 and 3, 2 and 4
  EXPECT_EQ(ordered_packets(apart, apart, {{1, 3, 2, 4}}, 2, 2), 2U);
  EXPECT_EQ(ordered_packets(apart, apart, {{1, 2, 3, 4}}, 2, 1), 4U) << "packets of one key";
  EXPECT_EQ(ordered_packets(apart, apart, {{1, 3}, {2}}, 2, 2), 3U) << "two keys of one array";
}

TEST(FitHotKeys, a_chip_has_as_many_arrays_as_our_pool_program_leaves) {
  const Arrays one = value_arrays(*pipeline::profile_named("tofino1"), 256);
  EXPECT_EQ(one.words, 22'528U) << "eleven blocks of 16 KiB, pairs of 32 bits";
  EXPECT_GE(one.count, 20U);
  EXPECT_LE(one.count, 40U);
  EXPECT_EQ(value_arrays(*pipeline::profile_named("commodity"), 256).count, 0U);
}
TEST(FitHotKeys, the_report_says_both_ways_for_each_chip) {
  const std::vector<Batch> batches{{1, 2, 3}, {1, 2, 3}};
  const std::string text = hot_text(batches, 8, *pipeline::profile_named("tofino2"), 256);
  EXPECT_THAT(text, HasSubstr("3 keys in the 1 batches that it learns from, packets of 8 keys"));
  EXPECT_THAT(text, HasSubstr("by hash"));
  EXPECT_THAT(text,
              HasSubstr("by heat    0.0 % of packets need more than one pass; 1.00 on average, 1 at most"));
  EXPECT_THAT(text, HasSubstr("by heat, not 1\n"));
  EXPECT_THAT(hot_text(batches, 8, *pipeline::profile_named("commodity"), 256),
              HasSubstr("memory is the only limit"));
}

}  // namespace
}  // namespace tally::bench
