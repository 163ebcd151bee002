// The way to external servers: what a port refuses waits for it, by class and job, and nothing of it is lost
// but by name.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "dpdk/port.h"
#include "io/egress.h"
#include "io/node_memory.h"
#include "loop_cable.h"
#include "loop_eal.h"
#include "pool_audit.h"

namespace tally::e2e {
namespace {

constexpr unsigned kRing = 8;  // its room is one less
constexpr std::uint32_t kBytes = 200;

class LoopServer : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
    auto pools = make_plain_pools({.frames = 255, .heads = 16, .frame_room = 2'048}, "server");
    ASSERT_TRUE(pools.has_value()) << pools.error().text();
    pools_ = std::move(*pools);
    cable_.emplace(CableOptions{.name = "server", .size = kRing}, pools_.frames[0]);
    auto port = dpdk::Port::adopt(cable_->box_port(), {.name = "server"}, pools_.frames[0]);
    ASSERT_TRUE(port.has_value()) << port.error().text();
    port_.emplace(std::move(*port));
  }
  void TearDown() override {
    if (!cable_) return;
    static_cast<void>(arrived());
    EXPECT_EQ(audit(pools_.frames[0]), "");
  }

  // A frame that carries its number.
  rte_mbuf* frame(std::uint32_t number) {
    rte_mbuf* m = dpdk::allocate(pools_.frames[0], statistics_);
    if (m == nullptr) return nullptr;
    m->data_len = kBytes;
    m->pkt_len = kBytes;
    std::memcpy(dpdk::data_of(m), &number, sizeof number);
    return m;
  }
  static std::uint32_t number_of(rte_mbuf* m) {
    std::uint32_t number = 0;
    std::memcpy(&number, dpdk::data_of(m), sizeof number);
    dpdk::drop(m);
    return number;
  }
  // What the far end of the cable has received.
  std::vector<std::uint32_t> arrived() {
    std::array<rte_mbuf*, 32> room{};
    std::vector<std::uint32_t> all;
    for (rte_mbuf* m : dpdk::receive(cable_->worker_port(), 0, room)) all.push_back(number_of(m));
    return all;
  }
  void push(io::ServerEgress& servers, std::uint32_t number, std::uint16_t job, std::uint8_t priority) {
    rte_mbuf* const m = frame(number);
    ASSERT_NE(m, nullptr);
    servers.push(PortIndex{0}, m, JobId{job}, priority);
  }

  dpdk::Pools pools_;
  std::optional<Cable> cable_;
  std::optional<dpdk::Port> port_;
  io::CoreStatistics statistics_;
  std::array<io::PortTraffic, 2> traffic_;
};

TEST_F(LoopServer, WhatAPortRefusesWaitsForIt) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}}}, statistics_, traffic_);
  io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
  EXPECT_EQ(servers.drain(), 0U);
  for (std::uint32_t i = 0; i < 50; ++i) push(servers, i, 1, 100);
  EXPECT_EQ(servers.waiting(), 50U);
  EXPECT_EQ(statistics_.server_queued, 50U);
  std::vector<std::uint32_t> all;
  for (int turns = 0; servers.waiting() != 0; ++turns) {
    ASSERT_LT(turns, 10);
    EXPECT_EQ(servers.drain(), std::min<std::size_t>(kRing - 1, 50 - all.size()));
    EXPECT_EQ(servers.drain(), 0U) << "the ring is full, or nothing waits";
    for (const std::uint32_t n : arrived()) all.push_back(n);
    EXPECT_EQ(servers.waiting(), 50 - all.size());
  }
  ASSERT_EQ(all.size(), 50U);
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(all[i], i);
  EXPECT_EQ(statistics_.server_queued, 0U);
  EXPECT_EQ(statistics_.to_servers, 50U);
  EXPECT_EQ(statistics_.frames_out, 50U);
  EXPECT_EQ(traffic_[0].frames_out, 50U);
  EXPECT_EQ(traffic_[0].bytes_out, 50U * kBytes);
  EXPECT_EQ(statistics_.refused, 0U) << "nothing was lost";
}

// af_xdp's driver would copy a frame of another pool behind the end of its own mbuf.
TEST_F(LoopServer, WhatAnMbufOfTheKernelsDoesNotHoldIsRefusedAndCounted) {
  dpdk::PortTraits traits = port_->traits();
  traits.umem = true;
  const auto small = make_plain_pools({.frames = 7, .heads = 1, .frame_room = kBytes - 1}, "small");
  ASSERT_TRUE(small.has_value());
  for (const bool holds : {true, false}) {
    if (!holds) traits.frames = small->frames[0];
    io::Egress egress({{.traits = traits, .impair = {{}, 1}}}, statistics_, traffic_);
    io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
    push(servers, 1, 1, 100);
    static_cast<void>(servers.drain());
    egress.push(PortIndex{0}, frame(2));
    egress.flush();
    EXPECT_EQ(arrived().size(), holds ? 2U : 0U);
    EXPECT_EQ(statistics_.refused, holds ? 0U : 2U);
  }
}

// While frames wait, an urgent one overtakes them, also those that the port has refused before.
TEST_F(LoopServer, AnUrgentFrameOvertakesWhatAPortRefused) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}}}, statistics_, traffic_);
  io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
  for (std::uint32_t i = 0; i < 10; ++i) push(servers, i, 1, 0);
  EXPECT_EQ(servers.drain(), kRing - 1);
  push(servers, 77, 2, 254);
  static_cast<void>(arrived());
  EXPECT_EQ(servers.drain(), 4U);
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{77, 7, 8, 9}));
}

// Results first: they are pushed into the outbox, and the queue gets what is left of the ring.
TEST_F(LoopServer, ResultsGoBeforeWhatWaitsForServers) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}}}, statistics_, traffic_);
  io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
  for (std::uint32_t i = 0; i < 5; ++i) push(servers, i, 1, 254);
  for (std::uint32_t i = 100; i < 104; ++i) egress.push(PortIndex{0}, frame(i));
  EXPECT_EQ(servers.drain(), kRing - 1 - 4);
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{100, 101, 102, 103, 0, 1, 2}));
  EXPECT_EQ(servers.waiting(), 2U);
}

TEST_F(LoopServer, WhatFindsTheQueueFullIsCountedAndFreed) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}}}, statistics_, traffic_);
  io::ServerEgress servers(1, {.capacity = 4}, egress, statistics_);
  for (std::uint32_t i = 0; i < 6; ++i) push(servers, i, 1, 0);
  EXPECT_EQ(statistics_.server_refused, 2U);
  push(servers, 50, 2, 254);
  EXPECT_EQ(statistics_.server_refused, 3U) << "the urgent one is there, the newest other one is not";
  EXPECT_EQ(statistics_.server_queued, 4U);
  EXPECT_EQ(servers.drain(), 4U);
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{50, 0, 1, 2}));
}

TEST_F(LoopServer, WhatIsLostOnPurposeIsDecidedOnce) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{.loss_ppm = 500'000, .seed = 3}, 1}}},
                    statistics_, traffic_);
  io::ServerEgress servers(1, {.capacity = 200}, egress, statistics_);
  for (std::uint32_t i = 0; i < 100; ++i) push(servers, i, 1, 0);
  const std::uint64_t lost = statistics_.impaired_out;
  EXPECT_GT(lost, 20U);
  EXPECT_EQ(servers.waiting(), 100 - lost);
  std::size_t got = 0;
  while (servers.drain() != 0) got += arrived().size();
  EXPECT_EQ(got, 100 - lost);
  EXPECT_EQ(statistics_.impaired_out, lost);
}

// Each copy is a packet for the queue, which stays bounded.
TEST_F(LoopServer, ADuplicateOnPurposeHasAPlaceOfItsOwn) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{.duplicate_ppm = 1'000'000}, 1}}}, statistics_,
                    traffic_);
  io::ServerEgress servers(1, {.capacity = 5}, egress, statistics_);
  for (std::uint32_t i = 0; i < 3; ++i) push(servers, i, 1, 0);
  EXPECT_EQ(servers.waiting(), 5U);
  EXPECT_EQ(statistics_.server_refused, 1U);
  EXPECT_EQ(servers.drain(), 5U);
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(traffic_[0].impaired_out.duplicated, 3U);
}

// Frames leave the queue for the delay, as many as it has room for, and the port when their time has come.
TEST_F(LoopServer, WhatIsDelayedOnPurposeLeavesWhenItsTimeHasCome) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{.delay = 100, .queue = 5}, 1}}}, statistics_,
                    traffic_);
  io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
  EXPECT_EQ(egress.begin(1'000), 0U);
  EXPECT_EQ(egress.next_due(), kNever);
  for (std::uint32_t i = 0; i < 12; ++i) push(servers, i, 1, 0);
  EXPECT_EQ(servers.drain(), 5U);
  EXPECT_EQ(servers.waiting(), 7U);
  EXPECT_EQ(arrived(), std::vector<std::uint32_t>{});
  EXPECT_EQ(egress.next_due(), 1'100U);
  EXPECT_EQ(egress.begin(1'099), 0U);
  EXPECT_EQ(servers.drain(), 0U);
  EXPECT_EQ(egress.begin(1'100), 5U);
  egress.flush();
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(servers.drain(), 5U);
  egress.push(PortIndex{0}, frame(77));
  EXPECT_EQ(traffic_[0].impaired_out.overflow, 1U) << "a result finds it full";
  egress.clear();
  EXPECT_EQ(egress.next_due(), kNever);
  EXPECT_EQ(servers.drain(), 2U) << "there is room again";
  EXPECT_EQ(egress.begin(1'200), 2U);
  egress.flush();
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{10, 11}));
  EXPECT_EQ(traffic_[0].impaired_out.delayed, 12U);
}

// Another core has the transmit queue: frames go through its ring, which says of each where it goes.
TEST_F(LoopServer, TheRingOfTheCoreThatSendsTakesWhatItHasRoomFor) {
  const io::ThreadRing ring = io::make_ring(kRing, sizeof(void*), io::Producers::kOne, SOCKET_ID_ANY);
  ASSERT_TRUE(ring);
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}},
                     {.traits = port_->traits(), .via = ring.get(), .impair = {{}, 1}}},
                    statistics_, traffic_);
  io::ServerEgress servers(2, {.capacity = 100}, egress, statistics_);
  for (std::uint32_t i = 0; i < 10; ++i) {
    rte_mbuf* const m = frame(i);
    ASSERT_NE(m, nullptr);
    servers.push(PortIndex{1}, m, JobId{1}, 0);
  }
  EXPECT_EQ(servers.drain(), kRing - 1);
  EXPECT_EQ(servers.waiting(), 10 - (kRing - 1));
  EXPECT_EQ(statistics_.to_servers, kRing - 1);
  EXPECT_EQ(statistics_.frames_out, 0U) << "that is the other core's to count";
  EXPECT_EQ(statistics_.hand_over_lost, 0U);
  std::array<rte_mbuf*, 16> room{};
  std::uint32_t next = 0;
  for (int turns = 0; turns < 2; ++turns) {
    for (rte_mbuf* m : dpdk::receive(ring.get(), room)) {
      EXPECT_EQ(m->port, 1U);
      EXPECT_EQ(number_of(m), next++);
    }
    servers.drain();
  }
  EXPECT_EQ(next, 10U);
}

// The server is away, or the box stops.
TEST_F(LoopServer, WhatStillWaitsIsFreedWithTheQueue) {
  io::Egress egress({{.traits = port_->traits(), .impair = {{}, 1}}}, statistics_, traffic_);
  {
    io::ServerEgress servers(1, {.capacity = 100}, egress, statistics_);
    for (std::uint32_t i = 0; i < 30; ++i) push(servers, i, 1, 0);
    EXPECT_EQ(servers.drain(), kRing - 1);
    servers.clear();
    EXPECT_EQ(servers.waiting(), 0U);
    EXPECT_EQ(statistics_.server_queued, 0U);
    EXPECT_EQ(servers.drain(), 0U);
    for (std::uint32_t i = 0; i < 30; ++i) push(servers, i, 1, 0);
  }
  static_cast<void>(arrived());
  EXPECT_EQ(audit(pools_.frames[0]), "");
}

}  // namespace
}  // namespace tally::e2e
