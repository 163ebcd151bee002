// How much of the window may wait for the wire: docs/udp.md.
#include <gtest/gtest.h>

#include "udp/udp_sender.h"

namespace tally {
namespace {

constexpr std::uint32_t kBurst = 32;

// A link that carries `per_ms`: the socket is full whenever a burst more has left. The limit after `bursts`.
std::uint32_t after(udp::SendBacklog& backlog, TimeNs begun, std::uint32_t per_ms, int bursts = 1000) {
  static std::uint64_t sent = 0;
  for (int i = 1; i <= bursts; ++i) {
    const auto n = static_cast<std::uint64_t>(i) * kBurst;
    backlog.full(begun + n * kMillisecond / per_ms, sent += kBurst);
  }
  return backlog.limit();
}

TEST(UdpBacklog, OfASlowLinkIsTwoBurstsWhateverTheWindow) {
  for (const std::uint32_t window : {64U, 256U, 16'384U}) {
    udp::SendBacklog backlog;
    backlog.start(window);
    EXPECT_EQ(backlog.limit(), udp::kLeastBacklog);
    EXPECT_EQ(after(backlog, kSecond, 8), udp::kLeastBacklog);        // 100 Mbit/s at MTU 1500
    EXPECT_EQ(after(backlog, kSecond * 60, 16), udp::kLeastBacklog);  // 200
    EXPECT_EQ(after(backlog, kSecond * 120, 1, 10),
              udp::kLeastBacklog);  // longer between bursts than is measured
  }
}

TEST(UdpBacklog, OfAFastLinkIsWhatLeavesInAMillisecond) {
  udp::SendBacklog backlog;
  backlog.start(16'384);
  EXPECT_EQ(after(backlog, kSecond, 83), 128U);    // 1 Gbit/s
  EXPECT_EQ(after(backlog, kSecond, 830), 1024U);  // 10
  backlog.start(256);
  EXPECT_EQ(after(backlog, kSecond, 830), 256U);  // never more than the window
}

TEST(UdpBacklog, AWindowSmallerThanTwoBurstsIsTheLimit) {
  udp::SendBacklog backlog;
  backlog.start(16);
  EXPECT_EQ(after(backlog, kSecond, 830), 16U);
}

TEST(UdpBacklog, WhoHasNoWindowHasNoLimit) {
  udp::SendBacklog backlog;
  backlog.start(0);
  EXPECT_EQ(after(backlog, kSecond, 8), 0U);
}

TEST(UdpBacklog, BecomesSmallerWhenTheLinkIsFourTimesSlower) {
  udp::SendBacklog backlog;
  backlog.start(16'384);
  EXPECT_EQ(after(backlog, kSecond, 830), 1024U);
  EXPECT_EQ(after(backlog, 2 * kSecond, 500), 1024U);
  EXPECT_EQ(after(backlog, 4 * kSecond, 200), 256U);
}

TEST(UdpBacklog, APauseIsNotTakenForASlowLink) {
  udp::SendBacklog backlog;
  backlog.start(1024);
  EXPECT_EQ(after(backlog, kSecond, 830), 1024U);
  EXPECT_EQ(after(backlog, 20 * kSecond, 830, 1), 1024U);
}

TEST(UdpBacklog, ItsMemoryIsCountedAsTheKernelDoes) {
  EXPECT_EQ(udp::send_buffer_of(64, 1464), 64U * (2048 + 256) / 2);
  EXPECT_EQ(udp::send_buffer_of(64, 8952), 64U * (16'384 + 256) / 2);
}

}  // namespace
}  // namespace tally
