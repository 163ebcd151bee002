// The rules of scheduling.md's `shared`: who takes whose entry (wins, legal), what becomes of what was in it,
// and the age sweep.

#include <gtest/gtest.h>

#include "shared_core.h"

namespace tally {
namespace {

template <class Exec>
class SharedSwap : public SharedCore<Exec> {};
TYPED_TEST_SUITE(SharedSwap, BothExecutions);

TYPED_TEST(SharedSwap, a_first_arrival_takes_an_entry_of_its_class) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(one, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->send(two, 0, Chunk{9});
  EXPECT_EQ(out.verdict, Verdict::kEvict);
  EXPECT_EQ(out.job->id, two.id);
  EXPECT_TRUE(this->holds(0, two, Chunk{9}));
  EXPECT_EQ(this->occupancy(one), 0U);
  EXPECT_EQ(this->occupancy(two), 1U);
  EXPECT_EQ(this->state(one).slots.evicted, 1U);
  EXPECT_EQ(this->state(two).slots.swaps, 1U);
  this->expect_result(this->send(one, 1, Chunk{0}), Verdict::kComplete, one, Chunk{0}, 0b11);
  this->expect_result(this->send(two, 1, Chunk{9}), Verdict::kComplete, two, Chunk{9}, 0b11);
}

TYPED_TEST(SharedSwap, a_later_arrival_takes_none_of_its_class) {
  this->start(1, 0);
  const jobs::NativeJob one = this->shared_job({.id = 1, .world = 3});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(one, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->send(one, 1, Chunk{0}, {.priority = 63}).verdict, Verdict::kBypass);
  EXPECT_TRUE(this->holds(0, two, Chunk{0}));
  EXPECT_EQ(this->state(one).slots.denied, 1U);
}

TYPED_TEST(SharedSwap, a_higher_class_takes_with_any_arrival_and_a_lower_one_never) {
  this->start(1, 0);
  const jobs::NativeJob low = this->shared_job({.id = 1});
  const jobs::NativeJob high = this->shared_job({.id = 2, .world = 4});
  EXPECT_EQ(this->send(high, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(low, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(high, 1, Chunk{0}, {.priority = kClass1}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->send(low, 0, Chunk{1}, {.priority = 63}).verdict, Verdict::kBypass);
  EXPECT_TRUE(this->holds(0, high, Chunk{0}));
}

TYPED_TEST(SharedSwap, the_class_is_clamped_to_the_maximum_of_the_job) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2, .max_priority = 63});
  EXPECT_EQ(this->send(one, 0, Chunk{0}, {.priority = kClass1}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(two, 0, Chunk{0}, {.priority = 254}).verdict, Verdict::kBypass);
}

TYPED_TEST(SharedSwap, classes_stand_above_reservations) {
  this->start(1);
  const jobs::NativeJob low = this->shared_job({.id = 1, .reserved = 1});
  const jobs::NativeJob high = this->shared_job({.id = 2, .reserved = 1});
  EXPECT_EQ(this->send(high, 0, Chunk{0}, {.priority = kClass1}).verdict, Verdict::kAbsorb);
  // Under its own reservation, but the other job is not over its own.
  EXPECT_EQ(this->send(low, 0, Chunk{0}).verdict, Verdict::kBypass);
  EXPECT_TRUE(this->holds(0, high, Chunk{0}));
}

TYPED_TEST(SharedSwap, a_first_arrival_under_its_reservation_takes_back_from_a_higher_class) {
  this->start(1, 0);
  const jobs::NativeJob low = this->shared_job({.id = 1, .world = 4, .reserved = 1});
  const jobs::NativeJob high = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(high, 0, Chunk{0}, {.priority = kClass3}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(low, 0, Chunk{0}, {.flags = kFlagDirect}).verdict, Verdict::kBypass);
  EXPECT_EQ(this->send(low, 1, Chunk{0}).verdict, Verdict::kBypass) << "not a first arrival";
  EXPECT_EQ(this->send(low, 0, Chunk{1}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->send(high, 0, Chunk{1}, {.priority = kClass3}).verdict, Verdict::kBypass)
      << "the low class holds no more than its reservation";
  EXPECT_TRUE(this->holds(0, low, Chunk{1}));
}

TYPED_TEST(SharedSwap, a_reservation_protects_until_the_entry_stalls) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1, .reserved = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(one, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kBypass);
  this->now_ += 150 * kMicrosecond;
  EXPECT_EQ(this->send(two, 0, Chunk{1}).verdict, Verdict::kBypass);
  this->now_ += 50 * kMicrosecond;  // tau, at its least
  EXPECT_EQ(this->send(two, 0, Chunk{2}).verdict, Verdict::kEvict);
}

TYPED_TEST(SharedSwap, tau_follows_the_time_that_chunks_need) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1, .reserved = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  this->send(one, 0, Chunk{0});
  this->now_ += 5 * kMillisecond;
  EXPECT_EQ(this->send(one, 1, Chunk{0}).verdict, Verdict::kComplete);  // tau is 10 ms now
  this->send(one, 0, Chunk{1});
  this->now_ += 9 * kMillisecond;
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kBypass);
  this->now_ += 2 * kMillisecond;
  EXPECT_EQ(this->send(two, 0, Chunk{1}).verdict, Verdict::kEvict);
}

TYPED_TEST(SharedSwap, an_own_entry_is_legal_also_under_the_reservation) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({.reserved = 1});
  EXPECT_EQ(this->send(job, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(job, 0, Chunk{1}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->occupancy(job), 1U);
}

TYPED_TEST(SharedSwap, the_hand_goes_round_and_gives_one_try) {
  this->start(3);
  const jobs::NativeJob low = this->shared_job({.id = 1});
  const jobs::NativeJob high = this->shared_job({.id = 2});
  EXPECT_EQ(this->send(high, 0, Chunk{0}, {.priority = kClass1}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(low, 0, Chunk{0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(low, 0, Chunk{1}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->send(low, 0, Chunk{2}).verdict, Verdict::kBypass);  // entry 0 is of the higher class
  EXPECT_EQ(this->send(low, 0, Chunk{3}).verdict, Verdict::kEvict);
  EXPECT_TRUE(this->holds(1, low, Chunk{3}));
  EXPECT_EQ(this->send(low, 0, Chunk{4}).verdict, Verdict::kEvict);
  EXPECT_TRUE(this->holds(2, low, Chunk{4}));
}

TYPED_TEST(SharedSwap, all_fields_change_places) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1, .world = 3});
  const jobs::NativeJob two = this->shared_job({.id = 2, .elements = 32});
  const auto with = [](std::uint32_t rank, std::vector<std::int32_t> values, std::int8_t exponent,
                       std::uint8_t flags, std::uint32_t total) {
    return ContributionSpec{.rank = Rank{static_cast<std::uint16_t>(rank)},
                            .chunk = Chunk{4},
                            .values = std::move(values),
                            .flags = flags,
                            .dtype = 1,
                            .exponent = exponent,
                            .total = total};
  };
  const std::vector<std::int32_t> half(16, 3);
  this->take(one, 0, make_contribution(one, with(0, half, 7, kFlagOverflow, 99)));
  this->take(one, 1, make_contribution(one, with(1, half, 5, 0, 99)));
  const std::vector<std::int32_t> whole(32, 10);
  EXPECT_EQ(this->take(two, 0, make_contribution(two, with(0, whole, -3, 0, 50))).verdict, Verdict::kEvict);
  const pipeline::Outcome first = this->take(one, 2, make_contribution(one, with(2, half, 1, 0, 99)));
  ASSERT_EQ(first.verdict, Verdict::kComplete);
  const Header a = header_of({first.payload, kHeaderBytes});
  EXPECT_EQ(a.exponent, 7);
  EXPECT_EQ(a.flags, kFlagOverflow);
  EXPECT_EQ(a.dtype, 1);
  EXPECT_EQ(a.total.host(), 99U);
  EXPECT_EQ(a.elements.host(), 16U);
  EXPECT_EQ(first.payload[kHeaderBytes + 3], std::byte{9});
  const pipeline::Outcome second = this->take(two, 1, make_contribution(two, with(1, whole, -5, 0, 50)));
  ASSERT_EQ(second.verdict, Verdict::kComplete);
  const Header b = header_of({second.payload, kHeaderBytes});
  EXPECT_EQ(b.exponent, -3);
  EXPECT_EQ(b.flags, 0);
  EXPECT_EQ(b.total.host(), 50U);
  EXPECT_EQ(b.elements.host(), 32U);
  EXPECT_EQ(second.payload[kHeaderBytes + 3], std::byte{20});
  EXPECT_EQ(second.payload[kHeaderBytes + 4 * 31 + 3], std::byte{20});
}

TYPED_TEST(SharedSwap, a_frame_without_room_for_the_entry_is_denied) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1, .elements = 32});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  this->send(one, 0, Chunk{0});
  const Bytes datagram = make_contribution(
      two, {.rank = Rank{0}, .chunk = Chunk{0}, .values = std::vector<std::int32_t>(16, 1)});
  const jobs::Binding& from = two.ranks[0].binding;
  ReceivedFrame frame(wrap(datagram, from, test_box(), kBasePort), from.port, true, 0);
  EXPECT_EQ(this->pipeline_->process(frame.frame(), this->now_).verdict, Verdict::kBypass);
  EXPECT_TRUE(this->holds(0, one, Chunk{0}));
}

TYPED_TEST(SharedSwap, what_is_evicted_of_an_epoch_that_is_over_is_only_freed) {
  this->start(1);
  const jobs::NativeJob old = this->shared_job({.id = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  this->send(old, 0, Chunk{0});
  this->pipeline_->release(old.id, old.slots, 0, old.members);
  const jobs::NativeJob job = this->shared_job({.id = 1, .epoch = 0x2000'0001});
  EXPECT_EQ(this->occupancy(job), 1U) << "never reset";
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->server().incomplete, 0U);
}

TYPED_TEST(SharedSwap, what_is_evicted_of_a_job_that_is_gone_is_only_freed) {
  this->start(1);
  const jobs::NativeJob old = this->shared_job({.id = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  this->send(old, 0, Chunk{0});
  this->remove(old);
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->occupancy(old), 0U);
  EXPECT_EQ(this->server().incomplete, 0U);
}

TYPED_TEST(SharedSwap, what_is_evicted_a_span_behind_is_only_freed) {
  this->start(1);
  const jobs::NativeJob one = this->shared_job({.id = 1});
  const jobs::NativeJob two = this->shared_job({.id = 2});
  this->send(one, 0, Chunk{0});
  this->send(one, 0, Chunk{one.span}, {.flags = kFlagDirect});
  EXPECT_EQ(this->server().incomplete, 1U);
  EXPECT_EQ(this->send(two, 0, Chunk{0}).verdict, Verdict::kEvict);
  EXPECT_EQ(this->occupancy(one), 0U);
  EXPECT_EQ(this->server().incomplete, 1U);
}

TYPED_TEST(SharedSwap, the_sweep_takes_what_nobody_touched_to_the_server) {
  this->start(3);
  const jobs::NativeJob job = this->shared_job({.world = 3});
  this->send(job, 0, Chunk{0});
  this->send(job, 1, Chunk{0});
  this->now_ += 9 * kMillisecond;
  EXPECT_FALSE(this->sweep().has_value());
  this->now_ += 2 * kMillisecond;
  const auto out = this->sweep();
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->verdict, Verdict::kDrop);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->state(job).slots.swept, 1U);
  EXPECT_EQ(this->server().incomplete, 1U);
  EXPECT_FALSE(this->sweep().has_value());
  this->expect_result(this->send(job, 2, Chunk{0}), Verdict::kComplete, job, Chunk{0}, 0b111);
}

TYPED_TEST(SharedSwap, the_sweep_may_complete_a_chunk) {
  this->start(1);
  const jobs::NativeJob job =
      this->publish({.discipline = Discipline::kFcfs});  // by hash nobody knows who is the last
  this->send(job, 0, Chunk{0});
  this->send(job, 1, Chunk{0}, {.flags = kFlagDirect});
  this->now_ += 11 * kMillisecond;
  const auto out = this->sweep();
  ASSERT_TRUE(out.has_value());
  this->expect_result(*out, Verdict::kComplete, job, Chunk{0}, 0b11);
  EXPECT_EQ(this->occupancy(job), 0U);
}

TYPED_TEST(SharedSwap, the_sweep_only_frees_what_is_of_no_use) {
  this->start(3);
  const jobs::NativeJob gone = this->shared_job({.id = 1});
  const jobs::NativeJob old = this->shared_job({.id = 2});
  const jobs::NativeJob far = this->shared_job({.id = 3});
  for (const jobs::NativeJob& job : {gone, old, far}) this->send(job, 0, Chunk{0});
  this->remove(gone);
  this->shared_job({.id = 2, .epoch = 0x2000'0001});
  this->send(far, 0, Chunk{far.span}, {.flags = kFlagDirect});
  this->now_ += 11 * kMillisecond;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(this->sweep().has_value());
  EXPECT_FALSE(this->sweep().has_value());
  for (const jobs::NativeJob& job : {gone, old, far}) EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->server().incomplete, 1U) << "the DIRECT one only";
}

TYPED_TEST(SharedSwap, the_sweep_drops_states_of_the_server_that_nobody_adds_to) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  this->send(job, 0, Chunk{0}, {.flags = kFlagDirect});
  this->now_ += 3 * kSecond;
  this->sweep();
  EXPECT_EQ(this->server().incomplete, 1U);
  this->now_ += 2 * kSecond;
  this->sweep();
  EXPECT_EQ(this->server().incomplete, 0U);
}

TYPED_TEST(SharedSwap, a_job_that_is_gone_leaves_nothing_at_the_server) {
  this->start(1);
  const jobs::NativeJob job = this->shared_job({});
  for (const std::uint32_t r : {0U, 1U}) this->send(job, r, Chunk{0}, {.flags = kFlagDirect});
  this->send(job, 0, Chunk{1}, {.flags = kFlagDirect});
  EXPECT_EQ(this->server().complete + this->server().incomplete, 2U);
  this->remove(job);
  EXPECT_EQ(this->server().complete + this->server().incomplete, 0U);
}

// What a chip would pay: a claim costs nothing, one behind a pointer that leads to somebody else's entry one
// more pass, a swap two, a denied one the pass in which it looked.
class Recirculations : public SharedCore<pipeline::Staged> {
 protected:
  std::uint64_t of(const jobs::NativeJob& job, std::uint32_t rank, std::uint32_t chunk, Verdict expected,
                   const Sent& how = {}) {
    const auto before = pipeline_->execution().recirculations();
    EXPECT_EQ(send(job, rank, Chunk{chunk}, how).verdict, expected);
    return pipeline_->execution().recirculations() - before;
  }
};

TEST_F(Recirculations, claim_add_and_finish_cost_none) {
  start(2);
  const jobs::NativeJob job = shared_job({.world = 3});
  EXPECT_EQ(of(job, 0, 0, Verdict::kAbsorb), 0U);
  EXPECT_EQ(of(job, 1, 0, Verdict::kAbsorb), 0U);
  EXPECT_EQ(of(job, 2, 0, Verdict::kComplete), 0U);
  EXPECT_EQ(of(job, 2, 0, Verdict::kRepeat), 0U);
  EXPECT_EQ(of(job, 2, 1, Verdict::kBypass, {.flags = kFlagDirect}), 0U);
}

TEST_F(Recirculations, a_claim_behind_a_stale_pointer_costs_one_and_a_swap_two) {
  start(1, 0);
  const jobs::NativeJob one = shared_job({.id = 1, .world = 3});
  const jobs::NativeJob two = shared_job({.id = 2});
  EXPECT_EQ(of(one, 0, 0, Verdict::kAbsorb), 0U);
  EXPECT_EQ(of(two, 0, 0, Verdict::kEvict), 2U);
  EXPECT_EQ(of(one, 0, 1, Verdict::kEvict), 2U);
  EXPECT_EQ(of(two, 0, 1, Verdict::kEvict), 2U);
  EXPECT_EQ(of(two, 1, 1, Verdict::kComplete), 0U);
  EXPECT_EQ(of(one, 1, 0, Verdict::kAbsorb), 1U);  // its row still names the entry, which is available
}

TEST_F(Recirculations, a_try_that_fails_costs_one) {
  start(1);
  const jobs::NativeJob one = shared_job({.id = 1});
  const jobs::NativeJob two = shared_job({.id = 2});
  EXPECT_EQ(of(one, 0, 0, Verdict::kAbsorb, {.priority = kClass1}), 0U);
  EXPECT_EQ(of(two, 0, 0, Verdict::kBypass), 1U);
}

}  // namespace
}  // namespace tally
