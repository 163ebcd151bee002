// The same with the daemon's threads, in real time: data cores on EAL's lcores, the hosts in one thread,
// control in another.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_rack.h"

namespace tally::e2e {
namespace {

class LoopThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};
class LoopThreadsCases : public LoopThreads, public testing::WithParamInterface<RackCase> {};

void expect_right_and_clean(Rack& rack) {
  rack.settle();
  rack.expect_right_sums();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
}

TEST_P(LoopThreadsCases, EverySumIsRightAndEveryMbufComesBack) {
  Rack rack(GetParam());
  EXPECT_TRUE(rack.run_threads()) << "the workers did not finish";
  expect_right_and_clean(rack);
  for (std::size_t c = 0; c < rack.plane().cores(); ++c) {
    EXPECT_GT(rack.plane().core(c).statistics.turns, 0U);
    EXPECT_GT(rack.plane().core(c).statistics.busy_cycles, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LoopThreadsCases,
    testing::Values(
        RackCase{.name = "OneCore", .operations = 12},
        RackCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2},
        RackCase{.name = "TwoCoresOneQueue", .cores = 2, .operations = 12},
        RackCase{.name = "ThreeCoresTwoQueues", .cores = 3, .up = 2, .down = 2, .operations = 12},
        RackCase{.name = "PoolsWithCaches",
                 .cores = 2,
                 .up = 2,
                 .down = 2,
                 .frame_mbufs = 4'096,
                 .head_mbufs = 4'096},
        RackCase{.name = "Loss", .cores = 2, .up = 2, .down = 2, .loss_ppm = 50'000, .operations = 8},
        RackCase{.name = "Copies", .cores = 2, .up = 2, .down = 2, .segments = false, .operations = 12},
        RackCase{.name = "SharedFrames",
                 .cores = 2,
                 .up = 2,
                 .down = 2,
                 .host = {.share_every = 7, .stray_every = 5},
                 .operations = 8},
        RackCase{.name = "Multicast", .cores = 2, .up = 2, .down = 2, .multicast = true, .operations = 12},
        RackCase{.name = "MulticastIdentical",
                 .cores = 2,
                 .up = 2,
                 .down = 2,
                 .copies = true,
                 .multicast = true,
                 .operations = 12},
        RackCase{
            .name = "JumboIpv6", .elements = 2'224, .ipv6 = true, .worker_mbufs = 1'024, .operations = 8}),
    [](const auto& one) { return one.param.name; });

// A core that is asleep still takes up publications, injected frames and its own port's.
TEST_F(LoopThreads, ASleepingCoreWakesForEverything) {
  Rack rack({.name = "Asleep", .operations = 2});
  ASSERT_TRUE(rack.plane().start().has_value());
  while (rack.plane().core(0).statistics.sleeps < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  rack.plane().publish({.version = 1'000, .table = std::make_shared<const jobs::JobTable>()});
  while (rack.plane().adopted() != 1'000) std::this_thread::yield();
  jobs::Binding to = loop_binding(0, jobs::kUntagged, false);
  to.port = PortIndex{0};
  const std::array<std::byte, 64> datagram{};
  ASSERT_TRUE(rack.plane().inject(to, datagram));
  while (rack.plane().core(0).statistics.frames_out == 0) std::this_thread::yield();
  rack.plane().stop();
  EXPECT_EQ(rack.plane().core(0).statistics.sent_for, 1U);
  rack.settle();
  rack.expect_all_mbufs_back();
}

TEST_F(LoopThreads, StoppedInTheMiddleNothingIsLostAndItGoesOn) {
  Rack rack({.name = "Stop", .cores = 2, .up = 2, .down = 2, .host = {.stray_every = 3}});
  for (const std::uint64_t results : {200U, 400U, 600U}) {
    EXPECT_FALSE(rack.run_threads([&] {
      if (rack.sum(&io::CoreStatistics::results) >= results) rack.interrupt();
    })) << "stopped too late";
  }
  EXPECT_TRUE(rack.run_threads());
  expect_right_and_clean(rack);
}

TEST_F(LoopThreads, AJobIsWithdrawnAndDeclaredAnewWhileItsTrafficRuns) {
  Rack rack({.name = "Anew", .cores = 2, .up = 2, .down = 2, .host = {.stray_every = 3}});
  constexpr std::uint32_t kTimes = 3;
  for (std::uint16_t r = 0; r < 4; ++r) rack.worker(r).start_over_when_aborted();
  std::uint32_t times = 0;
  std::uint64_t results = 100;
  EXPECT_TRUE(rack.run_threads([&] {
    const std::uint64_t so_far = rack.sum(&io::CoreStatistics::results);
    if (times == kTimes || so_far < results) return;
    ++times;
    results = so_far + 100;
    rack.control().withdraw(rack.config().name);
    rack.control().declare(rack.config());
  }));
  EXPECT_EQ(times, kTimes);
  expect_right_and_clean(rack);
  for (const JobId job : rack.control().jobs()) {
    for (std::size_t c = 0; c < 2; ++c) EXPECT_EQ(rack.plane().core(c).state(job).occupancy.get(), 0U);
  }
}

TEST_F(LoopThreads, AnLcoreThatDoesNotExistIsAnErrorAndNothingRuns) {
  Rack rack({.name = "TooMany", .cores = kDataCores + 1, .up = kDataCores + 1, .down = kDataCores + 1});
  const auto started = rack.plane().start();
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(started.error().what.find("lcore 4 does not exist"), std::string::npos) << started.error().what;
  EXPECT_TRUE(rack.run());  // in this thread
  expect_right_and_clean(rack);
}

}  // namespace
}  // namespace tally::e2e
