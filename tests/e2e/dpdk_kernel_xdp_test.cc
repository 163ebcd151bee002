// net_af_xdp on a veth, alone and together with others. Its driver keeps 2,048 mbufs from the beginning, and
// does not give them back when it is closed.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "dpdk_kernel_bed.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr unsigned kKept = 2048;  // of each port

dpdk::PortOptions xdp_on(const std::string& interface, const std::string& number, std::uint16_t mtu = 1500) {
  return {.name = interface, .device = "net_af_xdp" + number + ",iface=" + interface, .mtu = mtu};
}

// Another process of this program that runs one test, until that says that it holds its ports. Killed at the
// end.
class KilledHolder {
 public:
  explicit KilledHolder(const std::string& test) {
    std::array<int, 2> out{};
    TALLY_CHECK(pipe(out.data()) == 0, "a pipe is made");
    const std::string filter = "--gtest_filter=" + test;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      setenv("TALLY_TEST_IN_NAMESPACE", "1", 1);
      execl("/proc/self/exe", "holder", filter.c_str(), "--gtest_also_run_disabled_tests", nullptr);
      _exit(127);
    }
    close(out[1]);
    std::string said;
    for (char byte = 0; said.find("holding") == std::string::npos && read(out[0], &byte, 1) == 1;)
      said += byte;
    held_ = said.find("holding") != std::string::npos;
    close(out[0]);
  }
  KilledHolder(const KilledHolder&) = delete;
  KilledHolder& operator=(const KilledHolder&) = delete;
  ~KilledHolder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    // The kernel frees the interface's queue a little later than the process (xp_put_pool() leaves it to a
    // work queue), and nothing shows when. Here a port is opened within microseconds of the death.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  [[nodiscard]] bool held() const noexcept { return held_; }

 private:
  pid_t pid_ = -1;
  bool held_ = false;
};

class AfXdp : public KernelPorts {};

TEST_F(AfXdp, FramesOfEverySizeArriveWholeBothWays) {
  make_veth("ax0", 1500);
  const Wire wire("ax0-w");
  const dpdk::Port port = open(xdp_on("ax0", "0"));
  EXPECT_FALSE(port.traits().segments);
  for (const std::size_t bytes : {60U, 61U, 64U, 1000U, 1513U, 1514U}) carries(port, wire, bytes);
  for (const std::size_t bytes : {64U, 1518U}) carries(port, wire, bytes, true);
  EXPECT_TRUE(in_use_becomes({&port}, kKept));
}

TEST_F(AfXdp, TheLargestFramesArriveWhole) {
  make_veth("ax1", device::kMostXdpMtu);
  const Wire wire("ax1-w");
  const dpdk::Port port = open(xdp_on("ax1", "0", device::kMostXdpMtu));
  carries(port, wire, device::kMostXdpMtu + 14);
  carries(port, wire, device::kMostXdpMtu + 18, true);
}

TEST_F(AfXdp, ABurstThatTheRingsDoNotHoldLosesItsEndAndNoMbuf) {
  make_veth("ax2", 1500);
  const Wire wire("ax2-w");
  const dpdk::Port port = open(xdp_on("ax2", "0"));
  for (int i = 0; i < 3000; ++i) wire.send(test_frame(100, static_cast<std::uint8_t>(i)));
  const std::size_t arrived = receive_copies(port, 3000).size();
  EXPECT_GE(arrived, 1024U);
  EXPECT_LT(arrived, 3000U);
  EXPECT_TRUE(in_use_becomes({&port}, kKept));
  carries(port, wire, 300);
  // The other way what is sent has left when the call returns.
  std::size_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<rte_mbuf*> burst;
    for (int k = 0; k < 32; ++k) burst.push_back(mbuf_of(test_frame(100, 1)));
    sent += send_all(port, burst);
  }
  EXPECT_EQ(sent + counters_.refused, 3200U);
  EXPECT_EQ(wire.receive(sent).size(), sent);
  EXPECT_TRUE(in_use_becomes({&port}, kKept));
}

// The driver sends from the very mbuf, which other ports may send as well.
TEST_F(AfXdp, OneMbufLeavesOnSeveralPortsAndOutlivesAll) {
  make_veth("ax3", 1500);
  make_veth("ax4", 1500);
  make_veth("ax5", 1500);
  const dpdk::PortOptions packet{.name = "ax5", .device = "net_af_packet9,iface=ax5"};
  make_pools_for({xdp_on("ax3", "0"), xdp_on("ax4", "1"), packet});
  const Wire w3("ax3-w");
  const Wire w4("ax4-w");
  const Wire w5("ax5-w");
  const dpdk::Port p3 = open(xdp_on("ax3", "0"));
  const dpdk::Port p4 = open(xdp_on("ax4", "1"));
  const dpdk::Port p5 = open(packet);
  const auto frame = test_frame(1400, 9);
  // Received on one, sent on all, each with a reference of its own.
  w3.send(frame);
  const auto arrived = receive_some(p3, 1);
  ASSERT_EQ(arrived.size(), 1U);
  rte_mbuf* const m = arrived[0];
  EXPECT_TRUE(dpdk::writable(m));
  rte_mbuf_refcnt_update(m, 3);
  EXPECT_EQ(send_all(p3, {m}), 1U);
  EXPECT_EQ(send_all(p4, {m}), 1U);
  EXPECT_EQ(send_all(p5, {m}), 1U);
  EXPECT_THAT(w3.receive(1), testing::ElementsAre(frame));
  EXPECT_THAT(w4.receive(1), testing::ElementsAre(frame));
  EXPECT_THAT(w5.receive(1), testing::ElementsAre(frame));
  for (int i = 0; i < 100 && !dpdk::writable(m); ++i)
    static_cast<void>(in_use_becomes({&p3, &p4}, 2 * kKept + 1));
  EXPECT_TRUE(dpdk::writable(m));
  EXPECT_TRUE(std::equal(frame.begin(), frame.end(), dpdk::data_of(m)));
  dpdk::drop(m);
  EXPECT_TRUE(in_use_becomes({&p3, &p4, &p5}, 2 * kKept));
}

TEST_F(AfXdp, FramesPassFromPortToPort) {
  make_veth("ax6", 1500);
  make_veth("ax7", 1500);
  const dpdk::PortOptions packet{.name = "ax7", .device = "net_af_packet9,iface=ax7"};
  make_pools_for({xdp_on("ax6", "0"), packet});
  const Wire w6("ax6-w");
  const Wire w7("ax7-w");
  const dpdk::Port p6 = open(xdp_on("ax6", "0"));
  const dpdk::Port p7 = open(packet);
  for (int i = 0; i < 200; ++i) {
    const bool there = i % 2 == 0;
    const auto frame = test_frame(64 + static_cast<std::size_t>(i) * 7, static_cast<std::uint8_t>(i));
    (there ? w6 : w7).send(frame);
    auto burst = receive_some(there ? p6 : p7, 1);
    ASSERT_EQ(burst.size(), 1U);
    ASSERT_EQ(send_all(there ? p7 : p6, burst), 1U);
    ASSERT_THAT((there ? w7 : w6).receive(1), testing::ElementsAre(frame));
  }
  EXPECT_TRUE(in_use_becomes({&p6, &p7}, kKept));
}

// DPDK 22.11 keeps the queue of the interface until the process ends.
TEST_F(AfXdp, AnInterfaceIsOpenedOnceInAProcess) {
  make_veth("ax8", 1500);
  static_cast<void>(open(xdp_on("ax8", "0")));
  const auto again = dpdk::Port::open(xdp_on("ax8", "0"), frames());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().text(), testing::HasSubstr("ax8 was a port of this process before"));
}

TEST_F(AfXdp, AnInterfaceThatGoesDownTakesFramesWithItAndComesBack) {
  make_veth("ax9", 1500);
  const Wire wire("ax9-w");
  const dpdk::Port port = open(xdp_on("ax9", "0"));
  ip("link set ax9 down");
  for (int i = 0; i < 100; ++i) {
    std::vector<rte_mbuf*> burst;
    for (int k = 0; k < 32; ++k) burst.push_back(mbuf_of(test_frame(100, 1)));
    static_cast<void>(send_all(port, burst));
  }
  EXPECT_GT(counters_.refused, 0U);
  ip("link set ax9 up");
  EXPECT_TRUE(in_use_becomes({&port}, kKept));
  static_cast<void>(wire.receive(3200, std::chrono::seconds(1)));
  comes_back(port, wire);
  carries(port, wire, 500);
}

// A veth counts its queues apart, most cards together.
TEST_F(AfXdp, QueuesThatAreNotReadAreWarnedOf) {
  make_veth("ax10", 1500);
  ASSERT_EQ(std::system("ethtool -L ax10 rx 2 tx 2"), 0);
  const dpdk::Port port = open(xdp_on("ax10", "0"));
  EXPECT_THAT(logged_lines(), testing::Contains(testing::HasSubstr("ethtool -L ax10 rx 1")));
}

// What the other process of the test below is killed in.
TEST_F(AfXdp, DISABLED_HoldsAPortUntilItIsKilled) {
  make_pools_for({xdp_on("axb", "0"), {.name = "axc", .device = "net_af_packet9,iface=axc"}});
  const dpdk::Port xdp = open(xdp_on("axb", "0"));
  const dpdk::Port packet = open({.name = "axc", .device = "net_af_packet9,iface=axc"});
  std::printf("holding\n");
  std::fflush(stdout);
  for (;;) pause();
}

// The XDP program of a killed process stays on the interface; the next one takes it over.
TEST_F(AfXdp, PortsOfAKilledProcessCanBeOpenedAndCarryFrames) {
  make_veth("axb", 1500);
  make_veth("axc", 1500);
  {
    const KilledHolder holder("AfXdp.DISABLED_HoldsAPortUntilItIsKilled");
    ASSERT_TRUE(holder.held());
  }
  const Wire wb("axb-w");
  const Wire wc("axc-w");
  const dpdk::PortOptions packet{.name = "axc", .device = "net_af_packet9,iface=axc"};
  make_pools_for({xdp_on("axb", "0"), packet});
  const dpdk::Port p = open(xdp_on("axb", "0"));
  const dpdk::Port q = open(packet);
  carries(p, wb, 1514);
  carries(q, wc, 1514);
}

TEST_F(AfXdp, AMempoolThatTheKernelCannotShareIsRefusedByName) {
  make_veth("axa", 1500);
  const auto pools = small_pools(4095, 63, 9088);
  const auto port = dpdk::Port::open(xdp_on("axa", "0"), pools.frames[0]);
  ASSERT_FALSE(port);
  EXPECT_THAT(port.error().text(), testing::HasSubstr("af_xdp shares those of 2,048 to 4,096"));
}

}  // namespace
}  // namespace tally::e2e
