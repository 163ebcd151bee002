// net_tap, whose interface the driver makes, and net_pcap, which reads and writes files.

#include <filesystem>

#include "dpdk_kernel_bed.h"

namespace tally::e2e {
namespace {

class Tap : public KernelPorts {
 protected:
  void TearDown() override {
    if (pools_.all.empty()) return;
    EXPECT_EQ(audit(pools_.frames[0]), "");
  }
};

TEST_F(Tap, FramesOfEverySizeArriveWholeBothWays) {
  {
    const dpdk::Port port = open({.name = "t", .device = "net_tap0,iface=tt0"});
    const Wire wire("tt0");
    for (const std::size_t bytes : {60U, 61U, 64U, 1000U, 1513U, 1514U}) carries(port, wire, bytes);
    for (const std::size_t bytes : {64U, 1518U}) carries(port, wire, bytes, true);
  }
  EXPECT_FALSE(std::filesystem::exists("/sys/class/net/tt0"));
}

TEST_F(Tap, TwoOfThemAreTwoInterfaces) {
  const dpdk::PortOptions a{.name = "a", .device = "net_tap0,iface=tt1"};
  const dpdk::PortOptions b{.name = "b", .device = "net_tap1,iface=tt2"};
  make_pools_for({a, b});
  const dpdk::Port p = open(a);
  const dpdk::Port q = open(b);
  const Wire wp("tt1");
  const Wire wq("tt2");
  for (int i = 0; i < 20; ++i) {
    carries(p, wp, 100 + static_cast<std::size_t>(i));
    carries(q, wq, 1000 + static_cast<std::size_t>(i));
  }
}

// With more queues for sending than for receiving the kernel would deliver into those that nobody reads.
TEST_F(Tap, ManyCoresMakeNoMoreQueues) {
  const dpdk::Port port = open({.name = "t", .device = "net_tap0,iface=tt3", .transmit_queues = 4});
  EXPECT_EQ(port.traits().transmit_queues, 1);
}

class Pcap : public Tap {};

TEST_F(Pcap, WhatIsRecordedCanBeReplayed) {
  const Scratch scratch;
  std::vector<std::vector<std::byte>> frames;
  for (std::uint8_t i = 0; i < 40; ++i) frames.push_back(test_frame(60 + i * 36U, i));
  {
    const dpdk::Port out = open({.name = "rec", .device = "net_pcap0,tx_pcap=" + scratch.file("a.pcap")});
    EXPECT_FALSE(out.traits().segments);
    for (const auto& frame : frames) EXPECT_EQ(send_all(out, {mbuf_of(frame)}), 1U);
    EXPECT_TRUE(receive_copies(out, 0).empty());
  }
  const dpdk::Port in = open({.name = "play", .device = "net_pcap1,rx_pcap=" + scratch.file("a.pcap")});
  EXPECT_EQ(receive_copies(in, frames.size()), frames);
  EXPECT_EQ(send_all(in, {mbuf_of(frames[0])}), 1U) << "swallowed";
}

TEST_F(Pcap, AnInterfaceIsBothWays) {
  make_veth("tp0", 1500);
  const Wire wire("tp0-w");
  const dpdk::Port port = open({.name = "p", .device = "net_pcap0,iface=tp0"});
  for (const std::size_t bytes : {60U, 1000U, 1514U}) carries(port, wire, bytes);
}

}  // namespace
}  // namespace tally::e2e
