// Ports that one end of is enough for: net_ring, net_null, and what cannot be opened.

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "dpdk/flow_rules.h"
#include "dpdk_testbed.h"

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

namespace tally::e2e {
namespace {

constexpr std::uint32_t kHead = 42;

class DpdkPort : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(audit(pools_.frames[0]), "");
    EXPECT_EQ(audit(pools_.heads[0]), "");
  }
  [[nodiscard]] std::string refusal(const dpdk::PortOptions& options) {
    const auto port = dpdk::Port::open(options, pools_.frames[0]);
    return port ? "" : port.error().text();
  }

  dpdk::Pools pools_ = small_pools(255, 63);
  dpdk::MbufCounters counters_;
};

// net_ring0 sends to itself: the reader gets the very mbufs.
TEST_F(DpdkPort, RingHandsOverTheVeryMbuf) {
  auto port = dpdk::Port::open({.name = "r", .device = "net_ring0"}, pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  EXPECT_TRUE(port->traits().segments);
  EXPECT_TRUE(port->traits().same_mbuf);
  EXPECT_FALSE(port->traits().vouches);
  rte_mbuf* body = tagged(pools_.frames[0], 1000, 1, counters_);
  rte_mbuf* chain = dpdk::refer(body, kHead, pools_.heads[0], counters_);
  std::array<rte_mbuf*, 1> burst{chain};
  EXPECT_EQ(dpdk::send(port->traits().id, 0, burst, counters_), 1U);
  dpdk::drop(body);
  const auto frames = receive_some(*port, 1);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0], chain);
  EXPECT_EQ(frames[0]->next, body);
  EXPECT_TRUE(has_tag(frames[0], kHead, 1));
  dpdk::drop(frames[0]);
  EXPECT_EQ(port->statistics().tx_packets, 1U);
  EXPECT_EQ(port->statistics().rx_packets, 1U);
}

// As a worker and the box: the mbufs go through a library that ThreadSanitizer does not see.
TEST_F(DpdkPort, FramesGoFromThreadToThread) {
  constexpr int kFrames = 500;
  auto port = dpdk::Port::open({.name = "r", .device = "net_ring6"}, pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  std::thread sender([&] {
    for (int i = 0; i < kFrames;) {
      rte_mbuf* m = tagged(pools_.frames[0], 200, static_cast<std::uint8_t>(i), counters_);
      std::array<rte_mbuf*, 1> burst{m};
      if (m != nullptr && dpdk::send(port->traits().id, 0, burst, counters_) == 1) ++i;
    }
  });
  std::array<rte_mbuf*, 32> room{};
  for (int i = 0; i < kFrames;) {
    for (rte_mbuf* m : dpdk::receive(port->traits().id, 0, room)) {
      EXPECT_TRUE(has_tag(m, 0, static_cast<std::uint8_t>(i++)));
      dpdk::data_of(m)[0] = std::byte{0};  // its owner may write it
      dpdk::drop(m);
    }
  }
  sender.join();
}

TEST_F(DpdkPort, ADeviceCanBeOpenedAgainAfterItsPortIsGone) {
  for (int i = 0; i < 3; ++i) {
    auto port = dpdk::Port::open({.name = "r", .device = "net_ring1"}, pools_.frames[0]);
    ASSERT_TRUE(port) << port.error().text();
    EXPECT_TRUE(port->link_up());
    ASSERT_TRUE(port->restart());
    EXPECT_TRUE(port->link_up());
  }
}

TEST_F(DpdkPort, AdoptedRingRefusesAndCountsWhatDoesNotFit) {
  rte_ring* ring = rte_ring_create("adopted", 16, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
  ASSERT_NE(ring, nullptr);
  const int id = rte_eth_from_rings("adopted", &ring, 1, &ring, 1, 0);
  ASSERT_GE(id, 0);
  {
    auto port = dpdk::Port::adopt(static_cast<std::uint16_t>(id), {.name = "a"}, pools_.frames[0]);
    ASSERT_TRUE(port) << port.error().text();
    std::vector<rte_mbuf*> burst;
    for (std::uint8_t i = 0; i < 20; ++i) burst.push_back(tagged(pools_.frames[0], 64, i, counters_));
    EXPECT_EQ(dpdk::send(port->traits().id, 0, burst, counters_), 15U);
    EXPECT_EQ(counters_.refused, 5U);
    EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 15U);
    for (rte_mbuf* m : receive_some(*port, 15)) dpdk::drop(m);
  }
  rte_ring_free(ring);
}

TEST_F(DpdkPort, NullTakesNoSegmentsAndSwallowsFrames) {
  auto port = dpdk::Port::open({.name = "n", .device = "net_null0,size=64,no-rx=1"}, pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  EXPECT_FALSE(port->traits().segments);
  EXPECT_FALSE(port->traits().same_mbuf);
  std::vector<rte_mbuf*> burst;
  for (std::uint8_t i = 0; i < 20; ++i) burst.push_back(tagged(pools_.frames[0], 64, i, counters_));
  EXPECT_EQ(dpdk::send(port->traits().id, 0, burst, counters_), 20U);
  EXPECT_EQ(port->statistics().tx_packets, 20U);
}

TEST_F(DpdkPort, QueuesAreThoseThatTheDeviceHas) {
  auto port = dpdk::Port::open(
      {.name = "r", .device = "net_ring2", .receive_queues = 3, .transmit_queues = 2000}, pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  EXPECT_EQ(port->traits().receive_queues, 3);
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port->traits().id, &info), 0);
  EXPECT_EQ(port->traits().transmit_queues, info.max_tx_queues);
}

TEST_F(DpdkPort, APortCanBeMoved) {
  auto first = dpdk::Port::open({.name = "first", .device = "net_ring3"}, pools_.frames[0]);
  auto second = dpdk::Port::open({.name = "second", .device = "net_ring4"}, pools_.frames[0]);
  ASSERT_TRUE(first && second);
  *first = std::move(*second);
  EXPECT_EQ(first->name(), "second");
  std::uint16_t id = 0;
  EXPECT_NE(rte_eth_dev_get_port_by_name("net_ring3", &id), 0) << "what was there is closed";
  EXPECT_EQ(rte_eth_dev_get_port_by_name("net_ring4", &id), 0);
}

TEST_F(DpdkPort, AnUnknownDriverIsAnsweredWithThoseThatAreInstalled) {
  const std::string text = refusal({.name = "w0", .device = "net_nosuch0,x=1"});
  EXPECT_NE(text.find("port w0: net_nosuch0: its driver is not installed"), std::string::npos) << text;
  EXPECT_NE(text.find("package librte-net-nosuch23"), std::string::npos) << text;
  EXPECT_NE(text.find("net_ring"), std::string::npos) << text;
  const std::string nonsense = refusal({.name = "w0", .device = "eth0"});
  EXPECT_NE(nonsense.find("write a driver and a number, as in net_memif0"), std::string::npos) << nonsense;
}

TEST_F(DpdkPort, AMissingPciDeviceIsAnsweredWithThoseThatAreThere) {
  const std::string text = refusal({.name = "up", .device = "0000:ff:1f.7", .pci = true});
  EXPECT_NE(text.find("port up: 0000:ff:1f.7"), std::string::npos) << text;
  EXPECT_NE(text.find("network devices here: "), std::string::npos) << text;
  EXPECT_NE(text.find("DPDK says: "), std::string::npos) << text;
}

TEST_F(DpdkPort, OneDeviceIsOnePort) {
  auto port = dpdk::Port::open({.name = "a", .device = "net_null1"}, pools_.frames[0]);
  ASSERT_TRUE(port);
  const std::string text = refusal({.name = "b", .device = "net_null1"});
  EXPECT_NE(text.find("port b: net_null1: another port has this device"), std::string::npos) << text;
}

TEST_F(DpdkPort, MbufsThatCannotHoldAFrameAreRefused) {
  const std::string text = refusal({.name = "j", .device = "net_null2", .mtu = 9000});
  EXPECT_NE(text.find("mbufs hold 1600 bytes, frames of this mtu need 9018"), std::string::npos) << text;
  EXPECT_EQ(refusal({.name = "j", .device = "net_null2"}), "") << "the device was given back";
}

TEST_F(DpdkPort, ADriverWithoutFlowRulesSaysSoAndThePortGoesOn) {
  auto port = dpdk::Port::open({.name = "r", .device = "net_ring5"}, pools_.frames[0]);
  ASSERT_TRUE(port);
  const auto rules = dpdk::flow_rules({.ipv4 = {10, 0, 0, 1}, .shards = 4, .queues = 4});
  ASSERT_EQ(rules.size(), 3U);
  const auto applied = dpdk::apply_flow_rules(port->traits().id, rules);
  ASSERT_FALSE(applied);
  EXPECT_NE(applied.error().what.find("handed over between the cores"), std::string::npos);
  EXPECT_TRUE(port->link_up());
}

}  // namespace
}  // namespace tally::e2e
