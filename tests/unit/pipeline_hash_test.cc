// The reference disciplines by hash: `fcfs` sends who comes second to the server, `preemptive` swaps a lower
// priority out, which may decay.

#include <gtest/gtest.h>

#include <set>

#include "rng.h"
#include "shared_core.h"

namespace tally {
namespace {

template <class Exec>
class HashSlots : public SharedCore<Exec> {
 protected:
  // Two jobs and one slot: every chunk is in the way of every other.
  void start_with(Discipline discipline, Decay decay = Decay::kNone) {
    this->start(1);
    one_ = this->publish({.id = 1, .discipline = discipline, .decay = decay});
    two_ = this->publish({.id = 2, .discipline = discipline, .decay = decay});
  }
  jobs::NativeJob one_;
  jobs::NativeJob two_;
};
TYPED_TEST_SUITE(HashSlots, BothExecutions);

TYPED_TEST(HashSlots, fcfs_sends_who_comes_second_to_the_server) {
  this->start_with(Discipline::kFcfs);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}, {.priority = 254}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->state(this->two_).slots.denied, 1U);
  EXPECT_TRUE(this->holds(0, this->one_, Chunk{0}));
  this->expect_result(this->send(this->one_, 1, Chunk{0}), Verdict::kComplete, this->one_, Chunk{0}, 0b11);
  // The slot is free at the moment it completes, and the chunk at the server stays there.
  this->expect_result(this->send(this->two_, 1, Chunk{0}), Verdict::kComplete, this->two_, Chunk{0}, 0b11);
  EXPECT_TRUE(this->holds(0, this->one_, Chunk{0}));
  EXPECT_EQ(this->send(this->two_, 0, Chunk{1}).verdict, Verdict::kAbsorb);
  EXPECT_TRUE(this->holds(0, this->two_, Chunk{1}));
}

TYPED_TEST(HashSlots, a_complete_entry_repeats_its_result_and_a_bit_inside_is_a_duplicate) {
  this->start_with(Discipline::kFcfs);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}).drop, Drop::kDuplicate);
  EXPECT_EQ(this->send(this->one_, 1, Chunk{0}).verdict, Verdict::kComplete);
  this->expect_result(this->send(this->one_, 0, Chunk{0}), Verdict::kRepeat, this->one_, Chunk{0}, 0b01);
}

TYPED_TEST(HashSlots, at_the_cap_nothing_is_claimed) {
  this->start(1);
  const jobs::NativeJob job = this->publish({.discipline = Discipline::kFcfs, .cap = 0});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(HashSlots, direct_goes_to_the_server) {
  this->start_with(Discipline::kFcfs);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->occupancy(this->one_), 0U);
}

// A replay of a rank that may be dead must not keep its lease.
TYPED_TEST(HashSlots, what_the_server_has_already_renews_no_lease) {
  this->start_with(Discipline::kFcfs);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}).verdict, Verdict::kBypass);
  const TimeNs seen = this->state(this->two_).last_seen[0];
  EXPECT_EQ(seen, this->now_);
  this->now_ += kSecond;
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->state(this->two_).last_seen[0], seen);
}

TYPED_TEST(HashSlots, preemptive_swaps_a_lower_priority_out_and_never_an_equal_one) {
  this->start_with(Discipline::kPreemptive);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}, {.priority = 10}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}, {.priority = 9}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(this->two_, 0, Chunk{1}, {.priority = 10}).verdict, Verdict::kBypass);
  EXPECT_TRUE(this->holds(0, this->one_, Chunk{0}));
  EXPECT_EQ(this->send(this->two_, 0, Chunk{2}, {.priority = 11}).verdict, Verdict::kEvict);
  EXPECT_TRUE(this->holds(0, this->two_, Chunk{2}));
  this->expect_result(this->send(this->one_, 1, Chunk{0}), Verdict::kComplete, this->one_, Chunk{0}, 0b11);
}

TYPED_TEST(HashSlots, an_eviction_that_completes_a_chunk_sends_the_result_of_the_evicted_job) {
  this->start_with(Discipline::kPreemptive);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{7}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->one_, 1, Chunk{7}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  const pipeline::Outcome out = this->send(this->two_, 0, Chunk{0}, {.priority = 1});
  this->expect_result(out, Verdict::kComplete, this->one_, Chunk{7}, 0b11);
  EXPECT_EQ(this->pipeline_->counters(this->two_.id).of(Verdict::kEvict), 1U);
  EXPECT_EQ(this->pipeline_->counters(this->two_.id).packets(), 1U);
  EXPECT_EQ(this->pipeline_->counters(this->one_.id).packets(), 2U);
  EXPECT_TRUE(this->holds(0, this->two_, Chunk{0}));
}

TYPED_TEST(HashSlots, decay_none_keeps_a_priority_for_ever) {
  this->start_with(Discipline::kPreemptive, Decay::kNone);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}, {.priority = 10}).verdict, Verdict::kAbsorb);
  this->now_ += 5 * kMillisecond;
  for (std::uint32_t c = 0; c < 8; ++c)
    EXPECT_EQ(this->send(this->two_, 0, Chunk{c}, {.priority = 10}).verdict, Verdict::kBypass);
}

TYPED_TEST(HashSlots, decay_silence_halves_for_each_tau_without_a_touch) {
  this->start_with(Discipline::kPreemptive, Decay::kSilence);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}, {.priority = 40}).verdict, Verdict::kAbsorb);
  this->now_ += 150 * kMicrosecond;
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}, {.priority = 40}).verdict, Verdict::kBypass);
  this->now_ += 100 * kMicrosecond;  // 250 us: 20 is left
  EXPECT_EQ(this->send(this->two_, 0, Chunk{1}, {.priority = 20}).verdict, Verdict::kBypass);
  this->now_ += 200 * kMicrosecond;  // 450 us: 10
  EXPECT_EQ(this->send(this->two_, 0, Chunk{2}, {.priority = 11}).verdict, Verdict::kEvict);
}

TYPED_TEST(HashSlots, decay_denial_halves_with_each_attempt) {
  this->start_with(Discipline::kPreemptive, Decay::kDenial);
  EXPECT_EQ(this->send(this->one_, 0, Chunk{0}, {.priority = 40}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(this->two_, 0, Chunk{0}, {.priority = 11}).verdict, Verdict::kBypass);  // 20
  EXPECT_EQ(this->send(this->two_, 0, Chunk{1}, {.priority = 11}).verdict, Verdict::kBypass);  // 10
  EXPECT_EQ(this->send(this->two_, 0, Chunk{2}, {.priority = 11}).verdict, Verdict::kEvict);
}

TYPED_TEST(HashSlots, a_reservation_protects_from_preemption_too) {
  this->start(1);
  const jobs::NativeJob one = this->publish({.id = 1, .discipline = Discipline::kPreemptive, .reserved = 1});
  const jobs::NativeJob two = this->publish({.id = 2, .discipline = Discipline::kPreemptive});
  EXPECT_EQ(this->send(one, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(two, 0, Chunk{0}, {.priority = 254}).verdict, Verdict::kBypass);
}

// Invariant 7: where no two chunks meet, priorities and decay change nothing.
template <class Exec>
class EnoughSlots : public testing::Test {
 protected:
  struct Core : SharedCore<Exec> {
    using SharedCore<Exec>::send;
    using SharedCore<Exec>::start;
    using SharedCore<Exec>::publish;
    using SharedCore<Exec>::frame_;
    using SharedCore<Exec>::now_;
    using SharedCore<Exec>::server;
    void TestBody() override {}
  };
};
TYPED_TEST_SUITE(EnoughSlots, BothExecutions);

TYPED_TEST(EnoughSlots, preemptive_and_fcfs_are_the_same_trace) {
  for (const Decay decay : {Decay::kNone, Decay::kSilence, Decay::kDenial}) {
    typename EnoughSlots<TypeParam>::Core fcfs;
    typename EnoughSlots<TypeParam>::Core preemptive;
    std::vector<jobs::NativeJob> a;
    std::vector<jobs::NativeJob> b;
    fcfs.start(1 << 12);
    preemptive.start(1 << 12);
    for (std::uint16_t id = 1; id <= 2; ++id) {
      a.push_back(fcfs.publish({.id = id, .world = 3, .discipline = Discipline::kFcfs, .salt = 77}));
      b.push_back(preemptive.publish(
          {.id = id, .world = 3, .discipline = Discipline::kPreemptive, .decay = decay, .salt = 77}));
    }
    Rng rng(5);
    std::set<std::uint32_t> slots;  // of the chunks in use: one chunk to each
    std::vector<std::pair<std::size_t, Chunk>> chunks;
    for (std::uint32_t c = 0; c < 24; ++c) {
      for (std::size_t j = 0; j < 2; ++j) {
        if (slots.insert(slot_of(jobs::slot_map(a[j]), Chunk{c})).second) chunks.emplace_back(j, Chunk{c});
      }
    }
    ASSERT_GT(chunks.size(), 30U);
    std::uint64_t completed = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto [j, chunk] = chunks[rng.below(chunks.size())];
      const auto rank = static_cast<std::uint32_t>(rng.below(3));
      const Sent how{.priority = static_cast<std::uint8_t>(rng.below(255)),
                     .flags = static_cast<std::uint8_t>(rng.chance(0.05) ? kFlagDirect : 0),
                     .sequence = static_cast<std::uint32_t>(i + 1)};
      fcfs.now_ += 20 * kMicrosecond;
      preemptive.now_ = fcfs.now_;
      const pipeline::Outcome x = fcfs.send(a[j], rank, chunk, how);
      const pipeline::Outcome y = preemptive.send(b[j], rank, chunk, how);
      ASSERT_EQ(x.verdict, y.verdict);
      ASSERT_EQ(x.ranks, y.ranks);
      ASSERT_EQ(fcfs.frame_->buffer(), preemptive.frame_->buffer());
      completed += x.verdict == Verdict::kComplete ? 1 : 0;
    }
    EXPECT_EQ(fcfs.server().merged, preemptive.server().merged);
    EXPECT_GT(completed, 20U);
  }
}

}  // namespace
}  // namespace tally
