// Worker engines -> net_ring -> the daemon's loop -> net_ring -> worker engines, in virtual time and one
// thread. Every sum is right to the bit and every mbuf is back in its mempool exactly once, whatever is lost,
// refused or not to be had on the way.

#include <gtest/gtest.h>

#include "loop_eal.h"
#include "loop_rack.h"

namespace tally::e2e {
namespace {

class LoopSums : public testing::TestWithParam<RackCase> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

constexpr std::uint32_t kManyLost = 200'000;

// Each hardship happened where the case asks for it, and nowhere else.
void expect_hardships(Rack& rack, const RackCase& c) {
  const auto retransmissions = rack.of_workers([](const EngineStatistics& s) { return s.retransmissions; });
  const bool small_pools = c.head_mbufs < 256;
  const bool small_rings = c.ring < 1024;
  EXPECT_EQ(rack.sum(&io::CoreStatistics::impaired_in) > 0, c.loss_ppm > 0);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::impaired_out) > 0, c.loss_ppm > 0);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::no_mbuf) > 0, small_pools);
  EXPECT_EQ(rack.of_hosts([](const LoopHost& h) { return h.mbufs().no_mbuf.get(); }) > 0, small_pools);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::refused) > 0, small_rings);
  EXPECT_EQ(rack.of_hosts([](const LoopHost& h) { return h.mbufs().refused.get(); }) > 0, small_rings);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::copied) > 0, c.host.share_every > 0);
  EXPECT_EQ(rack.count(Drop::kSegments) > 0, c.host.split_every > 0);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::handed_over) > 0,
            c.cores > c.up || (c.cores > 1 && c.host.stray_every > 0));
  EXPECT_EQ(rack.sum(&io::CoreStatistics::hand_over_lost) > 0, c.hand_over < 1024);
  EXPECT_GT(rack.sum(&io::CoreStatistics::sent_for), 0U);  // control's at least
  // Repair: what the box lacks is told and sent again, stored results are asked for; where many are lost the
  // box also says whom it waits for.
  EXPECT_GE(rack.of_workers([](const EngineStatistics& s) { return s.early; }) > 0, c.loss_ppm > 0);
  EXPECT_GE(rack.count(Verdict::kRepeat) > 0, c.loss_ppm > 0 || small_pools);
  EXPECT_GE(rack.sum(&io::CoreStatistics::nacks) > 0, c.loss_ppm > 0);
  EXPECT_GE(rack.count(Verdict::kTell) > 0, c.loss_ppm >= kManyLost);
  EXPECT_TRUE(c.loss_ppm > 0 || small_rings ||
              rack.sum(&io::CoreStatistics::rejects) + rack.count(Verdict::kRelay) == 0);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::punts_lost), 0U);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::events_lost), 0U);
  // A lost contribution is sent again; who lacks only a result asks for it and sends nothing twice, but where
  // again and again there is no mbuf for the answer.
  const bool contributions_lost =
      c.loss_ppm > 0 || small_rings || c.host.split_every > 0 || c.hand_over < 1024;
  EXPECT_GE(retransmissions > 0, contributions_lost);
  EXPECT_LE(retransmissions > 0, contributions_lost || small_pools);
  const auto asks = rack.of_workers([](const EngineStatistics& s) { return s.asks; });
  EXPECT_GE(asks > 0, c.loss_ppm > 0 || small_pools);
  EXPECT_LE(asks > 0, contributions_lost || small_pools);
}

// How results left: what the ports can take decides.
void expect_shapes(Rack& rack, const RackCase& c) {
  const bool identical = c.multicast && c.copies && c.down >= c.cores && (!c.vlans || c.per_port == c.world);
  const auto chains = rack.of_hosts([](const LoopHost& h) { return h.chains(); });
  EXPECT_EQ(chains > 0, c.segments && c.world > 1 && !identical);
  const bool all_leave = c.loss_ppm == 0 && c.head_mbufs >= 256;
  const std::uint64_t results = rack.sum(&io::CoreStatistics::results);
  const std::uint64_t vlans_per_port = c.vlans && c.per_port > 1 ? 2 : 1;
  const std::uint64_t each = c.multicast ? std::uint64_t{c.world} / c.per_port * vlans_per_port : c.world;
  if (all_leave) {
    EXPECT_EQ(rack.sum(&io::CoreStatistics::replicas), each * results);
  }
}

TEST_P(LoopSums, EverySumIsRightAndEveryMbufComesBack) {
  const RackCase& c = GetParam();
  Rack rack(c);
  EXPECT_TRUE(rack.run()) << "the workers did not finish";
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
  expect_hardships(rack, c);
  expect_shapes(rack, c);
}

INSTANTIATE_TEST_SUITE_P(
    Unicast, LoopSums,
    testing::Values(
        RackCase{.name = "Clean"}, RackCase{.name = "Copies", .segments = false},
        RackCase{.name = "Loss", .loss_ppm = 20'000},
        RackCase{.name = "MuchLoss", .loss_ppm = kManyLost, .operations = 8},
        RackCase{.name = "LossAndCopies", .loss_ppm = 20'000, .segments = false},
        RackCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2},
        RackCase{.name = "TwoCoresAndStrays",
                 .cores = 2,
                 .up = 2,
                 .down = 2,
                 .loss_ppm = 20'000,
                 .host = {.stray_every = 5}},
        RackCase{.name = "TwoCoresOneQueue", .cores = 2},
        RackCase{.name = "ThreeCoresTwoQueues", .cores = 3, .up = 2, .down = 2, .loss_ppm = 20'000},
        RackCase{.name = "HandOverRingFull", .cores = 2, .down = 2, .hand_over = 64},
        RackCase{.name = "Staged", .cores = 2, .up = 2, .down = 2, .staged = true, .operations = 8},
        RackCase{.name = "SmallPools", .frame_mbufs = 4, .head_mbufs = 40, .worker_mbufs = 100},
        RackCase{.name = "SmallRings", .ring = 64, .host = {.receive_burst = 8, .transmit_burst = 256}},
        RackCase{.name = "SharedFrames", .host = {.share_every = 7}},
        RackCase{.name = "SplitFrames", .host = {.split_every = 50}},
        RackCase{.name = "SharedSplitFrames", .host = {.share_every = 7, .split_every = 10}},
        RackCase{.name = "Vlans", .per_port = 2, .vlans = true}, RackCase{.name = "Ipv6", .ipv6 = true},
        RackCase{.name = "Ipv6AndVlansAndCopies", .segments = false, .ipv6_odd = true, .vlans = true},
        RackCase{.name = "Jumbo", .elements = 2'224, .worker_mbufs = 1'024, .largest = 100'000},
        RackCase{.name = "JumboIpv6Vlans",
                 .segments = false,
                 .elements = 2'224,
                 .ipv6 = true,
                 .vlans = true,
                 .worker_mbufs = 1'024,
                 .largest = 100'000},
        RackCase{.name = "OneWorker", .world = 1}),
    [](const auto& one) { return one.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Multicast, LoopSums,
    testing::Values(
        RackCase{.name = "SameMbuf", .multicast = true},
        RackCase{.name = "SameMbufNoSegments", .segments = false, .multicast = true},
        RackCase{.name = "Identical", .copies = true, .multicast = true},
        RackCase{.name = "IdenticalAndLoss", .loss_ppm = 20'000, .copies = true, .multicast = true},
        RackCase{.name = "SharedPorts", .copies = true, .per_port = 2, .multicast = true},
        RackCase{.name = "VlansOnOnePort", .copies = true, .per_port = 2, .multicast = true, .vlans = true},
        RackCase{.name = "Ipv6", .copies = true, .multicast = true, .ipv6 = true},
        RackCase{.name = "ThroughAnotherCore", .cores = 2, .up = 2, .copies = true, .multicast = true},
        RackCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2, .copies = true, .multicast = true},
        RackCase{.name = "Jumbo",
                 .copies = true,
                 .elements = 2'224,
                 .multicast = true,
                 .worker_mbufs = 1'024,
                 .largest = 100'000}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tally::e2e
