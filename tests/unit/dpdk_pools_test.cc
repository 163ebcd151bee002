#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dpdk/pools.h"
#include "dpdk/port.h"

namespace tally {
namespace {

using testing::HasSubstr;

constexpr dpdk::PoolDemand kEightPorts{
    .ports = 8, .cores = 1, .receive_descriptors = 8192, .transmit_descriptors = 8192, .frame_bytes = 1518};

TEST(PortDescriptors, AreThoseOfAMemifsRing) {
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_memif1,role=client,rsize=8"}), 256);
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_memif1,role=client", .descriptors = 300}), 256);
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_ring0", .descriptors = 300}), 300);
}

TEST(SizePools, TheSumIsExplained) {
  const dpdk::PoolSizes sizes = dpdk::size_pools(kEightPorts);
  // 8,192 + 8,192 + 32 + 8 * 64 + 2 * 1,024 + 2 * 768
  EXPECT_EQ(sizes.frames, 20512U);
  EXPECT_EQ(sizes.heads, 8192U + 512 + 1536);
  EXPECT_THAT(
      sizes.explanation,
      HasSubstr("frames: 8,192 rx descriptors + 8,192 tx descriptors + 32 in bursts + 512 gathered for "
                "sending + 2,048 in rings from and to control + 1,536 in caches = 20,512 of 1,600 bytes"));
  EXPECT_THAT(sizes.explanation,
              HasSubstr("; heads: 8,192 tx descriptors + 512 gathered for sending + 1,536 in "
                        "caches = 10,240, "));
}

TEST(SizePools, MoreCoresHandOverToEachOther) {
  dpdk::PoolDemand two = kEightPorts;
  two.cores = 2;
  const dpdk::PoolSizes one = dpdk::size_pools(kEightPorts);
  const dpdk::PoolSizes both = dpdk::size_pools(two);
  // One more core: burst, gathered, cache, control's rings; and the rings between both.
  EXPECT_EQ(both.frames - one.frames,
            32U + 512 + 768 + 2 * dpdk::kHandOverFrames + 4 * dpdk::kHandOverFrames);
  EXPECT_EQ(both.heads - one.heads, 512U + 768 + 4 * dpdk::kHandOverFrames);
  EXPECT_THAT(both.explanation, HasSubstr("4,096 in rings between data cores"));
}

// What waits for a server's port must not be missing where frames are received.
TEST(SizePools, QueuesForServersArePaidForWhereJobsMayHaveThem) {
  dpdk::PoolDemand demand = kEightPorts;
  demand.cores = 2;
  const dpdk::PoolSizes without = dpdk::size_pools(demand);
  demand.servers = true;
  const dpdk::PoolSizes with = dpdk::size_pools(demand);
  EXPECT_EQ(with.frames - without.frames, 2U * 8 * dpdk::kServerQueueFrames);
  EXPECT_EQ(with.heads, without.heads);
  EXPECT_THAT(with.explanation, HasSubstr("8,192 queued for servers"));
}

// What goes out may be a head and a shared body, what comes in is whole.
TEST(SizePools, WhatImpairKeepsIsPaidFor) {
  dpdk::PoolDemand demand = kEightPorts;
  const dpdk::PoolSizes without = dpdk::size_pools(demand);
  demand.impaired_in = 300;
  demand.impaired_out = 1'100;
  const dpdk::PoolSizes with = dpdk::size_pools(demand);
  EXPECT_EQ(with.frames - without.frames, 1'400U);
  EXPECT_EQ(with.heads - without.heads, 1'100U);
  EXPECT_THAT(with.explanation, HasSubstr("1,400 kept by impair"));
  EXPECT_THAT(with.explanation, HasSubstr("1,100 kept by impair"));
}

TEST(SizePools, RoomForTheFrameAndLongerHeadersInFrontOfAReply) {
  EXPECT_EQ(dpdk::size_pools(kEightPorts).frame_room, 1600);
  dpdk::PoolDemand jumbo = kEightPorts;
  jumbo.frame_bytes = 9018;
  EXPECT_EQ(dpdk::size_pools(jumbo).frame_room, 9088);
}

// af_xdp shares the mempool with the kernel: mbufs that the kernel holds, and room that it keeps in front.
TEST(SizePools, AfXdpHoldsMbufsAndWantsThemInOnePage) {
  dpdk::PoolDemand xdp = kEightPorts;
  xdp.umem_mbufs = 5120;
  xdp.least_room = 1838;
  const dpdk::PoolSizes sizes = dpdk::size_pools(xdp);
  EXPECT_TRUE(sizes.umem);
  EXPECT_EQ(sizes.frames - dpdk::size_pools(kEightPorts).frames, 5120U);
  EXPECT_EQ(sizes.heads, dpdk::size_pools(kEightPorts).heads);
  EXPECT_EQ(sizes.frame_room, 1856);
  EXPECT_THAT(sizes.explanation, HasSubstr(" + 5,120 in af_xdp's rings + "));
  // What arrives there may be answered with the longest frame of any port.
  xdp.frame_bytes = 3018;
  EXPECT_EQ(dpdk::size_pools(xdp).frame_room, 3392);
  xdp.nic = true;
  xdp.frame_bytes = 3456;
  EXPECT_EQ(dpdk::size_pools(xdp).frame_room, 3776);
  EXPECT_FALSE(dpdk::size_pools(kEightPorts).umem);
}

TEST(SizePools, APortMayWantMoreRoomThanItsFramesNeed) {
  dpdk::PoolDemand packet = kEightPorts;
  packet.least_room = 2016;
  EXPECT_EQ(dpdk::size_pools(packet).frame_room, 2048);  // whole cache lines
}

TEST(SizePools, NicsFillWholeKibibytes) {
  dpdk::PoolDemand nic = kEightPorts;
  nic.nic = true;
  EXPECT_EQ(dpdk::size_pools(nic).frame_room, 2048);
}

TEST(SizePools, BytesGrowWithTheFrameAndOrdinaryPagesWasteSome) {
  dpdk::PoolDemand jumbo = kEightPorts;
  jumbo.frame_bytes = 9018;
  const std::uint64_t usual = dpdk::size_pools(kEightPorts).bytes;
  EXPECT_GT(usual, std::uint64_t{20512} * 1600);
  EXPECT_GT(dpdk::size_pools(jumbo).bytes, usual + std::uint64_t{20512} * 7400);
  dpdk::PoolDemand ordinary = kEightPorts;
  ordinary.hugepages = false;
  EXPECT_GT(dpdk::size_pools(ordinary).bytes, usual);
}

}  // namespace
}  // namespace tally
