// A worker of a job with stragglers: what it takes for an INCOMPLETE result, what it tells the program and
// its peers of it, and what becomes of a worker that is itself late.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "engine/chunk_codec.h"
#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Rank 0 of a job, and a box that the test plays.
struct Stragglers : testing::Test {
  explicit Stragglers(JobShape shape = {.world = 3, .stragglers = true})
      : box(shape), engine(joined_engine(box, options_of(shape, 0))) {}

  // What the engine has to say now, by chunk; without HEARTBEATs.
  std::map<std::uint32_t, Bytes> send() {
    std::map<std::uint32_t, Bytes> out;
    for (const Out& each : drain(*engine, now)) {
      const Header h = header_of(each.bytes);
      if (!is_control(h.type)) out[h.chunk.host()] = each.bytes;
    }
    return out;
  }
  void receive(const Bytes& datagram) { engine->receive(datagram, ++now); }
  // A RESULT with values of the test's.
  Bytes result(const Bytes& contribution, const std::vector<std::int32_t>& values, std::uint64_t ranks,
               std::int8_t exponent = kNoExponent) const {
    Header h = header_of(box.result_of(contribution, ranks));
    std::uint32_t sum1 = 0;
    std::uint32_t sum2 = 0;
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      sum1 += static_cast<std::uint32_t>(values[i]);
      sum2 += (i + 1) * static_cast<std::uint32_t>(values[i]);
    }
    for (std::uint32_t r = 0; r < box.shape.world; ++r)
      if ((ranks >> r & 1) != 0)
        sum1 +=
            keyed(rank_key(Generation{box.generation}, Rank{static_cast<std::uint16_t>(r)}), h.chunk_id());
    h.sum1 = Be<std::uint32_t>{sum1};
    h.sum2 = Be<std::uint32_t>{sum2};
    h.exponent = exponent;
    return sealed(h, values);
  }
  OperationStats finished() {
    auto completion = engine->next_completion();
    EXPECT_TRUE(completion.has_value());
    if (!completion || !completion->result) return {};
    return *completion->result;
  }

  Box box;
  std::unique_ptr<engine::WorkerEngine> engine;
  TimeNs now = kMillisecond;
};

TEST_F(Stragglers, a_sum_without_some_ranks_is_taken_and_names_them) {
  std::vector<std::int32_t> x(32 * 4, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const auto sent = send();
  ASSERT_EQ(sent.size(), 4U);
  receive(box.result_of(sent.at(2), 0b011));
  receive(box.result_of(sent.at(1), 0b011));
  receive(box.result_of(sent.at(0), 0b111));
  receive(box.result_of(sent.at(3), 0b101));
  const OperationStats stats = finished();
  EXPECT_TRUE(stats.incomplete);
  EXPECT_EQ(stats.incomplete_chunks, 3U);
  EXPECT_EQ(stats.contributors, 0b001U) << "in every sum";
  EXPECT_THAT(stats.partial, ElementsAre(PartialSum{32, 64, 0b011}, PartialSum{96, 32, 0b101}));
  EXPECT_EQ(engine->statistics().incomplete, 3U);
  EXPECT_EQ(engine->statistics().refused_total(), 0U);
}

TEST_F(Stragglers, an_operation_without_them_names_everybody) {
  std::vector<std::int32_t> x(40, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  for (const auto& [chunk, contribution] : send()) receive(box.result_of(contribution));
  const OperationStats stats = finished();
  EXPECT_FALSE(stats.incomplete);
  EXPECT_EQ(stats.contributors, 0b111U);
  EXPECT_TRUE(stats.partial.empty());
}

// The last data chunk is padded on the wire; `partial` counts the program's elements.
TEST_F(Stragglers, who_is_missing_itself_gets_the_others_sum) {
  std::vector<std::int32_t> x(5, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  receive(result(send().at(0), std::vector<std::int32_t>(16, -3), 0b110));
  EXPECT_THAT(finished().partial, ElementsAre(PartialSum{0, 5, 0b110}));
  EXPECT_EQ(x, std::vector<std::int32_t>(5, -3));
}

TEST_F(Stragglers, what_the_bitmap_says_must_be_so) {
  std::vector<std::int32_t> x(16, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const Bytes contribution = send().at(0);
  const auto named = [&](std::uint64_t ranks, std::uint8_t flags) {
    Bytes out = box.result_of(contribution, 0b011);
    Header h = header_of(out);
    h.contributors = Be{ranks};
    h.flags = flags;
    std::memcpy(out.data(), &h, sizeof h);
    return resealed(out);
  };
  const auto refused = [&](Refused why) { return engine->statistics().of(why); };
  receive(named(0b111, kFlagIncomplete));
  receive(named(0b1011, kFlagIncomplete));
  receive(named(0b011, 0));
  EXPECT_EQ(refused(Refused::kContributors), 3U);
  receive(named(0b101, kFlagIncomplete));  // as many ranks, but not these
  EXPECT_EQ(refused(Refused::kSum), 1U);
  EXPECT_EQ(engine->pending_operations(), 1U);
  receive(named(0b011, kFlagIncomplete));
  EXPECT_EQ(engine->pending_operations(), 0U);
}

TEST_F(Stragglers, peers_are_answered_with_the_bitmap) {
  std::vector<std::int32_t> x(16, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const Bytes had = result(send().at(0), std::vector<std::int32_t>(16, 11), 0b101);
  receive(had);
  Header query = box.from_box(PacketType::kQuery);
  query.rank = Be<std::uint16_t>{1};
  query.contributors = Be<std::uint64_t>{1};
  receive(sealed(query));
  const Bytes answer = send().at(0);
  const Header h = header_of(answer);
  EXPECT_EQ(h.type, PacketType::kAnswer);
  EXPECT_EQ(h.flags, kFlagIncomplete);
  EXPECT_EQ(h.contributors.host(), 0b101U);
  EXPECT_EQ(h.slot.host(), 1U) << "the asker";
  EXPECT_EQ(h.sum1.host(), header_of(had).sum1.host());
  EXPECT_EQ(payload_of(answer), payload_of(had));
}

// Its history is 3 x 16 results long: chunk 0 is forgotten when chunk 48 is there.
TEST_F(Stragglers, who_asks_for_what_is_forgotten_is_told_so) {
  std::vector<std::int32_t> x(32 * 50, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  while (engine->pending_operations() != 0)
    for (const auto& [chunk, contribution] : send()) receive(box.result_of(contribution));
  const auto asked = [&](std::uint32_t chunk) {
    Header query = box.from_box(PacketType::kQuery);
    query.rank = Be<std::uint16_t>{2};
    query.chunk = Be{chunk};
    query.slot = Be{chunk % 16};
    query.contributors = Be<std::uint64_t>{1};
    receive(sealed(query));
    return send();
  };
  const Bytes gone = asked(0).at(0);
  const Header h = header_of(gone);
  EXPECT_EQ(h.type, PacketType::kAnswer);
  EXPECT_EQ(h.flags, kFlagIncomplete);
  EXPECT_EQ(h.contributors.host(), 0U);
  EXPECT_EQ(h.elements.host(), 0U);
  EXPECT_EQ(h.slot.host(), 2U);
  EXPECT_EQ(gone.size(), kHeaderBytes);
  EXPECT_EQ(header_of(asked(2).at(2)).contributors.host(), 0b111U) << "still there";
  EXPECT_TRUE(asked(50).empty()) << "not there yet";
}

// It had asked the box alone, no peer: what it missed is that it is late, and no fault of the path.
TEST_F(Stragglers, a_result_that_was_asked_for_and_lacks_this_rank_ends_the_back_off) {
  std::vector<std::int32_t> x(16 * 32, 7);
  const auto chunks = [&](std::size_t n) {
    EXPECT_TRUE(engine->allreduce(std::span<std::int32_t>(x).first(32 * n), now));
    return send();
  };
  // Samples, and then none. A round is 15 ms, a time-out 20.
  for (int i = 0; i < 20; ++i) {
    const Bytes sampled = chunks(1).begin()->second;
    now += 15 * kMillisecond;
    receive(box.result_of(sampled, 0b111));
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& [chunk, contribution] : chunks(16)) {
      Header h = box.from_box(PacketType::kNack);
      h.slot = Be{header_of(contribution).sequence()};
      h.contributors = Be{std::uint64_t{1}};
      receive(sealed(h));
    }
    for (const auto& [chunk, contribution] : send()) receive(box.result_of(contribution, 0b111));
  }
  const TimeNs without = engine->statistics().rto;
  const Bytes contribution = chunks(2).begin()->second;  // the lowest is asked for, the timer is the other's
  for (int i = 0; i < 100 && engine->statistics().rto == without; ++i) {
    now = engine->deadline();
    (void)send();
  }
  ASSERT_EQ(engine->statistics().rto, 2 * without);
  ASSERT_EQ(engine->statistics().asks, 1U);
  EXPECT_EQ(engine->statistics().asks, engine->statistics().queries) << "no peer was asked";
  const Bytes result = box.result_of(contribution, 0b110);
  Header repeated = header_of(result);
  repeated.flags |= kFlagRetransmit;
  receive(sealed(repeated, payload_of(result)));
  EXPECT_EQ(engine->statistics().rto, without);
}

// One peer has forgotten the result; the other does not have it either. Then nobody has.
TEST_F(Stragglers, a_rank_that_needs_what_all_have_forgotten_fails) {
  std::vector<std::int32_t> x(16, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const Bytes contribution = send().at(0);
  std::vector<std::uint64_t> asked;
  TimeNs first = 0;  // answer that it is gone
  for (int i = 0; i < 400 && engine->state() == engine::EngineState::kRunning; ++i) {
    now = std::max(now, engine->deadline());
    for (const auto& [chunk, datagram] : send()) {
      const Header h = header_of(datagram);
      if (h.type != PacketType::kQuery) {
        EXPECT_TRUE(asked.empty()) << "the box does not take it any more";
        continue;
      }
      asked.push_back(h.contributors.host());
      if (asked.back() == 0b010) receive(box.result_of(contribution, 0));
      if (first == 0) first = now;
    }
    receive(box.echo(PacketType::kHeartbeat, 0));
  }
  ASSERT_EQ(engine->state(), engine::EngineState::kClosed);
  // Everybody twice, and whoever may still have it has a second to say so.
  ASSERT_GE(asked.size(), 6U);
  asked.resize(6);
  EXPECT_THAT(asked, ElementsAre(0b010, 0b010, 0b100, 0b010, 0b100, 0b010));
  EXPECT_GE(now - first, kSecond);
  EXPECT_LE(now - first, 3 * kSecond);
  const auto completion = engine->next_completion();
  ASSERT_TRUE(completion.has_value() && !completion->result.has_value());
  EXPECT_EQ(completion->result.error().code, ErrorCode::kFellBehind);
  EXPECT_THAT(completion->result.error().what, HasSubstr("fell behind"));
  EXPECT_THAT(completion->result.error().what, HasSubstr("chunk 0"));
}

TEST_F(Stragglers, one_peer_that_remembers_is_enough) {
  std::vector<std::int32_t> x(16, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const Bytes contribution = send().at(0);
  receive(box.result_of(contribution, 0));
  EXPECT_EQ(engine->state(), engine::EngineState::kRunning);
  receive(box.result_of(contribution, 0b110));
  EXPECT_THAT(finished().partial, ElementsAre(PartialSum{0, 16, 0b110}));
}

// Who did not opt in is told of nothing: another job's ANSWER would be a forgery.
struct StrictJob : Stragglers {
  StrictJob() : Stragglers({.world = 3}) {}
};
TEST_F(StrictJob, takes_no_incomplete_result_and_answers_none) {
  std::vector<std::int32_t> x(16, 7);
  ASSERT_TRUE(engine->allreduce(std::span<std::int32_t>(x), now));
  const Bytes contribution = send().at(0);
  receive(box.result_of(contribution, 0b011));
  receive(box.result_of(contribution, 0));
  EXPECT_EQ(engine->statistics().of(Refused::kIncomplete), 2U);
  EXPECT_EQ(engine->statistics().refused_total(), 2U);
  EXPECT_EQ(engine->pending_operations(), 1U);
}

// E lacks this rank's exponent: what exceeds 2^E becomes +-2^s, with its sign, and OVERFLOW says so.
TEST_F(Stragglers, a_late_block_is_clipped_to_the_exponent_of_the_others) {
  std::vector<float> x{1.0F, -1.0F, 0.25F, 3e30F, -3e30F, 1000.0F, -1000.0F, 0.0F};
  ASSERT_TRUE(engine->allreduce(std::span<float>(x), now));
  const Bytes priming = send().at(0);
  EXPECT_EQ(header_of(priming).exponent, engine::block_exponent(std::bit_cast<std::uint32_t>(3e30F)));
  receive(result(priming, {}, 0b110, 0));  // the others stay within 1
  const Bytes data = send().at(1);
  EXPECT_EQ(header_of(data).flags, kFlagOverflow);
  const std::int32_t top = 1 << engine::sum_shift(3);
  std::vector<std::int32_t> sent = values_of(data);
  sent.resize(x.size());
  EXPECT_THAT(sent, ElementsAre(top, -top, top / 4, top, -top, top, -top, 0));
  receive(box.result_of(data));
  EXPECT_THAT(x, ElementsAre(1.0F, -1.0F, 0.25F, 1.0F, -1.0F, 1.0F, -1.0F, 0.0F));
}

TEST_F(Stragglers, a_late_block_that_fits_is_sent_as_ever) {
  std::vector<float> x{0.5F, -0.25F};
  ASSERT_TRUE(engine->allreduce(std::span<float>(x), now));
  receive(result(send().at(0), {}, 0b110, 3));
  const Bytes data = send().at(1);
  EXPECT_EQ(header_of(data).flags, 0U);
  receive(box.result_of(data));
  EXPECT_THAT(x, ElementsAre(0.5F, -0.25F));
}

// All others are zeros: so is this rank, for there is no scale.
TEST_F(Stragglers, a_late_block_among_zeros_is_lost_with_a_flag) {
  std::vector<float> x{5.0F, -7.0F};
  ASSERT_TRUE(engine->allreduce(std::span<float>(x), now));
  receive(result(send().at(0), {}, 0b110, static_cast<std::int8_t>(engine::kZeroBlock)));
  const Bytes data = send().at(1);
  EXPECT_EQ(header_of(data).flags, kFlagOverflow | kFlagZero);
  EXPECT_EQ(data.size(), kHeaderBytes);
}

// Who is in the maximum cannot be above it.
TEST_F(Stragglers, an_exponent_below_one_that_is_in_it_is_refused) {
  std::vector<float> x{5.0F};
  ASSERT_TRUE(engine->allreduce(std::span<float>(x), now));
  const Bytes priming = send().at(0);
  receive(result(priming, {}, 0b011, 0));
  EXPECT_EQ(engine->statistics().of(Refused::kExponent), 1U);
  receive(result(priming, {}, 0b110, kNoExponent));
  EXPECT_EQ(engine->statistics().of(Refused::kExponent), 2U);
}

// Each sum by as many ranks as are in it; the same bits at every rank.
TEST_F(Stragglers, the_mean_divides_by_those_who_are_in_the_sum) {
  std::vector<float> x(64 + 3, 6.0F);  // three chunks, the last of 3 elements
  ASSERT_TRUE(engine->allreduce(std::span<float>(x), now, {.mean = true}));
  for (const auto& [chunk, priming] : send()) receive(box.result_of(priming));
  const std::array<std::uint64_t, 3> ranks{0b111, 0b011, 0b001};
  for (const auto& [chunk, data] : send()) receive(box.result_of(data, ranks.at(chunk - 3)));
  const OperationStats stats = finished();
  EXPECT_EQ(stats.contributors, 0b001U);
  EXPECT_EQ(stats.incomplete_chunks, 2U);
  std::vector<float> expected(32, 6.0F / 3);
  expected.resize(64, 6.0F / 2);
  expected.resize(67, 6.0F);
  EXPECT_EQ(x, expected);
}

TEST_F(Stragglers, integers_have_no_mean) {
  std::vector<std::int32_t> x(16, 7);
  const auto refused = engine->allreduce(std::span<std::int32_t>(x), now, {.mean = true});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tally::testbed
