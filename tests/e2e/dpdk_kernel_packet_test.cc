// net_af_packet on a veth.

#include "dpdk_kernel_bed.h"

namespace tally::e2e {
namespace {

using testing::HasSubstr;

class AfPacket : public KernelPorts {
 protected:
  void TearDown() override {
    if (pools_.all.empty()) return;
    EXPECT_EQ(audit(pools_.frames[0]), "");
    EXPECT_EQ(audit(pools_.heads[0]), "");
  }
  [[nodiscard]] static dpdk::PortOptions port_on(const std::string& interface, std::uint16_t mtu = 1500,
                                                 const std::string& more = "",
                                                 const std::string& number = "0") {
    return {.name = interface, .device = "net_af_packet" + number + ",iface=" + interface + more, .mtu = mtu};
  }
};

TEST_F(AfPacket, FramesOfEverySizeArriveWholeBothWays) {
  make_veth("ap0", 1500);
  const Wire wire("ap0-w");
  const dpdk::Port port = open(port_on("ap0"));
  EXPECT_TRUE(port.traits().segments);
  EXPECT_TRUE(port.link_up());
  for (const std::size_t bytes : {60U, 61U, 64U, 1000U, 1513U, 1514U}) carries(port, wire, bytes);
  for (const std::size_t bytes : {64U, 1518U}) carries(port, wire, bytes, true);
  EXPECT_EQ(port.statistics().rx_packets, 8U);
  EXPECT_EQ(port.statistics().tx_packets, 8U);
}

// Where the usual frame of the ring is just enough, where it is not, and the largest of all.
TEST_F(AfPacket, TheRingFollowsTheMtu) {
  int number = 0;
  for (const std::uint16_t mtu : std::initializer_list<std::uint16_t>{1968, 1969, 2990, 9000, 9198}) {
    const std::string name = "aj" + std::to_string(number);
    make_veth(name, mtu);
    const Wire wire(name + "-w");
    make_pools_for({port_on(name, mtu)});
    {
      const dpdk::Port port = open(port_on(name, mtu, "", std::to_string(number)));
      carries(port, wire, mtu + 14U);
      carries(port, wire, mtu + 18U, true);
    }
    EXPECT_EQ(audit(pools_.frames[0]), "");
    ++number;
  }
}

TEST_F(AfPacket, ABurstThatTheRingDoesNotHoldLosesItsEndAndNoMbuf) {
  make_veth("ap1", 1500);
  const Wire wire("ap1-w");
  const dpdk::Port port = open(port_on("ap1", 1500, ",framecnt=64"));
  std::vector<std::vector<std::byte>> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(test_frame(200, static_cast<std::uint8_t>(i)));
    wire.send(sent.back());
  }
  sent.resize(64);
  EXPECT_EQ(receive_copies(port, 64), sent);
  carries(port, wire, 300);
}

TEST_F(AfPacket, AllPairsOfQueuesAreRead) {
  make_veth("ap7", 1500);
  const Wire wire("ap7-w");
  dpdk::PortOptions options = port_on("ap7");
  options.receive_queues = 2;
  options.transmit_queues = 4;
  const dpdk::Port port = open(options);
  EXPECT_EQ(port.traits().receive_queues, 2);
  EXPECT_EQ(port.traits().transmit_queues, 2);
  for (int i = 0; i < 200; ++i) wire.send(test_frame(100, static_cast<std::uint8_t>(i)));
  const auto arrived = receive_some(port, 200);
  EXPECT_EQ(arrived.size(), 200U);
  for (rte_mbuf* m : arrived) dpdk::drop(m);
  for (const std::uint16_t queue : {std::uint16_t{0}, std::uint16_t{1}}) {
    std::array<rte_mbuf*, 1> burst{mbuf_of(test_frame(100, 1))};
    EXPECT_EQ(dpdk::send(port.traits().id, queue, burst, counters_), 1U);
  }
  EXPECT_EQ(wire.receive(2).size(), 2U);
}

TEST_F(AfPacket, AFrameInPiecesLeavesInOne) {
  make_veth("ap2", 1500);
  const Wire wire("ap2-w");
  const dpdk::Port port = open(port_on("ap2"));
  const auto whole = test_frame(1200, 5);
  rte_mbuf* const body = mbuf_of(std::span(whole).subspan(42));
  rte_mbuf* const chain = dpdk::refer(body, 42, pools_.heads[0], counters_);
  std::copy_n(whole.begin(), 42, dpdk::data_of(chain));
  EXPECT_EQ(send_all(port, {chain}), 1U);
  dpdk::drop(body);
  EXPECT_THAT(wire.receive(1), testing::ElementsAre(whole));
}

// What was sent meanwhile waits in the ring; the kernel reports once more that the interface was down.
TEST_F(AfPacket, AnInterfaceThatGoesDownCostsNoMbufAndComesBack) {
  make_veth("ap3", 1500);
  const Wire wire("ap3-w");
  const dpdk::Port port = open(port_on("ap3"));
  ip("link set ap3 down");
  std::vector<rte_mbuf*> burst;
  for (int i = 0; i < 40; ++i) burst.push_back(mbuf_of(test_frame(100, 1)));
  static_cast<void>(send_all(port, burst));
  EXPECT_EQ(rte_mempool_in_use_count(frames()), 0U);
  EXPECT_TRUE(receive_copies(port, 1).empty());
  ip("link set ap3 up");
  static_cast<void>(send_all(port, {mbuf_of(test_frame(100, 1))}));
  static_cast<void>(send_all(port, {mbuf_of(test_frame(100, 1))}));
  EXPECT_EQ(wire.receive(42).size(), 42U);
  comes_back(port, wire);
  carries(port, wire, 500);
}

// As after a SIGKILL: the kernel forgets the sockets, and the device is free.
TEST_F(AfPacket, ADeviceCanBeOpenedAgain) {
  make_veth("ap4", 1500);
  const Wire wire("ap4-w");
  for (int i = 0; i < 3; ++i) {
    const dpdk::Port port = open(port_on("ap4"));
    carries(port, wire, 400);
  }
}

TEST_F(AfPacket, WhatIsWrongWithTheInterfaceIsSaidBeforeDpdkIsAsked) {
  make_veth("ap5", 1500);
  make_pools_for({port_on("ap5", 9000)});
  const auto refusal = [&](const dpdk::PortOptions& options) {
    const auto port = dpdk::Port::open(options, frames());
    return port ? "" : port.error().text();
  };
  EXPECT_THAT(refusal(port_on("nowhere")), HasSubstr("there is no network interface nowhere; there are: lo"));
  EXPECT_THAT(refusal(port_on("ap5", 9000)), HasSubstr("ip link set ap5 mtu 9000"));
  EXPECT_THAT(refusal(port_on("ap5", 1500, ",framesz=2049")), HasSubstr("not a multiple of 16"));
  EXPECT_EQ(refusal(port_on("ap5")), "");
}

TEST_F(AfPacket, WhatWillCostFramesIsWarnedOf) {
  make_veth("ap6", 9000);
  ip("link set ap6 down");
  ip("address add 10.77.0.1/24 dev ap6");
  const dpdk::Port port = open(port_on("ap6"));
  EXPECT_THAT(logged_lines(), testing::Contains(HasSubstr("is down: ip link set ap6 up")));
  EXPECT_THAT(logged_lines(), testing::Contains(HasSubstr("ip link set ap6 mtu 1500")));
  EXPECT_THAT(logged_lines(), testing::Contains(HasSubstr("ip address flush dev ap6")));
}

}  // namespace
}  // namespace tally::e2e
