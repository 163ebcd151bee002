// What else a data core promises: one core and two give the same bits, new epochs in the middle of traffic,
// checksum verdicts, and figures that are true.

#include <gtest/gtest.h>

#include "io/data_plane.h"
#include "io/ingress.h"
#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_rack.h"
#include "pool_audit.h"

namespace tally::e2e {
namespace {

class LoopCore : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

TEST_F(LoopCore, TwoCoresGiveTheSameBitsAsOne) {
  const auto digests = [](const RackCase& c) {
    Rack rack(c);
    EXPECT_TRUE(rack.run());
    rack.settle();
    rack.expect_right_sums();
    std::vector<std::uint64_t> all;
    for (std::uint16_t r = 0; r < c.world; ++r) all.push_back(rack.worker(r).digest());
    return all;
  };
  const auto one = digests({.name = "One"});
  for (const std::uint64_t digest : one) EXPECT_EQ(digest, one.front());
  EXPECT_EQ(digests({.name = "Two", .cores = 2, .up = 2, .down = 2}), one);
  EXPECT_EQ(digests({.name = "Lossy", .cores = 2, .loss_ppm = 20'000, .host = {.stray_every = 3}}), one);
  EXPECT_EQ(digests({.name = "Staged", .cores = 2, .up = 2, .down = 2, .staged = true}), one);
}

// As after a restart of the data plane: every job goes on under a new epoch, and what is under way of the old
// one is answered by REJECT.
TEST_F(LoopCore, AnEpochIsRenewedWhileItsTrafficRuns) {
  for (const bool threads : {false, true}) {
    Rack rack({.name = "Renewed", .cores = 2, .up = 2, .down = 2, .host = {.stray_every = 3}});
    std::uint64_t results = 200;
    const auto renew = [&] {
      if (results > 600 || rack.sum(&io::CoreStatistics::results) < results) return;
      results += 200;
      rack.control().membership().restart_data_plane(rack.now());
    };
    EXPECT_TRUE(threads ? rack.run_threads(renew) : rack.run(renew));
    EXPECT_GT(results, 600U);
    EXPECT_GT(rack.count(Drop::kEpoch) + rack.count(Drop::kJob), 0U);
    EXPECT_GT(rack.sum(&io::CoreStatistics::rejects), 0U);
    rack.settle();
    rack.expect_right_sums();
    rack.expect_all_mbufs_back();
    rack.expect_every_frame_counted();
  }
}

// One rank is held back until the cores have sent results without it, in mbufs of their own; then it goes on
// with what the others have. Unicast and multicast, one core and two.
TEST_F(LoopCore, StragglersAreNotWaitedFor) {
  for (const bool multicast : {false, true}) {
    Rack rack({.name = "Stragglers",
               .cores = 2,
               .up = 2,
               .down = 2,
               .multicast = multicast,
               .stragglers = members::StragglerPolicy{10 * kMillisecond, 2},
               .operations = 8,
               .largest = 20'000});
    const auto incomplete = [&] {
      std::uint64_t n = 0;
      for (std::size_t core = 0; core < 2; ++core)
        n += rack.plane().core(core).state(rack.job()).slots.incomplete;
      return n;
    };
    EXPECT_TRUE(rack.run([&] { rack.worker(1).hold(incomplete() < 20); }));
    EXPECT_GE(incomplete(), 20U);
    rack.settle();
    rack.expect_right_sums();
    for (std::uint16_t r = 1; r < 4; ++r) EXPECT_EQ(rack.worker(r).digest(), rack.worker(0).digest()) << r;
    rack.expect_all_mbufs_back();
    for (std::size_t core = 0; core < 2; ++core)
      EXPECT_EQ(rack.plane().core(core).state(rack.job()).occupancy.get(), 0U);
  }
}

// Runs of zeros, and the results that the core owes for them.
TEST_F(LoopCore, ZerosAreLeftOut) {
  for (const bool multicast : {false, true}) {
    Rack rack({.name = "Zeros",
               .cores = 2,
               .up = 2,
               .down = 2,
               .multicast = multicast,
               .operations = 8,
               .largest = 20'000,
               .zeros = true});
    EXPECT_TRUE(rack.run());
    rack.settle();
    rack.expect_right_sums();
    rack.expect_all_mbufs_back();
    std::uint64_t runs = 0;
    for (std::uint16_t r = 0; r < 4; ++r) runs += rack.worker(r).engine().statistics().runs;
    EXPECT_GT(runs, 0U);
    EXPECT_GT(rack.count(Verdict::kComplete), rack.sum(&io::CoreStatistics::results))
        << "one frame for several";
    for (std::size_t core = 0; core < 2; ++core)
      EXPECT_EQ(rack.plane().core(core).state(rack.job()).occupancy.get(), 0U);
  }
}

// The verdict counts from a port that vouches only, and what a sender left in the mbuf counts never.
TEST_F(LoopCore, ChecksumVerdictsAreBelievedFromPortsThatVouchOnly) {
  auto pools = make_plain_pools({.frames = 64, .heads = 16, .frame_room = 2'048}, "verdict");
  ASSERT_TRUE(pools.has_value());
  const Cable cable({.name = "verdict"}, pools->frames[0]);
  auto port = dpdk::Port::adopt(cable.box_port(), {.name = "verdict"}, pools->frames[0]);
  ASSERT_TRUE(port.has_value()) << port.error().text();
  dpdk::MbufCounters counters;
  io::CoreStatistics statistics;
  std::array<io::PortTraffic, 6> traffic;
  constexpr std::uint64_t kGood = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  constexpr std::uint64_t kBad = RTE_MBUF_F_RX_L4_CKSUM_BAD;
  constexpr std::uint64_t kVlan = RTE_MBUF_F_RX_VLAN;
  for (const bool vouches : {false, true}) {
    dpdk::PortTraits traits = port->traits();
    traits.vouches = vouches;
    io::Ingress ingress({{.traits = traits, .index = PortIndex{5}, .impair = {{}, 1}}}, statistics, traffic);
    for (const std::uint64_t flags : {0UL, kGood, kBad, kGood | kBad, kGood | kVlan}) {
      rte_mbuf* m = dpdk::allocate(pools->frames[0], counters);
      ASSERT_NE(m, nullptr);
      m->ol_flags = flags;
      m->port = 99;
      m->pkt_len = m->data_len = 60;
      ASSERT_EQ(dpdk::send(cable.worker_port(), 0, {&m, 1}, counters), 1U);
      std::array<rte_mbuf*, 4> room{};
      std::size_t received = 0;
      const auto burst = ingress.take(room, received, 0);
      ASSERT_EQ(burst.size(), 1U);
      const pipeline::Frame frame = io::frame_of(burst[0]);
      EXPECT_EQ(frame.checksum_good, vouches && (flags == kGood || flags == (kGood | kVlan))) << flags;
      EXPECT_EQ(frame.port, PortIndex{5});
      EXPECT_EQ(frame.length, 60U);
      EXPECT_EQ(frame.capacity, 60 + rte_pktmbuf_tailroom(burst[0]));
      dpdk::drop(burst[0]);
    }
  }
  EXPECT_EQ(traffic[5].frames_in, 10U);
  EXPECT_EQ(traffic[5].bytes_in, 10U * 60);
  EXPECT_EQ(audit(pools->frames[0]), "");
}

TEST_F(LoopCore, WhatControlReadsIsTrue) {
  Rack rack({.name = "Figures", .cores = 2, .up = 2, .down = 2, .operations = 6});
  EXPECT_TRUE(rack.run());
  rack.settle();
  io::DataPlane& plane = rack.plane();
  for (std::size_t c = 0; c < 2; ++c) {
    const io::CoreStatistics& s = plane.core(c).statistics;
    EXPECT_GT(s.turns, s.bursts / 4);
    EXPECT_GE(s.frames_in, s.bursts);
    EXPECT_GT(s.busy_cycles, 0U);
    EXPECT_EQ(s.last_turn, rack.now());
    EXPECT_EQ(plane.core(c).counters(rack.job()).of(Verdict::kComplete), s.results);
    EXPECT_EQ(plane.core(c).state(rack.job()).occupancy.get(), 0U);
    for (std::uint16_t r = 0; r < 4; ++r) EXPECT_GT(plane.core(c).state(rack.job()).last_seen[r], 0U);
  }
  const std::uint64_t made = rack.sum(&io::CoreStatistics::replicas) +
                             rack.sum(&io::CoreStatistics::rejects) + rack.sum(&io::CoreStatistics::nacks) +
                             rack.sum(&io::CoreStatistics::sent_for) + rack.count(Verdict::kRepeat) +
                             rack.count(Verdict::kRelay) + rack.count(Verdict::kTell);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::frames_out), made);
  EXPECT_EQ(rack.of_hosts([](const LoopHost& h) { return h.received(); }), made);
  std::uint64_t in = 0;
  for (std::uint16_t p = 0; p < 4; ++p) {
    const dpdk::PortStatistics port = plane.port_statistics(PortIndex{p});
    EXPECT_EQ(port.tx_packets, rack.host(p).received());
    EXPECT_EQ(port.tx_bytes, rack.host(p).received_bytes());
    EXPECT_EQ(port.rx_packets, rack.host(p).sent());
    EXPECT_GT(port.rx_bytes, port.rx_packets * 98);
    in += port.rx_packets;
  }
  EXPECT_EQ(in, rack.sum(&io::CoreStatistics::frames_in));
}

}  // namespace
}  // namespace tally::e2e
