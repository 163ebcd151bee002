// Frames that the switch carries, beside a job: every sum stays right, and what is forwarded arrives.

#include <gtest/gtest.h>

#include <atomic>

#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_rack.h"
#include "loop_switch_rig.h"

namespace tally::e2e {
namespace {

class LoopBeside : public testing::TestWithParam<RackCase> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

l2::SwitchCounters counters_of(Rack& rack) {
  l2::SwitchCounters all;
  for (std::size_t core = 0; core < rack.plane().cores(); ++core)
    all += rack.plane().core(core).statistics.l2;
  return all;
}

std::uint64_t plain_frames(Rack& rack) {
  return rack.of_hosts([](const LoopHost& host) { return host.plain(); });
}

// From the worker of one rank to that of the next; each seventh is a broadcast. The box knows the workers:
// they have joined.
Bytes frame_from(std::uint16_t rank, std::uint32_t n) {
  const Mac to = loop_binding(static_cast<std::uint16_t>((rank + 1) % 4), jobs::kUntagged, false).mac;
  return plain_frame(n % 7 == 0 ? kBroadcastMac : to, loop_binding(rank, jobs::kUntagged, false).mac,
                     60 + n % 1'000);
}

TEST_P(LoopBeside, SumsAreRightAndFramesArrive) {
  Rack rack(GetParam());
  std::uint32_t sent = 0;
  const auto queues = GetParam().up;
  EXPECT_TRUE(rack.run([&] {
    if (rack.sum(&io::CoreStatistics::results) == 0 || sent >= 2'000) return;
    const auto rank = static_cast<std::uint16_t>(sent % 4);
    rack.host(rank).send_raw(frame_from(rank, sent), static_cast<std::uint16_t>(sent / 4 % queues));
    ++sent;
  }));
  EXPECT_GT(sent, 500U);
  const l2::SwitchCounters c = counters_of(rack);
  const std::uint64_t lost_in = rack.sum(&io::CoreStatistics::impaired_in);
  if (GetParam().loss_ppm == 0) {
    EXPECT_EQ(c.frames(), sent);
    EXPECT_EQ(c.of(l2::SwitchFate::kFlooded), (sent + 6) / 7) << "nothing else: the workers are known";
    EXPECT_EQ(plain_frames(rack), c.of(l2::SwitchFate::kForwarded) + c.copies.get());
    EXPECT_EQ(c.learned.get(), 4U);
  } else {
    EXPECT_LE(c.frames(), sent);
    EXPECT_GE(c.frames() + lost_in, sent);
  }
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
}

INSTANTIATE_TEST_SUITE_P(Cases, LoopBeside,
                         testing::Values(RackCase{.name = "OneCore"},
                                         RackCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2},
                                         RackCase{.name = "TwoCoresOneQueue", .cores = 2, .up = 2},
                                         RackCase{.name = "NoSegments", .segments = false},
                                         RackCase{.name = "Sharing", .copies = true, .multicast = true},
                                         RackCase{.name = "Loss", .loss_ppm = 20'000, .copies = true}),
                         [](const auto& one) { return one.param.name; });

class LoopBesideThreads : public LoopBeside {};

TEST_P(LoopBesideThreads, SumsAreRightWithThreads) {
  Rack rack(GetParam());
  rack.babble([](std::uint16_t rank, std::uint32_t n) { return frame_from(rank, n); });
  EXPECT_TRUE(rack.run_threads()) << "the workers did not finish";
  EXPECT_GT(plain_frames(rack), 0U);
  EXPECT_EQ(counters_of(rack).of(l2::SwitchFate::kForwarded) + counters_of(rack).of(l2::SwitchFate::kFlooded),
            counters_of(rack).frames());
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LoopBesideThreads,
    testing::Values(RackCase{.name = "ThreeCoresTwoQueues", .cores = 3, .up = 3, .down = 2, .operations = 8},
                    RackCase{.name = "Sharing",
                             .cores = 2,
                             .up = 2,
                             .down = 2,
                             .copies = true,
                             .multicast = true,
                             .operations = 8}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tally::e2e
