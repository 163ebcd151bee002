// All ranks come to one set by two sums.

#include "hot/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tally::hot {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;
using Words = std::vector<std::int32_t>;

constexpr std::size_t kFirstSegment = 3;  // behind the stamp

class HotAgreement : public testing::Test {
 protected:
  void begin(std::uint32_t world, const Limits& limits) {
    limits_ = limits;
    for (std::uint32_t rank = 0; rank < world; ++rank) sketches_.emplace_back(4'096, rank);
  }
  [[nodiscard]] Seat seat(std::uint32_t rank) const {
    return {rank, static_cast<std::uint32_t>(sketches_.size()), limits_};
  }
  void count(std::uint32_t rank, const std::vector<Key>& batch) { sketches_[rank].add(batch); }
  static void add(Words& sum, const Words& words) {
    if (sum.empty()) sum.resize(words.size());
    ASSERT_EQ(sum.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) sum[i] += words[i];
  }
  [[nodiscard]] Words sum_of_names() const {
    Words sum;
    for (std::uint32_t rank = 0; rank < sketches_.size(); ++rank)
      add(sum, names(seat(rank), set_, sketches_[rank]));
    return sum;
  }
  // Every rank for itself; the sets are compared.
  void agree() {
    const Words first = sum_of_names();
    Words second;
    for (std::uint32_t rank = 0; rank < sketches_.size(); ++rank) {
      candidates_ = *candidates(seat(rank), set_, first);
      add(second, weights(set_, candidates_, sketches_[rank]));
    }
    const KeySet before = set_;
    for (std::uint32_t rank = 0; rank < sketches_.size(); ++rank) {
      const auto next = next_set(seat(rank), before, candidates_, second);
      ASSERT_TRUE(next) << next.error().text();
      EXPECT_TRUE(rank == 0 || next->digest() == set_.digest()) << rank;
      set_ = *next;
    }
  }
  [[nodiscard]] std::vector<Key> hot() const { return {set_.keys().begin(), set_.keys().end()}; }

  Limits limits_;
  std::vector<Sketch> sketches_;
  std::vector<Key> candidates_;
  KeySet set_;
};

TEST_F(HotAgreement, what_all_have_is_hot_and_what_one_has_is_not) {
  begin(3, {.most = 4, .least_fill = 0});
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    for (int batch = 0; batch < 4; ++batch) count(rank, {1, 2, 100 + rank});
  agree();
  EXPECT_THAT(hot(), UnorderedElementsAre(1, 2));
  EXPECT_EQ(set_.number(), 1U);
}
TEST_F(HotAgreement, big_keys_travel_whole) {
  begin(2, {.most = 4, .least_fill = 0});
  const std::vector<Key> keys{0, 1, ~Key{0}, Key{1} << 63, 0xffffffff, 0x100000000};
  for (std::uint32_t rank = 0; rank < 2; ++rank) count(rank, keys);
  agree();
  EXPECT_EQ(hot().size(), 4U);
  EXPECT_THAT(keys, IsSupersetOf(hot()));
}
TEST_F(HotAgreement, a_rank_names_its_class_first_and_each_key_is_named_once) {
  begin(4, {.most = 100, .least_fill = 0});
  std::vector<Key> batch(200);
  for (Key key = 0; key < batch.size(); ++key) batch[key] = key;
  for (std::uint32_t rank = 0; rank < 4; ++rank) count(rank, batch);
  const auto named = candidates(seat(0), set_, sum_of_names());
  ASSERT_TRUE(named);
  EXPECT_GT(named->size(), 180U) << "200 words for 200 keys, in four classes that differ in size";
  std::vector<Key> sorted = *named;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
}
// Two of four ranks have it, and room for few names: in some agreement its class comes to one of the two.
TEST_F(HotAgreement, what_only_some_ranks_have_is_named_within_as_many_agreements_as_ranks) {
  begin(4, {.most = 40, .least_fill = 0});
  std::vector<Key> common(400);
  for (Key key = 0; key < common.size(); ++key) common[key] = key;
  for (Key rare = 1'000; rare < 1'010; ++rare) {
    for (Sketch& sketch : sketches_) sketch.clear();
    set_ = {};
    for (int batch = 0; batch < 4; ++batch)
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        count(rank, batch == 0 ? common : std::vector<Key>{});
        if (rank < 2) count(rank, {rare});
      }
    int agreements = 0;
    while (!set_.has(rare) && agreements < 5) {
      agree();
      ++agreements;
    }
    EXPECT_LE(agreements, 4) << rare;
  }
}
TEST_F(HotAgreement, once_the_set_is_full_an_agreement_is_smaller) {
  begin(2, {.most = 64, .least_fill = 0});
  std::vector<Key> batch(100);
  for (Key key = 0; key < batch.size(); ++key) batch[key] = key;
  for (std::uint32_t rank = 0; rank < 2; ++rank) count(rank, batch);
  EXPECT_EQ(sum_of_names().size(), 3U + 2 * (1 + 2 * 64));
  agree();
  ASSERT_EQ(hot().size(), 64U);
  EXPECT_EQ(sum_of_names().size(), 3U + 2 * (1 + 2 * 16));
}

TEST_F(HotAgreement, of_one_worker_nothing_is_hot) {
  begin(1, {.most = 4, .least_fill = 0});
  count(0, {1, 2});
  agree();
  EXPECT_TRUE(hot().empty());
}
TEST_F(HotAgreement, without_batches_nothing_is_hot) {
  begin(2, {.most = 4, .least_fill = 0});
  agree();
  EXPECT_TRUE(hot().empty());
}

TEST_F(HotAgreement, ranks_with_different_sets_are_told_so) {
  begin(2, {.most = 4, .least_fill = 0});
  Words sum = names(seat(0), KeySet(), sketches_[0]);
  add(sum, names(seat(1), KeySet(1, {}), sketches_[1]));
  const auto told = candidates(seat(0), KeySet(), sum);
  ASSERT_FALSE(told);
  EXPECT_THAT(told.error().what, HasSubstr("this rank uses set 0, 1 of 2 ranks use set 1"));
}
TEST_F(HotAgreement, sums_that_cannot_be_are_refused_with_the_rank) {
  begin(2, {.most = 4, .least_fill = 0});
  count(1, {9});
  const Words good = sum_of_names();
  const std::size_t second = kFirstSegment + (good.size() - kFirstSegment) / 2;
  const auto refused = [&](std::size_t at, std::int32_t value) {
    Words bad = good;
    bad[at] = value;
    const auto told = candidates(seat(0), set_, bad);
    return told ? "" : told.error().what;
  };
  EXPECT_THAT(refused(second, -1), HasSubstr("rank 1 names -1 keys; it may name 4"));
  EXPECT_THAT(refused(second, 5), HasSubstr("rank 1 names 5 keys"));
  const auto short_sum = candidates(seat(0), set_, std::span(good).first(good.size() - 1));
  ASSERT_FALSE(short_sum);
  EXPECT_THAT(short_sum.error().what, HasSubstr("has 20 words, not 21"));
  set_ = KeySet(0, {9});
  Words hot_one = names(seat(0), set_, sketches_[0]);
  EXPECT_EQ(hot_one[kFirstSegment], 0) << "a hot key is not named";
}
TEST_F(HotAgreement, weights_that_cannot_be_are_refused_with_the_key) {
  begin(1, {.most = 4, .least_fill = 0});
  const std::vector<Key> named{77};
  Words words = weights(set_, named, sketches_[0]);
  words.back() = -1;
  const auto told = next_set(seat(0), set_, named, words);
  ASSERT_FALSE(told);
  EXPECT_THAT(told.error().what, HasSubstr("key 77 has a negative weight"));
  words.pop_back();
  EXPECT_FALSE(next_set(seat(0), set_, named, words));
}

}  // namespace
}  // namespace tally::hot
