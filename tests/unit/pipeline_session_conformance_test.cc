// The dialect switchml as the field's own packet tests ask for it, by their names, in both executions and
// under both rules of tsi. (ARP and ping, which they ask too, are the box's as of any host: l2_arp_test.cc,
// l2_echo_test.cc.)

#include "session_core.h"

namespace tally {
namespace {

template <class Exec, jobs::TsiRule kTsi, std::uint8_t kWorld>
struct Case {
  using Execution = Exec;
  static constexpr jobs::TsiRule kRule = kTsi;
  static constexpr std::uint8_t kMembers = kWorld;
};

template <class C>
class SwitchmlConformance : public SessionCore<typename C::Execution> {
 protected:
  static constexpr std::uint32_t kN = C::kMembers;

  void SetUp() override { job_ = this->publish({.world = kN, .tsi = C::kRule}); }
  static std::int32_t value(std::uint32_t rank, std::uint32_t tsi) {
    return static_cast<std::int32_t>(1000 * (rank + 1) + tsi);
  }
  // Chunk number `tsi` of the slot: it alternates between the sets.
  static SessionSent sent(std::uint32_t rank, std::uint32_t tsi, std::uint32_t slot = 0) {
    return {
        .rank = rank, .slot = slot, .set = tsi % 2, .job_number = 7, .tsi = tsi, .value = value(rank, tsi)};
  }
  static std::vector<std::int32_t> all(std::uint32_t tsi) {
    std::vector<std::int32_t> values;
    for (std::uint32_t r = 0; r < kN; ++r) values.push_back(value(r, tsi));
    return values;
  }
  void absorb(std::uint32_t rank, std::uint32_t tsi, std::uint32_t slot = 0) {
    EXPECT_EQ(this->says(job_, sent(rank, tsi, slot)), "absorb") << "rank " << rank << ", tsi " << tsi;
  }
  void complete(std::uint32_t rank, std::uint32_t tsi, std::uint32_t slot = 0) {
    this->expect_result(job_, sent(rank, tsi, slot), Verdict::kComplete, all(tsi));
  }
  void repeat(std::uint32_t rank, std::uint32_t tsi) {
    this->expect_result(job_, sent(rank, tsi), Verdict::kRepeat, all(tsi));
  }
  void duplicate(std::uint32_t rank, std::uint32_t tsi) {
    EXPECT_EQ(this->says(job_, sent(rank, tsi)), "drop duplicate") << "rank " << rank << ", tsi " << tsi;
  }
  void reduce(std::uint32_t tsi, std::uint32_t slot = 0) {
    for (std::uint32_t r = 0; r + 1 < kN; ++r) absorb(r, tsi, slot);
    complete(kN - 1, tsi, slot);
  }

  jobs::SessionJob job_;
};

using Cases = testing::Types<
    Case<pipeline::Fused, jobs::TsiRule::kPacket, 2>, Case<pipeline::Fused, jobs::TsiRule::kPacket, 3>,
    Case<pipeline::Fused, jobs::TsiRule::kOpaque, 2>, Case<pipeline::Fused, jobs::TsiRule::kOpaque, 3>,
    Case<pipeline::Staged, jobs::TsiRule::kPacket, 2>, Case<pipeline::Staged, jobs::TsiRule::kPacket, 3>,
    Case<pipeline::Staged, jobs::TsiRule::kOpaque, 2>, Case<pipeline::Staged, jobs::TsiRule::kOpaque, 3>>;
TYPED_TEST_SUITE(SwitchmlConformance, Cases);

TYPED_TEST(SwitchmlConformance, BasicReduction) { this->reduce(0); }

TYPED_TEST(SwitchmlConformance, RetransmitAfterReduction) {
  this->reduce(0);
  for (std::uint32_t r = 0; r < this->kN; ++r) this->repeat(r, 0);
  this->repeat(0, 0);
}

TYPED_TEST(SwitchmlConformance, OtherSetReduction) { this->reduce(1); }

TYPED_TEST(SwitchmlConformance, BothSetsReduction) {
  this->reduce(0);
  this->reduce(1);
}

TYPED_TEST(SwitchmlConformance, SlotReuse) {
  for (std::uint32_t tsi = 0; tsi < 6; ++tsi) this->reduce(tsi);
}

TYPED_TEST(SwitchmlConformance, IgnoreRetransmissions) {
  for (std::uint32_t r = 0; r + 1 < this->kN; ++r) {
    this->absorb(r, 0);
    for (std::uint32_t again = 0; again <= r; ++again) this->duplicate(again, 0);
  }
  this->complete(this->kN - 1, 0);
}

// The others have gone on to the other set; who has not got the result asks for it from there.
TYPED_TEST(SwitchmlConformance, RetransmitFromPreviousSet) {
  this->reduce(0);
  for (std::uint32_t r = 0; r + 1 < this->kN; ++r) this->absorb(r, 1);
  this->repeat(this->kN - 1, 0);
  this->complete(this->kN - 1, 1);
}

TYPED_TEST(SwitchmlConformance, SlotReuseAndRetransmit) {
  for (std::uint32_t tsi = 0; tsi < 6; ++tsi) {
    for (std::uint32_t r = 0; r + 1 < this->kN; ++r) {
      if (tsi > 0) this->repeat(r, tsi - 1);
      this->absorb(r, tsi);
      this->duplicate(r, tsi);
    }
    this->complete(this->kN - 1, tsi);
    this->repeat(0, tsi);
  }
}

TYPED_TEST(SwitchmlConformance, NonSwitchML) {
  Bytes frame = session_frame(this->job_, this->sent(0, 0), test_box());
  frame[36] = std::byte{0x12};  // UDP destination
  EXPECT_EQ(this->take(frame).out.verdict, Verdict::kForward);
  this->reduce(0);
}

// Members that send from other ports, and to others, each get their own back.
TYPED_TEST(SwitchmlConformance, DifferentPorts) {
  jobs::SessionJob job =
      make_session({.id = 1, .world = TypeParam::kMembers, .tsi = TypeParam::kRule, .first_line = 3});
  for (std::uint32_t r = 0; r < this->kN; ++r)
    job.ranks[r].binding.udp_port = static_cast<std::uint16_t>(switchml::kBasePort + r);
  this->adopt(this->table_->with(job.id, std::make_shared<const jobs::SessionJob>(job)));
  for (std::uint32_t r = 0; r < this->kN; ++r) {
    SessionSent one = this->sent(r, 0);
    one.udp_source = static_cast<std::uint16_t>(4000 + 10 * r);
    const auto taken = this->send(job, one);
    if (r + 1 < this->kN) {
      EXPECT_EQ(taken.out.verdict, Verdict::kAbsorb);
      continue;
    }
    ASSERT_EQ(taken.frames.size(), this->kN);
    for (const auto& [rank, frame] : taken.frames) {
      EXPECT_EQ(frame, session_reply(job, one, test_box(), rank, static_cast<std::uint16_t>(4000 + 10 * rank),
                                     0, 0, this->sums(job, this->all(0))));
      EXPECT_EQ(this->pipeline_.return_paths()[rank].port, job.ranks[rank].binding.port);
    }
  }
}

TYPED_TEST(SwitchmlConformance, SlotsDoNotMix) {
  this->absorb(0, 0, 1);
  this->absorb(0, 0, 2);
  for (std::uint32_t r = 1; r + 1 < this->kN; ++r) this->absorb(r, 0, 2);
  this->complete(this->kN - 1, 0, 2);
  for (std::uint32_t r = 1; r + 1 < this->kN; ++r) this->absorb(r, 0, 1);
  this->complete(this->kN - 1, 0, 1);
}

}  // namespace
}  // namespace tally
