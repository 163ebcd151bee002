// Faults on purpose (`impair:`) in the daemon's loop, in both directions, one kind by one and all at once:
// every sum is right to the bit, every mbuf comes back, every frame is in one counter.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "dpdk/impaired_way.h"
#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_rack.h"
#include "pool_audit.h"

namespace tally::e2e {
namespace {

class LoopImpair : public testing::TestWithParam<RackCase> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

constexpr impair::PortImpairment both(const impair::ImpairOptions& o) { return {o, o}; }

constexpr impair::ImpairOptions kAll{.loss_ppm = 20'000,
                                     .burst = 3,
                                     .duplicate_ppm = 20'000,
                                     .reorder_ppm = 20'000,
                                     .corrupt_ppm = 20'000,
                                     .delay = 100 * kMicrosecond,
                                     .jitter = 30 * kMicrosecond,
                                     .seed = 5};

void expect_counted(const impair::ImpairCounters& seen, const impair::ImpairOptions& o, bool small_queue) {
  EXPECT_EQ(seen.lost > 0, o.loss_ppm > 0);
  EXPECT_EQ(seen.duplicated > 0, o.duplicate_ppm > 0);
  EXPECT_EQ(seen.reordered > 0, o.reorder_ppm > 0);
  EXPECT_EQ(seen.corrupted > 0, o.corrupt_ppm > 0);
  EXPECT_EQ(seen.delayed > 0, o.delay > 0);
  EXPECT_EQ(seen.overflow > 0, small_queue);
}

TEST_P(LoopImpair, EverySumIsRightAndEveryMbufComesBack) {
  const RackCase& c = GetParam();
  Rack rack(c);
  EXPECT_TRUE(rack.run()) << "the workers did not finish";
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
  expect_counted(rack.impaired().in, c.impair.in, c.impair.in.queue < 64);
  expect_counted(rack.impaired().out, c.impair.out, c.impair.out.queue < 64);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::no_mbuf) > 0, c.head_mbufs < 256);
}

RackCase impaired(std::string name, const impair::PortImpairment& impair, RackCase c = {}) {
  c.name = std::move(name);
  c.impair = impair;
  c.operations = 8;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    OneByOne, LoopImpair,
    testing::Values(impaired("Loss", both({.loss_ppm = 100'000})),
                    impaired("BurstLoss", both({.loss_ppm = 50'000, .burst = 8})),
                    impaired("Duplicate", both({.duplicate_ppm = 100'000})),
                    impaired("EverythingTwice", both({.duplicate_ppm = 1'000'000})),
                    impaired("Reorder", both({.reorder_ppm = 100'000})),
                    impaired("EverythingReordered", both({.reorder_ppm = 1'000'000})),
                    impaired("Corrupt", both({.corrupt_ppm = 50'000})),
                    impaired("Delay", both({.delay = 300 * kMicrosecond})),
                    impaired("Jitter", both({.delay = kMillisecond, .jitter = kMillisecond})),
                    impaired("SmallQueues", {{.delay = 100 * kMicrosecond, .queue = 20},
                                             {.delay = 100 * kMicrosecond, .queue = 4}})),
    [](const auto& one) { return one.param.name; });

INSTANTIATE_TEST_SUITE_P(
    AllAtOnce, LoopImpair,
    testing::Values(
        impaired("OneCore", both(kAll)), impaired("InOnly", {.in = kAll}), impaired("OutOnly", {.out = kAll}),
        impaired("TwoCores", both(kAll), {.cores = 2, .up = 2, .down = 2, .host = {.stray_every = 5}}),
        impaired("TwoCoresOneQueue", both(kAll), {.cores = 2}),
        impaired("Staged", both(kAll), {.cores = 2, .up = 2, .down = 2, .staged = true}),
        impaired("Copies", both(kAll), {.segments = false}),
        impaired("SharedSplitFrames", both(kAll), {.host = {.share_every = 7, .split_every = 50}}),
        impaired("TinyPools", both(kAll), {.frame_mbufs = 24, .head_mbufs = 40, .worker_mbufs = 200}),
        impaired("Multicast", both(kAll), {.multicast = true}),
        impaired("MulticastIdentical", both(kAll), {.copies = true, .multicast = true}),
        impaired("MulticastTwoCores", both(kAll),
                 {.cores = 2, .up = 2, .down = 2, .copies = true, .multicast = true}),
        impaired("VlansIpv6", both(kAll), {.per_port = 2, .ipv6 = true, .vlans = true})),
    [](const auto& one) { return one.param.name; });

class LoopImpairOnce : public LoopImpair {};

// Virtual time, one thread: the same run gives the same figures, another seed others.
TEST_F(LoopImpairOnce, TheSameSeedGivesTheSameRun) {
  const auto figures = [](std::uint64_t seed) {
    impair::PortImpairment impair = both(kAll);
    impair.in.seed = impair.out.seed = seed;
    Rack rack(impaired("Seed", impair));
    EXPECT_TRUE(rack.run());
    rack.settle();
    std::vector<std::uint64_t> out;
    for (const impair::ImpairCounters& c : {rack.impaired().in, rack.impaired().out})
      for (const std::uint64_t n : {c.lost.get(), c.duplicated.get(), c.reordered.get(), c.corrupted.get()})
        out.push_back(n);
    out.push_back(rack.sum(&io::CoreStatistics::frames_in));
    out.push_back(rack.sum(&io::CoreStatistics::frames_out));
    return out;
  };
  EXPECT_EQ(figures(5), figures(5));
  EXPECT_NE(figures(5), figures(6));
}

// With the daemon's threads, and cores that sleep while frames wait.
TEST_F(LoopImpairOnce, WithThreads) {
  for (const bool multicast : {false, true}) {
    impair::PortImpairment impair = both(kAll);
    impair.out.delay = kMillisecond;
    // Three wrong results of one chunk end its operation by name. With threads no seed tells whether that
    // happens, and at 2 % it does once in 30 runs.
    impair.out.corrupt_ppm = 2'000;
    Rack rack(impaired("Threads", impair,
                       {.cores = 2, .up = 2, .down = 2, .copies = multicast, .multicast = multicast}));
    EXPECT_TRUE(rack.run_threads()) << "the workers did not finish";
    rack.settle();
    rack.expect_right_sums();
    rack.expect_all_mbufs_back();
    rack.expect_every_frame_counted();
  }
}

// Other faults of all ports in mid-traffic, again and again: none, all of them, loss alone.
class ChangingFaults {
 public:
  explicit ChangingFaults(Rack& rack) : rack_(rack) {}

  void look() {
    const std::uint64_t results = rack_.sum(&io::CoreStatistics::results);
    if (results < next_) return;
    next_ = results + 20;
    impair::ImpairOptions all = kAll;
    all.corrupt_ppm = 2'000;
    const std::array<impair::PortImpairment, 3> turns{both({}), both(all), both({.loss_ppm = 100'000})};
    for (std::uint16_t p = 0; p < rack_.plane().ports(); ++p)
      rack_.plane().impair(PortIndex{p}, turns.at(changes_ % turns.size()));
    ++changes_;
  }
  [[nodiscard]] std::size_t changes() const noexcept { return changes_; }

 private:
  Rack& rack_;
  std::uint64_t next_ = 20;
  std::size_t changes_ = 0;
};

void expect_clean_after(Rack& rack, const ChangingFaults& faults) {
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
  EXPECT_GE(faults.changes(), 6U);
  for (const impair::ImpairCounters& seen : {rack.impaired().in, rack.impaired().out}) {
    EXPECT_GT(seen.lost, 0U);
    EXPECT_GT(seen.duplicated, 0U);
    EXPECT_GT(seen.reordered, 0U);
    EXPECT_GT(seen.delayed, 0U);
  }
}

TEST_F(LoopImpairOnce, FaultsChangeWhileFramesPass) {
  for (const RackCase& c : {RackCase{}, RackCase{.cores = 2, .up = 2, .down = 2}}) {
    Rack rack(impaired("Change", both(kAll), c));
    ChangingFaults faults(rack);
    EXPECT_TRUE(rack.run([&] { faults.look(); })) << "the workers did not finish";
    expect_clean_after(rack, faults);
  }
}

TEST_F(LoopImpairOnce, FaultsChangeWhileFramesPassOnThreads) {
  impair::ImpairOptions few = kAll;
  few.corrupt_ppm = 2'000;
  RackCase c = impaired("ChangeThreads", both(few), {.cores = 2, .up = 2, .down = 2});
  c.operations = 24;
  Rack rack(c);
  ChangingFaults faults(rack);
  EXPECT_TRUE(rack.run_threads([&] { faults.look(); })) << "the workers did not finish";
  expect_clean_after(rack, faults);
}

// At rest they go as fast as they come.
TEST_F(LoopImpairOnce, WithoutFaultsNothingWaits) {
  Rack rack(impaired("Stop", both({.delay = 10 * kSecond})));
  for (int i = 0; i < 1'000 && rack.plane().next_due() == kNever; ++i) rack.turn();
  EXPECT_NE(rack.plane().next_due(), kNever);
  for (std::uint16_t p = 0; p < rack.plane().ports(); ++p) rack.plane().impair(PortIndex{p}, {});
  rack.turn();
  EXPECT_EQ(rack.plane().next_due(), kNever);
  EXPECT_GT(rack.impaired().in.lost, 0U) << "what waited";
  EXPECT_TRUE(rack.run()) << "the workers did not finish";
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
}

TEST_F(LoopImpairOnce, FramesThatWaitWhenTheCoresStopAreDropped) {
  const impair::ImpairOptions late{.delay = 10 * kSecond};
  for (const impair::PortImpairment& impair :
       {impair::PortImpairment{.in = late}, impair::PortImpairment{.out = late}}) {
    Rack rack(impaired("Stop", impair));
    for (int i = 0; i < 1'000 && rack.plane().next_due() == kNever; ++i) rack.turn();
    EXPECT_NE(rack.plane().next_due(), kNever);
    rack.plane().stop();
    EXPECT_EQ(rack.plane().next_due(), kNever);
    for (std::size_t p = 0; p < rack.plane().ports(); ++p) static_cast<void>(rack.host(p).drain());
    rack.expect_all_mbufs_back();
  }
}

// --- one way by itself ------------------------------------------------------------------------------------

class LoopWay : public LoopImpair {
 protected:
  void SetUp() override {
    LoopImpair::SetUp();
    if (IsSkipped()) return;
    auto pools = make_plain_pools({.frames = 63, .heads = 31, .frame_room = 2'048}, "way");
    ASSERT_TRUE(pools.has_value()) << pools.error().text();
    pools_ = std::move(*pools);
  }
  void TearDown() override {
    if (pools_.frames.empty()) return;
    EXPECT_EQ(audit(pools_.frames[0]), "");
    EXPECT_EQ(audit(pools_.heads[0]), "");
  }
  rte_mbuf* frame(std::uint16_t bytes) {
    rte_mbuf* const m = dpdk::allocate(pools_.frames[0], mbufs_);
    m->data_len = bytes;
    m->pkt_len = bytes;
    std::memset(dpdk::data_of(m), 0, bytes);
    m->ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    return m;
  }
  // Bits set in a frame of zeros.
  static int bits_of(const rte_mbuf* m) {
    int n = 0;
    for (; m != nullptr; m = m->next)
      for (std::size_t i = 0; i < m->data_len; ++i)
        n += std::popcount(std::to_integer<unsigned>(dpdk::data_of(m)[i]));
    return n;
  }
  dpdk::ImpairedWay way(const impair::ImpairOptions& o) {
    return dpdk::ImpairedWay({o, 1}, pools_.frames[0], mbufs_, counters_, lost_);
  }

  dpdk::Pools pools_;
  dpdk::MbufCounters mbufs_;
  impair::ImpairCounters counters_;
  OneWriter<std::uint64_t> lost_ = 0;
  std::array<rte_mbuf*, 2> room_{};
};

TEST_F(LoopWay, CorruptionFlipsOneBitInPlaceAndNoPortVouchesForIt) {
  dpdk::ImpairedWay way = this->way({.corrupt_ppm = 1'000'000});
  rte_mbuf* const m = frame(100);
  const auto out = way.alter(m, room_);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0], m) << "nobody else sees it";
  EXPECT_EQ(bits_of(m), 1);
  EXPECT_EQ(m->ol_flags, 0U);
  EXPECT_EQ(counters_.corrupted, 1U);
  dpdk::drop(m);
}

TEST_F(LoopWay, WhatOthersSeeIsCopiedBeforeABitFlips) {
  dpdk::ImpairedWay way = this->way({.corrupt_ppm = 1'000'000});
  rte_mbuf* const m = frame(100);
  rte_mbuf_refcnt_update(m, 1);
  const auto out = way.alter(m, room_);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_NE(out[0], m);
  EXPECT_EQ(bits_of(out[0]), 1);
  EXPECT_EQ(bits_of(m), 0);
  EXPECT_TRUE(dpdk::writable(m)) << "its reference was given back";
  dpdk::drop(out[0]);
  dpdk::drop(m);
}

// Wherever in the chain the bit is: other chains share the body.
TEST_F(LoopWay, TheSharedBodyOfAChainIsNeverWritten) {
  dpdk::ImpairedWay way = this->way({.corrupt_ppm = 1'000'000});
  rte_mbuf* const body = frame(60);
  int copied = 0;
  for (int i = 0; i < 64; ++i) {
    rte_mbuf* const chain = dpdk::refer(body, 40, pools_.heads[0], mbufs_);
    ASSERT_NE(chain, nullptr);
    std::memset(dpdk::data_of(chain), 0, 40);
    const auto out = way.alter(chain, room_);
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(bits_of(out[0]), 1);
    EXPECT_EQ(out[0]->pkt_len, 100U);
    EXPECT_EQ(bits_of(body), 0);
    copied += out[0]->nb_segs == 1 ? 1 : 0;
    dpdk::drop(out[0]);
  }
  EXPECT_GT(copied, 16) << "a bit of the body";
  EXPECT_LT(copied, 60) << "a bit of the head, which is private";
  EXPECT_TRUE(dpdk::writable(body));
  dpdk::drop(body);
}

TEST_F(LoopWay, ADuplicateIsAFrameOfItsOwn) {
  dpdk::ImpairedWay way = this->way({.duplicate_ppm = 1'000'000, .corrupt_ppm = 1'000'000});
  rte_mbuf* const body = frame(60);
  rte_mbuf* const chain = dpdk::refer(body, 40, pools_.heads[0], mbufs_);
  std::memset(dpdk::data_of(chain), 0, 40);
  chain->port = 7;
  const auto out = way.alter(chain, room_);
  ASSERT_EQ(out.size(), 2U);
  for (rte_mbuf* m : out) {
    EXPECT_EQ(bits_of(m), 1);
    EXPECT_EQ(m->pkt_len, 100U);
    EXPECT_EQ(m->port, 7U);
  }
  EXPECT_EQ(bits_of(body), 0);
  EXPECT_EQ(counters_.duplicated, 1U);
  EXPECT_EQ(counters_.corrupted, 2U);
  dpdk::drop(out[0]);
  dpdk::drop(out[1]);
  dpdk::drop(body);
}

TEST_F(LoopWay, WithoutAnMbufThereIsNoDuplicateAndWhatCannotBeCorruptedIsLost) {
  dpdk::ImpairedWay twice = way({.duplicate_ppm = 1'000'000});
  dpdk::ImpairedWay corrupt = way({.corrupt_ppm = 1'000'000});
  rte_mbuf* const m = frame(100);
  std::vector<rte_mbuf*> rest;
  while (rte_mbuf* other = dpdk::allocate(pools_.frames[0], mbufs_)) rest.push_back(other);
  const std::uint64_t before = mbufs_.no_mbuf;
  const auto out = twice.alter(m, room_);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0], m);
  EXPECT_EQ(counters_.duplicated, 0U);
  rte_mbuf_refcnt_update(m, 1);
  EXPECT_TRUE(corrupt.alter(m, room_).empty());
  EXPECT_EQ(counters_.corrupted, 0U);
  EXPECT_EQ(mbufs_.no_mbuf, before + 2);
  EXPECT_TRUE(dpdk::writable(m));
  dpdk::drop(m);
  for (rte_mbuf* other : rest) dpdk::drop(other);
}

TEST_F(LoopWay, OfAnEmptyFrameThereIsNoDuplicateAndNoMbufIsMissing) {
  dpdk::ImpairedWay way = this->way({.duplicate_ppm = 1'000'000, .corrupt_ppm = 1'000'000});
  rte_mbuf* const m = frame(0);
  const auto out = way.alter(m, room_);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0], m);
  EXPECT_EQ(counters_.duplicated, 0U);
  EXPECT_EQ(mbufs_.no_mbuf, 0U);
  dpdk::drop(m);
}

// What became of 2,000 numbered frames, kind by kind, in the order of the stages.
struct Fates {
  std::vector<std::vector<int>> hit{4};  // lost, doubled, bits that flipped, order of leaving
};

TEST_F(LoopWay, WhatAKindHitsDoesNotDependOnTheKindsBehindIt) {
  constexpr std::uint16_t kBytes = 64;
  const auto fates = [&](const impair::ImpairOptions& o) {
    dpdk::ImpairedWay way = this->way(o);
    Fates seen;
    std::array<rte_mbuf*, 64> left{};
    const auto note = [&](TimeNs now) {
      for (rte_mbuf* m : way.leave(now, left)) {
        seen.hit[3].push_back(m->port);
        dpdk::drop(m);
      }
    };
    for (std::uint16_t n = 0; n < 2'000; ++n) {
      const TimeNs now = n * kMicrosecond;
      rte_mbuf* const m = frame(kBytes);
      m->port = n;
      const auto out = way.alter(m, room_);
      seen.hit[0].push_back(out.empty() ? 1 : 0);
      seen.hit[1].push_back(out.size() == 2 ? 1 : 0);
      for (rte_mbuf* one : out) {
        int at = -1;  // which bit
        for (int bit = 0; bit < kBytes * 8; ++bit) {
          const auto byte = dpdk::data_of(one)[bit / 8];
          if ((std::to_integer<unsigned>(byte) >> bit % 8 & 1) != 0) at = bit;
        }
        seen.hit[2].push_back(at);
        way.hold(one, now);
      }
      note(now);
    }
    note(kSecond);
    return seen;
  };
  const impair::ImpairOptions all{.loss_ppm = 100'000,
                                  .burst = 2,
                                  .duplicate_ppm = 100'000,
                                  .reorder_ppm = 100'000,
                                  .corrupt_ppm = 100'000,
                                  .delay = 5 * kMicrosecond,
                                  .seed = 3};
  const Fates with_all = fates(all);
  impair::ImpairOptions fewer = all;
  const auto same_up_to = [&](std::size_t kinds, const char* off) {
    const Fates now = fates(fewer);
    for (std::size_t i = 0; i < kinds; ++i) EXPECT_EQ(now.hit[i], with_all.hit[i]) << off << ' ' << i;
    if (kinds < 4) {
      EXPECT_NE(now.hit[kinds], with_all.hit[kinds]) << off;
    }
  };
  fewer.delay = 0;
  same_up_to(4, "delay");
  fewer.reorder_ppm = 0;
  same_up_to(3, "reorder");
  fewer.corrupt_ppm = 0;
  same_up_to(2, "corrupt");
  fewer.duplicate_ppm = 0;
  same_up_to(1, "duplicate");
}

TEST_F(LoopWay, WhatStillWaitsIsFreedWithIt) {
  dpdk::ImpairedWay way = this->way({.reorder_ppm = 500'000, .delay = kSecond, .queue = 20});
  for (int i = 0; i < 50; ++i) way.hold(frame(60), 0);
  EXPECT_GT(way.waiting(), 20U);
  EXPECT_GT(counters_.overflow, 0U);
  EXPECT_TRUE(way.leave(0, room_).empty());
}

}  // namespace
}  // namespace tally::e2e
