// Questions and answers between ranks of two racks, at a rack's box (docs/protocol_racks.md, 18.3), in both executions.

#include <gtest/gtest.h>

#include <utility>

#include "rack_core.h"

namespace tally {
namespace {

template <class Exec>
class RackQuestions : public RackCore<Exec> {};
TYPED_TEST_SUITE(RackQuestions, BothExecutions);

TYPED_TEST(RackQuestions, a_question_to_another_rack_goes_to_the_parent) {
  const jobs::NativeJob job = this->rack_job({.world = 3, .window = 16});
  const Chunk chunk{21};
  Bytes question = make_query(job, Rank{2}, chunk);
  Header h = header_of(question);
  h.flags = kFlagDirect;
  h.contributors = Be{std::uint64_t{0b100}};
  h.total = Be{std::uint32_t{7}};
  set_header(question, h);
  const pipeline::Outcome out = this->take(job, 2, question);
  ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
  EXPECT_EQ(out.server, pipeline::kToParent);
  EXPECT_FALSE(out.reject);
  EXPECT_EQ(out.payload_bytes, kHeaderBytes);
  const Header up = this->header(out);
  EXPECT_EQ(up.type, PacketType::kQuery);
  EXPECT_EQ(up.flags, kFlagDirect);
  EXPECT_EQ(up.job_id(), kAbove);
  EXPECT_EQ(raw(up.rank_id()), kOurRack);
  EXPECT_EQ(up.slot.host(), 21U) << "of the parent's window of 32";
  EXPECT_EQ(up.contributors.host(), 0b100U);
  EXPECT_EQ(up.cookie.host(), raw(job.parent.cookie));
  EXPECT_EQ(up.total.host(), 7U);

  for (const std::uint64_t racks : {0b010ULL, 0b1000ULL, 0b101ULL}) {
    h.contributors = Be{racks};
    set_header(question, h);
    EXPECT_EQ(this->take(job, 2, question).drop, Drop::kPeer) << racks;
  }
  // A complete entry answers by itself.
  this->from_parent(this->result_of(job, {.chunk = chunk}));
  h.contributors = Be{std::uint64_t{0b100}};
  set_header(question, h);
  this->expect_down(this->take(job, 2, question), Verdict::kRepeat, job, 0b100, kFlagRetransmit, chunk);
}

TYPED_TEST(RackQuestions, a_question_that_names_nobody_is_of_this_box_also_with_direct) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  Bytes question = make_query(job, Rank{2}, kSome);
  Header h = header_of(question);
  h.flags = kFlagDirect;
  set_header(question, h);
  EXPECT_EQ(this->take(job, 2, question).verdict, Verdict::kTell);
}

TYPED_TEST(RackQuestions, a_question_of_another_rack_goes_to_the_rank_it_names_or_the_most_advanced) {
  const jobs::NativeJob job = this->rack_job({.world = 3, .window = 16});
  for (const auto& [total, rank] : {std::pair{1U, 1U}, {3U, 2U}, {~0U, 2U}}) {
    const pipeline::Outcome out = this->from_parent(this->query_of_rack(job, 2, total, Chunk{21}));
    ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(raw(out.to), rank);
    const Header h = this->header(out);
    EXPECT_EQ(h.job_id(), job.id);
    EXPECT_EQ(raw(h.rank_id()), kRackRankBase + 2);
    EXPECT_EQ(h.slot.host(), 5U) << "of our window";
    EXPECT_EQ(h.contributors.host(), 1ULL << rank);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
  }
  EXPECT_EQ(this->from_parent(this->query_of_rack(job, kOurRack, 0)).drop, Drop::kRank) << "not our own";
  EXPECT_EQ(this->from_parent(this->query_of_rack(job, kRackCount, 0)).drop, Drop::kRank);
  EXPECT_EQ(
      this->changed(this->query_of_rack(job, 2, 0), [](Header& h) { h.contributors = Be{std::uint64_t{1}}; })
          .drop,
      Drop::kPeer);
  EXPECT_EQ(
      this->changed(this->query_of_rack(job, 2, 0), [](Header& h) { h.slot = Be{std::uint32_t{99}}; }).drop,
      Drop::kSlot);
}

TYPED_TEST(RackQuestions, an_answer_for_another_rack_goes_to_the_parent_and_one_for_a_rank_to_it) {
  const jobs::NativeJob job = this->rack_job({.world = 3});
  Bytes answer = this->result_of(job, {});
  Header h = header_of(answer);
  h.type = PacketType::kAnswer;
  h.job = Be{raw(job.id)};
  h.rank = Be{std::uint16_t{2}};
  h.slot = Be{std::uint32_t{kRackRankBase}};
  h.contributors = Be{job.members};
  h.cookie = Be{raw(job.ranks[2].cookie)};
  set_header(answer, h);
  const pipeline::Outcome out = this->take(job, 2, answer);
  ASSERT_EQ(out.verdict, Verdict::kRelay) << name_of(out.drop);
  EXPECT_EQ(out.server, pipeline::kToParent);
  const Header up = this->header(out);
  EXPECT_EQ(up.type, PacketType::kAnswer);
  EXPECT_EQ(up.job_id(), kAbove);
  EXPECT_EQ(raw(up.rank_id()), kOurRack);
  EXPECT_EQ(up.slot.host(), 0U) << "the rack that asked";
  EXPECT_EQ(up.contributors.host(), kAllRacks);
  EXPECT_EQ(up.cookie.host(), raw(job.parent.cookie));
  EXPECT_EQ(this->value(out, 15), 4242);
  EXPECT_EQ(up.sum1.host(), h.sum1.host());

  const auto with_slot = [&](std::uint32_t slot, std::uint32_t off = 0) {
    Header x = h;
    x.slot = Be{slot};
    x.sum1 = Be{x.sum1.host() + off};
    set_header(answer, x);
    return this->take(job, 2, answer);
  };
  EXPECT_EQ(with_slot(kRackRankBase + kOurRack).drop, Drop::kAsker) << "ours";
  EXPECT_EQ(with_slot(kRackRankBase + kRackCount).drop, Drop::kAsker);
  EXPECT_EQ(with_slot(kRackRankBase + 2, 1).drop, Drop::kSum);
  const pipeline::Outcome to_rank = with_slot(1);
  ASSERT_EQ(to_rank.verdict, Verdict::kRelay);
  EXPECT_EQ(raw(to_rank.to), 1U);
  EXPECT_EQ(to_rank.server, pipeline::kNoServer);
  EXPECT_EQ(this->header(to_rank).sum1.host(), h.sum1.host()) << "by the keys of all, not of the rack";
  EXPECT_EQ(with_slot(1, keyed(job.key_sum - job.parent.key_sum, kSome)).drop, Drop::kSum);
}

}  // namespace
}  // namespace tally
