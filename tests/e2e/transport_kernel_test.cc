// Transport 'dpdk' on the kernel's interfaces: a worker at one end of a veth, the box at the other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dpdk_namespace.h"
#include "transport_harness.h"

#include <rte_mempool.h>

namespace tally::e2e {
namespace {

using testing::HasSubstr;

void exchange(dpdk_transport::DpdkTransport& worker, FakeBox& box) {
  ASSERT_TRUE(worker.attach());
  ASSERT_TRUE(bring_up(worker, &box)) << worker.describe();
  std::uint32_t seed = 1;
  for (const std::size_t bytes : {56UL, 57UL, 1000UL, 56UL + 4 * 352}) {
    const auto sent = datagram(seed++, bytes);
    ASSERT_TRUE(send_one(worker, sent));
    std::vector<FakeBox::Arrived> arrived;
    ASSERT_TRUE(turn_until(worker, [&] {
      for (auto& a : box.poll()) arrived.push_back(std::move(a));
      return !arrived.empty();
    }));
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_EQ(arrived[0].payload, sent);
    ASSERT_TRUE(box.send(arrived[0].source, sent));
    std::vector<std::vector<std::byte>> back;
    ASSERT_TRUE(turn_until(worker, [&] {
      back = take_all(worker);
      return !back.empty();
    }));
    EXPECT_THAT(back, testing::ElementsAre(sent));
  }
}

TEST(TransportKernel, AfPacketCarriesDatagramsAndMayJoinAgain) {
  make_veth("wp0", 1500);
  FakeBox box("net_af_packet10,iface=wp0-w");
  for (int i = 0; i < 2; ++i) {
    WorkerSetup setup;
    setup.device = "net_af_packet0,iface=wp0";
    auto worker = setup.open();
    ASSERT_TRUE(worker) << worker.error().text();
    exchange(**worker, box);
  }
}

TEST(TransportKernel, AfXdpCarriesDatagramsOnceInAProcess) {
  make_veth("wx0", 1500);
  FakeBox box("net_af_packet11,iface=wx0-w");
  WorkerSetup setup;
  setup.device = "net_af_xdp0,iface=wx0";
  {
    auto worker = setup.open();
    ASSERT_TRUE(worker) << worker.error().text();
    exchange(**worker, box);
  }
  const auto again = setup.open();
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().text(), HasSubstr("was a port of this process before"));
}

TEST(TransportKernel, WhatCannotBeOpenedIsRefusedByName) {
  make_veth("wr0", 1500);
  WorkerSetup setup;
  const auto refusal = [&](const std::string& device) {
    setup.device = device;
    const auto worker = setup.open();
    return worker ? "" : worker.error().text();
  };
  EXPECT_THAT(refusal("net_af_packet0,iface=wr9"),
              HasSubstr("there is no network interface wr9; there are: "));
  EXPECT_THAT(refusal("net_af_packet0"), HasSubstr("name the network interface: iface="));
  EXPECT_THAT(refusal("net_af_xdp0,iface=wr0,busy_budget=64"), HasSubstr("busy_budget is '64'"));
  setup.mtu = 9000;
  EXPECT_THAT(refusal("net_af_packet0,iface=wr0"), HasSubstr("ip link set wr0 mtu 9000"));
}

}  // namespace
}  // namespace tally::e2e
