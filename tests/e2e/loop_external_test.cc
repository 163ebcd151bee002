// A data core and external servers: what leaves for them, where it goes, and that every mbuf comes back. The
// packets' meaning is tests/unit/pipeline_external_test.cc's.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "loop_eal.h"
#include "loop_server_rig.h"
#include "rng.h"

namespace tally::e2e {
namespace {

class LoopExternal : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

// By IPv4 and by IPv6 with a tag, whose checksums are right; from the port of the chunk's shard.
TEST_F(LoopExternal, WhatFoundNoSlotLeavesForItsChunksServer) {
  for (const bool staged : {false, true}) {
    ServerRig rig({.staged = staged});
    rig.contribute(1, Chunk{4}, kFlagDirect);
    rig.contribute(2, Chunk{5}, kFlagDirect);
    rig.turn();
    const auto first = rig.received(rig.server(0));
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].header.type, PacketType::kContribute);
    EXPECT_EQ(first[0].header.chunk_id(), Chunk{4});
    EXPECT_EQ(first[0].header.cookie.host(), raw(rig.job.result_cookie));
    EXPECT_EQ(first[0].source_port, kBasePort);
    rig.contribute(2, Chunk{7}, kFlagDirect);
    rig.turn();
    const auto second = rig.received(rig.server(1));
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].header.chunk_id(), Chunk{7});
    EXPECT_EQ(second[0].bytes, kHeaderBytes + 4U * 64);
    EXPECT_EQ(rig.sum(&io::CoreStatistics::to_servers), 3U);
    rig.expect_all_mbufs_back();
  }
}

// Frames arrive at whichever core, the port's transmit queue may be the other core's, and the source port is
// the chunk's shard's in every case.
TEST_F(LoopExternal, EveryCoreReachesTheServersPort) {
  for (const std::uint16_t down : {std::uint16_t{1}, std::uint16_t{2}}) {
    ServerRig rig({.cores = 2, .up = 2, .down = down, .frames = 512});
    for (std::uint32_t c = 0; c < 8; ++c) rig.contribute(0, Chunk{c}, kFlagDirect, c / 2 % 2);
    for (int i = 0; i < 4; ++i) rig.turn();
    std::size_t got = 0;
    for (std::uint32_t round = 0; round < 2; ++round) {
      for (const Arrival& a : rig.received(rig.server(round == 0 ? 0 : 1))) {
        EXPECT_EQ(a.source_port, kBasePort + raw(a.header.chunk_id()) % 2);
        ++got;
      }
      if (round == 0) {
        EXPECT_EQ(got, 4U);
        for (std::uint32_t c = 1; c < 8; c += 2) rig.contribute(0, Chunk{c}, kFlagDirect, 0);
        for (int i = 0; i < 4; ++i) rig.turn();
      }
    }
    EXPECT_EQ(got, 8U);
    EXPECT_EQ(rig.sum(&io::CoreStatistics::to_servers), 12U);
    rig.expect_all_mbufs_back();
  }
}

// Nobody sends anything: the sweep makes the frame itself.
TEST_F(LoopExternal, ASweptSlotLeavesAsPartial) {
  ServerRig rig({});
  rig.contribute(0, Chunk{2});
  rig.contribute(1, Chunk{2});
  rig.turn();
  EXPECT_EQ(rig.plane().core(0).state(rig.job.id).occupancy.get(), 1U);
  std::vector<Arrival> got;
  for (int i = 0; i < 100 && got.empty(); ++i) {
    rig.now += 10 * kMillisecond;
    rig.turn();
    got = rig.received(rig.server(0));
  }
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].header.type, PacketType::kPartial);
  EXPECT_EQ(got[0].header.contributors.host(), 0b011U);
  EXPECT_EQ(rig.plane().core(0).state(rig.job.id).occupancy.get(), 0U);
  rig.expect_all_mbufs_back();
}

// The PARTIAL is longer than the FLUSH whose frame it gets.
TEST_F(LoopExternal, AFlushedSlotLeavesInTheFrameThatAskedForIt) {
  ServerRig rig({});
  rig.contribute(2, Chunk{3});
  rig.turn();
  rig.say(PacketType::kFlush, Chunk{3}, 0);
  rig.turn();
  const auto got = rig.received(rig.server(1));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].header.type, PacketType::kPartial);
  EXPECT_EQ(got[0].header.contributors.host(), 0b100U);
  EXPECT_EQ(rig.sum(&io::CoreStatistics::no_mbuf), 0U);
  rig.expect_all_mbufs_back();
}

TEST_F(LoopExternal, WhatAServerSaysReachesTheRanksThatItNames) {
  ServerRig rig({.cores = 2, .up = 2, .down = 2});
  const std::vector<std::int32_t> values(64, 6);
  rig.say(PacketType::kResult, Chunk{1}, rig.job.members, values);  // the core of the other shard gets it
  rig.turn();
  for (std::uint16_t r = 0; r < 3; ++r) {
    const auto got = rig.received(rig.member(r));
    ASSERT_EQ(got.size(), 1U) << "rank " << r;
    EXPECT_EQ(got[0].header.type, PacketType::kResult);
    EXPECT_EQ(got[0].header.rank_id(), kSwitchRank);
    EXPECT_EQ(got[0].source_port, kBasePort + 1);
  }
  rig.say(PacketType::kResult, Chunk{1}, 0b101, values);
  rig.say(PacketType::kResend, Chunk{0}, 0b110);
  rig.turn();
  const std::array<std::vector<PacketType>, 3> expected{
      {{PacketType::kResult}, {PacketType::kResend}, {PacketType::kResult, PacketType::kResend}}};
  for (std::uint16_t r = 0; r < 3; ++r) {
    std::vector<PacketType> types;
    for (const Arrival& a : rig.received(rig.member(r))) {
      types.push_back(a.header.type);
      EXPECT_EQ(a.source_port, kBasePort + raw(a.header.chunk_id()) % 2);
    }
    EXPECT_EQ(types, expected[r]) << "rank " << r;
  }
  rig.expect_all_mbufs_back();
}

// The backlog leaves as fast as the port takes it, without any packet coming in, and counts as work.
TEST_F(LoopExternal, ABacklogLeavesWithoutNewArrivals) {
  ServerRig rig({.ring = 32});
  std::size_t got = 0;
  for (std::uint32_t burst = 0; burst < 3; ++burst) {
    for (std::uint32_t c = 0; c < 28; ++c) rig.contribute(0, Chunk{c % 8 * 2}, kFlagDirect);
    rig.turn();
  }
  EXPECT_EQ(rig.plane().core(0).statistics.server_queued, 3U * 28 - 31);
  EXPECT_EQ(rig.plane().turn(0, rig.now), 0U) << "the port takes nothing";
  while (const std::size_t now = rig.received(rig.server(0)).size()) {
    got += now;
    EXPECT_EQ(rig.plane().turn(0, rig.now), std::min<std::size_t>(31, 84 - got));
  }
  EXPECT_EQ(got, 84U);
  EXPECT_EQ(rig.sum(&io::CoreStatistics::server_refused), 0U);
  rig.expect_all_mbufs_back();
}

// A server that is away costs what finds no slot, and nothing else: the queue is bounded, the rest is counted
// and freed, and stopping frees what waits.
TEST_F(LoopExternal, AServerThatTakesNothingCostsABoundedNumberOfFrames) {
  ServerRig rig({.ring = 64});
  const std::uint32_t sent = 2 * dpdk::kServerQueueFrames;
  for (std::uint32_t n = 0; n < sent; n += 32) {
    for (std::uint32_t c = 0; c < 32; ++c) rig.contribute(0, Chunk{c % 8}, kFlagDirect);
    rig.turn();
    if (n == dpdk::kServerQueueFrames / 2) {
      rig.contribute(0, Chunk{9});
      rig.contribute(1, Chunk{9});
      rig.contribute(2, Chunk{9});
      rig.turn();
      EXPECT_EQ(rig.received(rig.member(1)).size(), 1U) << "slots work as before";
    }
  }
  EXPECT_EQ(rig.plane().core(0).statistics.server_queued, dpdk::kServerQueueFrames);
  EXPECT_EQ(rig.plane().core(0).statistics.to_servers, 63U);
  EXPECT_EQ(rig.plane().core(0).statistics.server_refused, sent - dpdk::kServerQueueFrames - 63);
  rig.expect_all_mbufs_back();
}

// With the cores on their threads: what waits in their queues is the stopping thread's.
TEST_F(LoopExternal, StoppingTheCoresFreesWhatWaits) {
  ServerRig rig({.cores = 2, .up = 2, .down = 1, .ring = 64});
  for (int starts = 0; starts < 2; ++starts) {
    const auto started = rig.plane().start();
    ASSERT_TRUE(started.has_value()) << started.error().text();
    for (std::uint32_t n = 0; rig.sum(&io::CoreStatistics::server_queued) < 100; ++n) {
      rig.contribute(0, Chunk{n % 8}, kFlagDirect, n % 2);
      std::this_thread::yield();
    }
    rig.plane().stop();
    EXPECT_EQ(rig.sum(&io::CoreStatistics::server_queued), 0U);
  }
  rig.expect_all_mbufs_back();
}

// Everything at once, on rings and pools that are too small: whatever becomes of a packet, its mbuf comes
// back once.
TEST_F(LoopExternal, EveryMbufComesBackWhateverHappens) {
  for (const std::uint8_t cores : {std::uint8_t{1}, std::uint8_t{2}}) {
    for (const bool staged : {false, true}) {
      ServerRig rig(
          {.cores = cores, .up = cores, .down = 1, .ring = 16, .entries = 2, .staged = staged, .frames = 48});
      Rng rng(9U + cores);
      for (int i = 0; i < 20'000; ++i) {
        const Chunk chunk{static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) / 100 + rng.below(12))};
        const auto rank = static_cast<std::uint16_t>(rng.below(3));
        const auto queue = static_cast<std::uint16_t>(rng.below(cores));
        switch (rng.below(8)) {
          case 0:
            rig.say(PacketType::kFlush, chunk, 0);
            break;
          case 1:
            rig.say(PacketType::kResend, chunk, 1 + rng.below(7));
            break;
          case 2:
            rig.say(PacketType::kResult, chunk, 1 + rng.below(7), std::vector<std::int32_t>(64, 6));
            break;
          case 3:
            rig.contribute(rank, chunk, kFlagDirect, queue);
            break;
          default:
            rig.contribute(rank, chunk, 0, queue);
            break;
        }
        if (rng.below(4) == 0) rig.now += rng.below(3) == 0 ? 5 * kMillisecond : 10 * kMicrosecond;
        if (rng.below(4) == 0) rig.turn();
        if (rng.below(12) == 0) static_cast<void>(rig.received(rig.server(raw(chunk) % 2)));
        if (rng.below(9) == 0) static_cast<void>(rig.received(rig.member(rank)));
      }
      for (const std::uint64_t n :
           {rig.sum(&io::CoreStatistics::to_servers), rig.sum(&io::CoreStatistics::refused)})
        EXPECT_GT(n, 50U);
      EXPECT_GT(rig.plane().core(0).counters(rig.job.id).of(Verdict::kEvict) +
                    rig.plane().core(0).counters(rig.job.id).of(Verdict::kBypass),
                100U);
      EXPECT_GT(rig.plane().core(0).state(rig.job.id).slots.swept +
                    rig.plane().core(0).state(rig.job.id).slots.flushed,
                10U);
      rig.expect_all_mbufs_back();
    }
  }
}

}  // namespace
}  // namespace tally::e2e
