// Sessions of the dialect switchml through the production loop on ring ports: each member gets whole frames,
// exact to the byte, out of the port it sent to, whatever the ports can take and whichever core received
// them.

#include <gtest/gtest.h>

#include "io/data_plane.h"
#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_switch_rig.h"
#include "session_frames.h"

namespace tally::e2e {
namespace {

constexpr std::uint32_t kMembers = 4;

class LoopSession : public testing::TestWithParam<SwitchCase> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
  // Two sessions whose members sit behind the same four ports, on the last core.
  void start() {
    rig_ = std::make_unique<SwitchRig>(GetParam());
    auto table = std::make_shared<const jobs::JobTable>();
    for (std::uint16_t id = 1; id <= 2; ++id) {
      const std::uint16_t payload = id == 1 ? 1024 : 128;
      jobs_.push_back(make_session({.id = id,
                                    .epoch = 0x77'0000U + id,
                                    .world = kMembers,
                                    .payload = payload,
                                    .slots = 2,
                                    .tsi = id == 1 ? jobs::TsiRule::kPacket : jobs::TsiRule::kOpaque,
                                    .home = static_cast<std::uint8_t>(GetParam().cores - 1),
                                    .first_line = 100U * id}));
      table = table->with(jobs_.back().id, std::make_shared<const jobs::SessionJob>(jobs_.back()));
    }
    rig_->plane().publish({.version = 1, .table = table});
    rig_->turn();
  }
  SessionSent sent(std::uint32_t rank, std::uint32_t tsi) const {
    return {.rank = rank,
            .slot = 1,
            .set = tsi % 2,
            .job_number = 4,
            .tsi = tsi,
            .value = static_cast<std::int32_t>(1 << (4 * rank)),
            .exponent0 = static_cast<std::int8_t>(rank),
            .exponent1 = static_cast<std::int8_t>(-1 - static_cast<int>(rank)),
            .udp_source = static_cast<std::uint16_t>(4000 + rank)};
  }
  void send(const jobs::SessionJob& job, const SessionSent& one) {
    rig_->send(one.rank, session_frame(job, one, loop_box()), static_cast<std::uint16_t>(GetParam().up - 1));
    rig_->turn();
  }
  // What member `rank` must get for the chunk of `last`, whose frame it was made of.
  Bytes result(const jobs::SessionJob& job, const SessionSent& last, std::uint32_t rank) const {
    std::vector<std::int32_t> values(job.elements);
    for (std::uint32_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int32_t>(0x1111 + kMembers * i);
    return session_reply(job, last, loop_box(), rank, static_cast<std::uint16_t>(4000 + rank), kMembers - 1,
                         -1, values);
  }
  void expect_only(std::uint32_t rank, const Bytes& frame) {
    for (std::uint32_t port = 0; port < kMembers; ++port) {
      const auto frames = rig_->received(port);
      ASSERT_EQ(frames.size(), port == rank ? 1U : 0U) << "port " << port;
      if (port == rank) {
        EXPECT_EQ(frames[0], frame);
      }
    }
  }

  std::unique_ptr<SwitchRig> rig_;
  std::vector<jobs::SessionJob> jobs_;
};

// Gaps between turns are the box's own, turns without a packet the clients': neither ends anything.
TEST_P(LoopSession, SilenceMakesItForgetNoResult) {
  start();
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) send(jobs_[0], sent(rank, 3));
  for (std::uint32_t port = 0; port < kMembers; ++port) EXPECT_EQ(rig_->received(port).size(), 1U);
  rig_->set_time(10 * kSecond);
  send(jobs_[0], sent(2, 3));
  EXPECT_EQ(rig_->received(2).size(), 1U);
  for (TimeNs now = 10 * kSecond; now < 12 * kSecond; now += 20 * kMillisecond) {
    rig_->set_time(now);
    rig_->turn();
  }
  send(jobs_[0], sent(2, 3));
  EXPECT_EQ(rig_->received(2).size(), 1U);
}

TEST_P(LoopSession, EachMemberGetsItsOwnExactFrame) {
  start();
  for (std::uint32_t tsi = 0; tsi < 4; ++tsi) {
    for (const jobs::SessionJob& job : jobs_)
      for (std::uint32_t r = 0; r + 1 < kMembers; ++r) send(job, sent(r, tsi));
    for (const jobs::SessionJob& job : jobs_) {
      const SessionSent last = sent(kMembers - 1, tsi);
      send(job, last);
      for (std::uint32_t r = 0; r < kMembers; ++r) {
        const auto frames = rig_->received(r);
        ASSERT_EQ(frames.size(), 1U) << "rank " << r;
        EXPECT_EQ(frames[0], result(job, last, r)) << "rank " << r;
      }
      // The stored one goes to who asks for it.
      send(job, sent(1, tsi));
      expect_only(1, result(job, sent(1, tsi), 1));
    }
  }
  EXPECT_EQ(rig_->sum(&io::CoreStatistics::results), 8U);
  EXPECT_EQ(rig_->sum(&io::CoreStatistics::replicas), 8 * kMembers + 8);
  const bool crosses = GetParam().cores > GetParam().up;
  EXPECT_EQ(rig_->sum(&io::CoreStatistics::handed_over) > 0, crosses);
  rig_->expect_clean();
}

// Who moves to another port of the box, and another UDP port, is answered there.
TEST_P(LoopSession, RepliesFollowTheMember) {
  start();
  const jobs::SessionJob& job = jobs_[0];
  for (std::uint32_t r = 0; r < kMembers; ++r) send(job, sent(r, 0));
  for (std::uint32_t port = 0; port < kMembers; ++port) EXPECT_EQ(rig_->received(port).size(), 1U);
  SessionSent moved = sent(1, 0);
  moved.udp_source = 5000;
  rig_->send(3, session_frame(job, moved, loop_box()));
  rig_->turn();
  Bytes expected = result(job, moved, 1);
  expected[36] = std::byte{5000 >> 8};
  expected[37] = std::byte{5000 & 0xff};
  expect_only(3, expected);
  rig_->expect_clean();
}

INSTANTIATE_TEST_SUITE_P(
    Ports, LoopSession,
    testing::Values(SwitchCase{.name = "Segments"}, SwitchCase{.name = "NoSegments", .segments = false},
                    SwitchCase{.name = "Copies", .copies = true}, SwitchCase{.name = "TwoCores", .cores = 2},
                    SwitchCase{.name = "TwoCoresTwoQueues", .cores = 2, .up = 2, .down = 2}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tally::e2e
