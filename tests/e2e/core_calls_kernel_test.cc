// The same on ports of the kernel, which cannot do without calls: at most two for each burst received.

#include <gtest/gtest.h>

#include <cstdio>

#include "core_calls_rig.h"
#include "dpdk_namespace.h"
#include "loop_eal.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr std::uint64_t kWarmUp = 2'000;
constexpr std::uint64_t kPackets = 20'000;
constexpr std::uint32_t kWindow = 64;  // no more than the port's ring and the socket's buffer hold
constexpr double kMostCallsPerBurst = 2;

class KernelCoreCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
  static void expect_few_calls(const std::string& driver, const std::string& interface) {
    make_veth(interface, 1500);
    const dpdk::PortOptions options{.name = "box", .device = driver + "0,iface=" + interface};
    CoreCallsRig rig(1, ResultsMode::kUnicast, dpdk::Port::needs_of(options));
    auto box = dpdk::Port::open(options, rig.box_pool());
    ASSERT_TRUE(box) << box.error().text();
    const std::string why = rig.start({.box = std::move(*box), .members = socket_end(interface + "-w")});
    if (!why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(rig.play(kWarmUp, kWindow)) << "no answers";
    const std::uint64_t bursts = rig.bursts();
    begin_counting();
    const bool played = rig.play(kPackets, kWindow);
    const WatchedCounts counts = end_counting();
    const auto per_burst =
        static_cast<double>(counts.system_calls) / static_cast<double>(rig.bursts() - bursts);
    ASSERT_TRUE(played) << "no answers";
    std::printf("%s: %.2f calls per burst, %.1f frames per burst (%s)\n", driver.c_str(), per_burst,
                static_cast<double>(kPackets) / static_cast<double>(rig.bursts() - bursts),
                counts.names.c_str());
    EXPECT_GT(counts.system_calls, 0U) << "the watch sees nothing";
    EXPECT_LE(per_burst, kMostCallsPerBurst) << counts.names;
    EXPECT_EQ(counts.allocations, 0U) << counts.names;
    EXPECT_EQ(counts.locks, 0U) << counts.names;
    rig.finish();
  }
};

TEST_F(KernelCoreCalls, AfPacketTakesAtMostTwoCallsPerBurst) { expect_few_calls("net_af_packet", "callsp"); }

TEST_F(KernelCoreCalls, AfXdpTakesAtMostTwoCallsPerBurst) { expect_few_calls("net_af_xdp", "callsx"); }

}  // namespace
}  // namespace tally::e2e
