#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/kernel_device.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"

namespace tally {
namespace {

using device::DeviceKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kFrame = 1518;

dpdk::PortNeeds nic(int node = dpdk::kAnyNode) {
  return {.kind = DeviceKind::kPci,
          .frame_bytes = kFrame,
          .receive_mbufs = 1024,
          .transmit_mbufs = 1024,
          .node = node};
}
dpdk::PortNeeds needs_of(const std::string& device, std::uint16_t mtu = 1500) {
  return dpdk::Port::needs_of({.device = device, .mtu = mtu});
}
dpdk::PortNeeds memif() { return needs_of("net_memif0,role=client"); }
dpdk::PortNeeds xdp() { return needs_of("net_af_xdp0,iface=eth1"); }
dpdk::PortNeeds packet() { return needs_of("net_af_packet0,iface=eth1"); }

dpdk::PoolPlan frames_of(const dpdk::PoolDemand& demand, std::size_t port = 0) {
  for (const dpdk::PoolPlan& plan : dpdk::plan_pools(demand).frames)
    if (std::ranges::find(plan.users, port) != plan.users.end()) return plan;
  ADD_FAILURE() << "port " << port << " has no pool";
  return {};
}
dpdk::PoolPlan heads_of(const dpdk::PoolDemand& demand) { return dpdk::plan_pools(demand).heads.front(); }

TEST(PortDescriptors, AreThoseOfAMemifsRing) {
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_memif1,role=client,rsize=8"}), 256);
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_memif1,role=client", .descriptors = 300}), 256);
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_ring0", .descriptors = 300}), 300);
}

TEST(PortNeeds, DriversThatCopyKeepNoMbufs) {
  for (const char* const device : {"net_memif0,role=client", "net_af_packet0,iface=eth1", "net_null0"}) {
    const dpdk::PortNeeds needs = needs_of(device);
    EXPECT_EQ(needs.receive_mbufs + needs.transmit_mbufs, 0U) << device;
    EXPECT_EQ(needs.frame_bytes, kFrame);
  }
  const dpdk::PortNeeds card = dpdk::Port::needs_of(
      {.device = "0000:3b:00.0", .pci = true, .receive_queues = 2, .transmit_queues = 3});
  EXPECT_EQ(card.receive_mbufs, 2048U);
  EXPECT_EQ(card.transmit_mbufs, 3072U);
  EXPECT_EQ(xdp().receive_mbufs, 2048U) << "fill ring";
  EXPECT_EQ(xdp().transmit_mbufs, 1024U + 2048) << "transmit ring, completion ring";
}

TEST(PlanPools, TheSumIsExplained) {
  const dpdk::PoolDemand eight{.ports = std::vector(8, nic())};
  // 8,192 + 8,192 + 32 + 8 * 64 + 3 * 1,024 + 2 * 768
  EXPECT_EQ(frames_of(eight).mbufs, 21536U);
  EXPECT_EQ(frames_of(eight).why,
            "8,192 rx descriptors + 8,192 tx descriptors + 32 in bursts + 512 gathered for sending + 3,072 "
            "in rings "
            "from and to control + 1,536 in caches = 21,536 of 2,048 bytes");
  EXPECT_EQ(heads_of(eight).why,
            "8,192 tx descriptors + 512 gathered for sending + 1,536 in caches = 10,240 of 128 bytes");
}

TEST(PlanPools, MoreCoresHandOverToEachOther) {
  dpdk::PoolDemand demand{.ports = std::vector(8, nic()), .hand_over = 256};
  const std::uint32_t frames = frames_of(demand).mbufs;
  const std::uint32_t heads = heads_of(demand).mbufs;
  demand.cores.push_back(dpdk::kAnyNode);
  // One more core: burst, gathered, cache, control's rings; and the rings between both.
  EXPECT_EQ(frames_of(demand).mbufs - frames, 32U + 512 + 768 + 3 * 256 + 4 * 256);
  EXPECT_EQ(heads_of(demand).mbufs - heads, 512U + 768 + 4 * 256);
  EXPECT_THAT(frames_of(demand).why, HasSubstr("1,024 in rings between data cores"));
}

// What waits for a server's port must not be missing where frames are received.
TEST(PlanPools, QueuesForServersArePaidForWhereJobsMayHaveThem) {
  dpdk::PoolDemand demand{.ports = std::vector(8, nic()), .cores = {0, 0}};
  const std::uint32_t frames = frames_of(demand).mbufs;
  const std::uint32_t heads = heads_of(demand).mbufs;
  demand.servers = true;
  EXPECT_EQ(frames_of(demand).mbufs - frames, 2U * 8 * dpdk::kServerQueueFrames);
  EXPECT_EQ(heads_of(demand).mbufs, heads);
}

// What goes out may be a head and a shared body of any pool, what comes in is whole and of the port's.
TEST(PlanPools, WhatImpairKeepsIsPaidFor) {
  dpdk::PoolDemand demand{.ports = {nic(), memif()}};
  const dpdk::PoolPlans without = dpdk::plan_pools(demand);
  demand.ports[0].impaired_in = 300;
  demand.ports[0].impaired_out = 1'100;
  const dpdk::PoolPlans with = dpdk::plan_pools(demand);
  EXPECT_EQ(with.frames[0].mbufs - without.frames[0].mbufs, 1'400U);
  EXPECT_EQ(with.frames[1].mbufs - without.frames[1].mbufs, 1'100U);
  EXPECT_EQ(with.heads[0].mbufs - without.heads[0].mbufs, 1'100U);
  EXPECT_THAT(with.frames[0].why, HasSubstr("1,400 kept by impair"));
}

TEST(PlanPools, PortsOfOneDriverShareAPool) {
  const dpdk::PoolPlans plans =
      dpdk::plan_pools({.ports = {memif(), nic(), xdp(), memif(), xdp(), packet()}});
  std::vector<std::string> names;
  for (const dpdk::PoolPlan& plan : plans.frames) names.push_back(plan.name);
  EXPECT_THAT(names, ElementsAre("net_memif", "pci", "net_af_xdp", "net_af_packet"));
  EXPECT_THAT(plans.frames[0].users, ElementsAre(0, 3));
  EXPECT_THAT(plans.frames[1].users, ElementsAre(1));
  EXPECT_THAT(plans.frames[2].users, ElementsAre(2, 4));
  EXPECT_TRUE(plans.frames[2].umem);
  EXPECT_FALSE(plans.frames[0].umem || plans.frames[1].umem || plans.frames[3].umem);
}

TEST(PlanPools, APoolIsOnTheNodeOfTheDeviceElseOfTheCoreThatReceives) {
  const dpdk::PoolPlans plans =
      dpdk::plan_pools({.ports = {nic(0), memif(), nic(1), nic(0)}, .cores = {1, 0, 1}});
  ASSERT_EQ(plans.frames.size(), 3U);
  EXPECT_EQ(plans.frames[0].node, 0);
  EXPECT_THAT(plans.frames[0].users, ElementsAre(0, 3));
  EXPECT_EQ(plans.frames[1].node, 1) << "the first core reads queue 0 of every port";
  EXPECT_THAT(plans.frames[1].users, ElementsAre(1));
  EXPECT_EQ(plans.frames[2].node, 1);
  EXPECT_THAT(plans.frames[2].users, ElementsAre(2));
  EXPECT_NE(plans.frames[0].name, plans.frames[2].name) << "DPDK knows pools by name";
}

TEST(PlanPools, HeadsAreOnTheNodeOfTheirCore) {
  const dpdk::PoolPlans plans = dpdk::plan_pools({.ports = {memif()}, .cores = {1, 0, 1}});
  ASSERT_EQ(plans.heads.size(), 2U);
  EXPECT_EQ(plans.heads[0].node, 1);
  EXPECT_THAT(plans.heads[0].users, ElementsAre(0, 2));
  EXPECT_EQ(plans.heads[1].node, 0);
  EXPECT_THAT(plans.heads[1].users, ElementsAre(1));
  EXPECT_NE(plans.heads[0].name, plans.heads[1].name);
}

// A frame may leave by any port and lie in its ring, whatever pool it is of; af_xdp makes a copy in its own.
TEST(PlanPools, RingsOfOtherPortsMayHoldAFrameButNotThoseOfAfXdp) {
  const std::uint32_t alone = frames_of({.ports = {memif()}}).mbufs;
  EXPECT_EQ(frames_of({.ports = {memif(), memif()}}).mbufs, alone + 64) << "gathered";
  EXPECT_EQ(frames_of({.ports = {memif(), nic()}}).mbufs, alone + 64 + 1024);
  EXPECT_EQ(frames_of({.ports = {memif(), xdp()}}).mbufs, alone + 64);
  EXPECT_EQ(frames_of({.ports = {memif(), xdp()}}, 1).mbufs, alone + 64 + 5120);
  EXPECT_EQ(frames_of({.ports = {xdp(), nic()}}).mbufs, alone + 64 + 5120 + 1024);
  EXPECT_EQ(heads_of({.ports = {xdp()}}).mbufs, heads_of({.ports = {memif()}}).mbufs)
      << "it takes no segments";
}

TEST(PlanPools, RoomForTheFrameAndLongerHeadersInFrontOfAReply) {
  EXPECT_EQ(frames_of({.ports = {memif()}}).room, 1600);
  EXPECT_EQ(frames_of({.ports = {needs_of("net_null0", 9000)}}).room, 9088);
  EXPECT_EQ(frames_of({.ports = {memif(), needs_of("net_null0", 9000)}}).room, 9088)
      << "what arrives there may be answered with the longest frame of any port";
}

TEST(PlanPools, NicsFillWholeKibibytes) {
  EXPECT_EQ(frames_of({.ports = {nic(), memif()}}).room, 2048);
  EXPECT_EQ(frames_of({.ports = {nic(), memif()}}, 1).room, 1600) << "nobody else has to";
}

TEST(PlanPools, AfPacketWantsRoomForAFrameOfItsRing) {
  const dpdk::PortNeeds large = needs_of("net_af_packet0,iface=eth1,framesz=16384");
  EXPECT_EQ(frames_of({.ports = {packet(), memif()}}).room, 2048) << "whole cache lines";
  EXPECT_EQ(frames_of({.ports = {large, memif()}}).room, 16384);
  EXPECT_EQ(frames_of({.ports = {large, memif()}}, 1).room, 1600) << "nobody else has to";
}

// Header and all, an mbuf lies in a page of the kernel's, which keeps some room in front.
TEST(PlanPools, AfXdpWantsMbufsInOnePageWhateverOtherPortsCarry) {
  EXPECT_EQ(frames_of({.ports = {xdp()}}).room, 1856);
  EXPECT_EQ(frames_of({.ports = {xdp(), needs_of("net_null0", 3000)}}).room, 3392);
  const dpdk::PoolDemand jumbo{.ports = {xdp(), needs_of("net_null0", 9000)}};
  EXPECT_EQ(frames_of(jumbo).room, device::kMostUmemRoom);
  EXPECT_EQ(frames_of(jumbo, 1).room, 9088);
}

TEST(PlanPools, BytesGrowWithTheFrameAndOrdinaryPagesWasteSome) {
  const dpdk::PoolPlan usual{.mbufs = 20512, .room = 1600};
  const dpdk::PoolPlan jumbo{.mbufs = 20512, .room = 9088};
  EXPECT_GT(dpdk::bytes_of(usual, true), std::uint64_t{20512} * 1600);
  EXPECT_GT(dpdk::bytes_of(jumbo, true), dpdk::bytes_of(usual, true) + std::uint64_t{20512} * 7400);
  EXPECT_GT(dpdk::bytes_of(usual, false), dpdk::bytes_of(usual, true));
}

}  // namespace
}  // namespace tally
