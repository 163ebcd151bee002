// The trace of a data core: every frame once, as it came and as it left, with what became of it; it disturbs
// nobody, and its memory lives as long as a core may look at it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "io/data_plane.h"
#include "loop_eal.h"
#include "loop_rack.h"
#include "tally/wire.h"

namespace tally::e2e {
namespace {

class LoopTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

struct TraceSeen {
  std::map<Verdict, std::uint64_t> in;
  std::map<Drop, std::uint64_t> dropped;
  std::uint64_t out = 0;
  std::map<PacketType, std::uint64_t> types_in, types_out;
  bool other_jobs = false;

  void read(Rack& rack) {
    constexpr std::size_t kHeaderAt = 14 + 20 + 8;  // these racks speak IPv4 without tags
    io::TracedFrame frame;
    while (rack.plane().next_traced(frame)) {
      ASSERT_LE(frame.captured, frame.length);
      ASSERT_EQ(frame.captured, std::min<std::size_t>(frame.length, io::kTraceBytes));
      if (frame.captured >= kHeaderAt + kHeaderBytes)
        ++(frame.out ? types_out : types_in)[wire_at<Header>(frame.bytes.data() + kHeaderAt).type];
      if (frame.job != 0 && frame.job != raw(rack.job())) other_jobs = true;
      if (frame.out)
        ++out;
      else if (frame.verdict == Verdict::kDrop)
        ++dropped[frame.drop];
      else
        ++in[frame.verdict];
    }
  }
};

TEST_F(LoopTrace, EveryFrameIsThereOnceAsItCameAndAsItLeft) {
  Rack rack({.name = "Traced",
             .cores = 2,
             .up = 2,
             .down = 2,
             .impair = {.in = {.duplicate_ppm = 100'000, .seed = 3}},
             .host = {.stray_every = 5},
             .operations = 6,
             .largest = 20'000});
  ASSERT_TRUE(rack.plane().begin_trace({}).has_value());
  TraceSeen seen;
  EXPECT_TRUE(rack.run([&] { seen.read(rack); }));
  seen.read(rack);
  EXPECT_EQ(rack.plane().trace_lost(), 0U);
  for (const Verdict v :
       {Verdict::kAbsorb, Verdict::kComplete, Verdict::kRepeat, Verdict::kHandOver, Verdict::kPunt})
    EXPECT_EQ(seen.in[v], rack.count(v)) << name_of(v);
  EXPECT_GT(seen.in[Verdict::kComplete], 100U);
  for (const Drop d : {Drop::kStale, Drop::kDuplicate, Drop::kReplay, Drop::kJob})
    EXPECT_EQ(seen.dropped[d], rack.count(d)) << name_of(d);
  EXPECT_FALSE(seen.dropped.empty());
  EXPECT_EQ(seen.out, rack.sum(&io::CoreStatistics::frames_out));
  // The packet that completes a chunk is rewritten in place: what is shown is what came.
  EXPECT_EQ(seen.types_in[PacketType::kResult], 0U);
  EXPECT_GT(seen.types_in[PacketType::kContribute], 0U);
  EXPECT_GT(seen.types_out[PacketType::kResult], 0U);
  EXPECT_EQ(seen.types_out[PacketType::kContribute], 0U);
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
}

TEST_F(LoopTrace, AFilterLetsByWhatFits) {
  const auto seen_of = [](const io::TraceFilter& filter, auto check) {
    Rack rack({.name = "Filtered",
               .impair = {.in = {.duplicate_ppm = 100'000, .seed = 3}},
               .host = {.stray_every = 5},
               .operations = 4,
               .largest = 20'000});
    io::TraceFilter wish = filter;
    if (wish.job) wish.job = rack.job();
    ASSERT_TRUE(rack.plane().begin_trace(wish).has_value());
    TraceSeen seen;
    EXPECT_TRUE(rack.run([&] { seen.read(rack); }));
    seen.read(rack);
    check(rack, seen);
    rack.settle();
    rack.expect_right_sums();
  };
  seen_of({.way = io::TraceWay::kOut}, [](Rack&, TraceSeen& seen) {
    EXPECT_GT(seen.out, 0U);
    EXPECT_TRUE(seen.in.empty() && seen.dropped.empty());
  });
  seen_of({.way = io::TraceWay::kIn, .every = 10}, [](Rack& rack, TraceSeen& seen) {
    EXPECT_EQ(seen.out, 0U);
    std::uint64_t all = 0;
    for (const auto& [verdict, n] : seen.in) all += n;
    for (const auto& [drop, n] : seen.dropped) all += n;
    std::uint64_t counted = 0;
    for (std::size_t v = 1; v < kVerdictCount; ++v) counted += rack.count(static_cast<Verdict>(v));
    for (std::size_t d = 0; d < kDropCount; ++d) counted += rack.count(static_cast<Drop>(d));
    EXPECT_EQ(all, counted / 10);
  });
  seen_of({.any_drop = true}, [](Rack&, TraceSeen& seen) {
    EXPECT_TRUE(seen.in.empty());
    EXPECT_EQ(seen.out, 0U);
    EXPECT_FALSE(seen.dropped.empty());
  });
  seen_of({.job = JobId{1}}, [](Rack& rack, TraceSeen& seen) {
    EXPECT_FALSE(seen.other_jobs);
    EXPECT_EQ(seen.in[Verdict::kAbsorb], rack.count(Verdict::kAbsorb));
    EXPECT_GT(seen.types_out[PacketType::kResult], 0U);
  });
}

TEST_F(LoopTrace, WhatNobodyReadsIsCountedAndDelaysNobody) {
  Rack rack({.name = "Unread", .operations = 8});
  ASSERT_TRUE(rack.plane().begin_trace({}).has_value());
  EXPECT_FALSE(rack.plane().begin_trace({}).has_value()) << "one at a time";
  EXPECT_TRUE(rack.run());
  TraceSeen seen;
  seen.read(rack);
  EXPECT_GT(rack.plane().trace_lost(), 1'000U);
  EXPECT_EQ(seen.out + rack.plane().trace_lost() + seen.in[Verdict::kAbsorb] + seen.in[Verdict::kComplete] +
                seen.in[Verdict::kPunt],
            rack.sum(&io::CoreStatistics::frames_in) + rack.sum(&io::CoreStatistics::frames_out));
  rack.plane().end_trace();
  EXPECT_TRUE(rack.plane().begin_trace({}).has_value());
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
}

// Taps come and go while the cores run on threads of their own.
TEST_F(LoopTrace, TracesComeAndGoUnderLoad) {
  Rack rack({.name = "Threads", .cores = 2, .up = 2, .down = 2});
  TraceSeen seen;
  int traces = 0;
  int turn = 0;
  EXPECT_TRUE(rack.run_threads([&] {
    seen.read(rack);
    if (++turn % 8 == 0) rack.plane().end_trace();
    if (turn % 8 == 4) traces += rack.plane().begin_trace({.every = 3}).has_value() ? 1 : 0;
  }));
  rack.plane().end_trace();
  EXPECT_GT(traces, 3);
  EXPECT_GT(seen.out, 0U);
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
}

}  // namespace
}  // namespace tally::e2e
