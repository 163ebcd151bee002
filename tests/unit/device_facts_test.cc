#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/interface_advice.h"
#include "device/kernel_device.h"

namespace tally {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

device::KernelDevice examined(const std::string& text, std::uint32_t mtu = 1500, std::uint32_t queues = 1) {
  return device::examine_kernel_device(text, mtu, queues, 1024);
}

// The arguments that a complaint is about.
std::vector<std::string> blamed(const std::string& text, std::uint32_t mtu = 1500, std::uint32_t queues = 1) {
  std::vector<std::string> about;
  for (const device::DeviceComplaint& c : examined(text, mtu, queues).complaints) {
    EXPECT_FALSE(c.message.empty() || c.help.empty()) << text;
    about.push_back(c.about);
  }
  return about;
}

TEST(KernelDevices, OthersAreLeftAlone) {
  for (const char* text : {"net_memif0,id=1", "net_tapestry0", "0000:3b:00.0", "net_ring0", ""}) {
    EXPECT_FALSE(device::is_kernel(examined(text).kind)) << text;
    EXPECT_EQ(examined(text).device, text);
  }
  EXPECT_EQ(examined("net_tap").kind, device::DeviceKind::kTap);
}

TEST(KernelDevices, AnInterfaceHasANameThatTheKernelCanHave) {
  EXPECT_THAT(blamed("net_af_packet0"), ElementsAre(""));
  EXPECT_THAT(blamed("net_af_xdp0"), ElementsAre(""));
  EXPECT_THAT(blamed("net_tap0"), IsEmpty()) << "the driver makes one";
  EXPECT_THAT(blamed("net_af_packet0,iface=123456789012345"), IsEmpty());
  for (const char* name : {"1234567890123456", "a/b", "a:b", "..", "."})
    EXPECT_THAT(blamed("net_af_packet0,iface=" + std::string(name)), ElementsAre("iface")) << name;
}

TEST(AfPacketDevice, TheUsualRingIsLeftAsItIsUpToItsMtu) {
  for (const std::uint32_t mtu : {616U, 1500U, 1968U}) {
    const device::KernelDevice device = examined("net_af_packet0,iface=eth1", mtu);
    EXPECT_EQ(device.device, "net_af_packet0,iface=eth1");
    EXPECT_EQ(device.least_room, 2016U);
    EXPECT_EQ(device.receive_mbufs + device.transmit_mbufs, 0U);
    EXPECT_FALSE(device.umem);
  }
}

// Frames follow each other without gaps, over the ends of blocks, and blocks are whole pages.
TEST(AfPacketDevice, EveryRingThatIsMadeHoldsTheMtuAndHasNoGaps) {
  for (std::uint32_t mtu = 616; mtu <= 9198; ++mtu) {
    const device::KernelDevice device = examined("net_af_packet0,iface=eth1", mtu);
    ASSERT_THAT(device.complaints, IsEmpty()) << mtu;
    device::DeviceComplaints none;
    const device::PortDevice words = device::parse_device(device.device, none);
    const auto frame = *words.number("framesz", 0, UINT32_MAX, 2048, none);
    const auto block = *words.number("blocksz", 0, UINT32_MAX, 4096, none);
    const auto count = *words.number("framecnt", 0, UINT32_MAX, 512, none);
    ASSERT_GE(frame, mtu + 80) << mtu;
    ASSERT_EQ(frame % 16, 0U) << mtu;
    ASSERT_EQ(block % frame, 0U) << mtu;
    ASSERT_EQ(block % 4096, 0U) << mtu;
    ASSERT_EQ(count % (block / frame), 0U) << mtu;
    ASSERT_GE(count, 512U) << mtu;
    ASSERT_EQ(device.least_room, frame - 32) << mtu;
    ASSERT_THAT(examined(device.device, mtu).device, device.device) << "again it is the same";
  }
  EXPECT_EQ(examined("net_af_packet0,iface=e", 9000).device,
            "net_af_packet0,iface=e,framesz=9216,blocksz=36864");
}

// Whatever the burst: no complaint, whole blocks, the usual ring or more, and at most 32 MiB for a port's
// rings.
TEST(AfPacketDevice, ARingHoldsABurstWithinTheMemoryForIt) {
  const auto ring_for = [](std::uint32_t burst, std::uint32_t mtu = 1500, std::uint32_t queues = 1,
                           const std::string& more = "") {
    const device::KernelDevice device =
        device::examine_kernel_device("net_af_packet0,iface=e" + more, mtu, queues, 1024, burst);
    EXPECT_THAT(device.complaints, IsEmpty()) << burst;
    device::DeviceComplaints none;
    return *device::parse_device(device.device, none).number("framecnt", 0, UINT32_MAX, 512, none);
  };
  EXPECT_EQ(ring_for(0), 512U);
  EXPECT_EQ(ring_for(512), 512U);
  EXPECT_EQ(ring_for(513), 514U) << "two frames in a block";
  EXPECT_EQ(ring_for(2048), 2048U);
  EXPECT_EQ(ring_for(1'000'000), 8192U);
  EXPECT_EQ(ring_for(UINT32_MAX, 1500, 4), 2048U);
  EXPECT_EQ(ring_for(UINT32_MAX, 9000), 1820U) << "of 9 KiB, four in a block";
  EXPECT_EQ(ring_for(UINT32_MAX, 9000, 64), 512U) << "the usual ring in any case";
  EXPECT_EQ(ring_for(2048, 1500, 1, ",framecnt=64"), 64U) << "what is written is kept";
  for (const std::uint32_t burst : {1U, 777U, 5000U})
    EXPECT_EQ(ring_for(burst, 1500, 1, ",blocksz=65536") % 32, 0U) << burst;
}

TEST(AfPacketDevice, WhatIsWrittenIsKeptOrBlamed) {
  EXPECT_EQ(examined("net_af_packet0,iface=e,framesz=16384,blocksz=65536", 9000).device,
            "net_af_packet0,iface=e,framesz=16384,blocksz=65536");
  EXPECT_EQ(examined("net_af_packet0,iface=e,framesz=3072").device,
            "net_af_packet0,iface=e,framesz=3072,blocksz=12288");
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=2048", 1969), ElementsAre("framesz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=2047"), ElementsAre("framesz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=2049"), ElementsAre("framesz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=65440"), ElementsAre("framesz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=3072,blocksz=4096"), ElementsAre("blocksz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,blocksz=5000"), ElementsAre("blocksz"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framecnt=3"), ElementsAre("framecnt"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framecnt=1000000"), ElementsAre("framecnt")) << "4 GiB";
  EXPECT_THAT(blamed("net_af_packet0,iface=e,qdisc_bypass=2"), ElementsAre("qdisc_bypass"));
  EXPECT_THAT(blamed("net_af_packet0,iface=e,framesz=0x800"), ElementsAre("framesz"));
}

TEST(AfPacketDevice, PairsAreTheQueues) {
  EXPECT_EQ(examined("net_af_packet0,iface=e", 1500, 4).device, "net_af_packet0,iface=e,qpairs=4");
  EXPECT_THAT(blamed("net_af_packet0,iface=e,qpairs=4", 1500, 4), IsEmpty());
  EXPECT_THAT(blamed("net_af_packet0,iface=e,qpairs=2", 1500, 1), ElementsAre("qpairs"));
}

TEST(AfXdpDevice, WhatHasOneRightValueIsAdded) {
  const device::KernelDevice device = examined("net_af_xdp0,iface=eth1");
  EXPECT_THAT(device.complaints, IsEmpty());
  EXPECT_EQ(device.device, "net_af_xdp0,iface=eth1,busy_budget=0,force_copy=1");
  EXPECT_EQ(examined(device.device).device, device.device);
  EXPECT_EQ(examined("net_af_xdp0,iface=eth1,force_copy=0").device,
            "net_af_xdp0,iface=eth1,force_copy=0,busy_budget=0");
  EXPECT_THAT(blamed("net_af_xdp0,iface=e,busy_budget=64"), ElementsAre("busy_budget"));
  EXPECT_THAT(blamed("net_af_xdp0,iface=e,queue_count=2"), ElementsAre("queue_count"));
  EXPECT_THAT(blamed("net_af_xdp0,iface=e,shared_umem=1"), ElementsAre("shared_umem"));
  EXPECT_THAT(blamed("net_af_xdp0,iface=e", 1500, 2), ElementsAre("queues"));
}

TEST(AfXdpDevice, ItSharesTheMempoolAndKeepsMbufs) {
  const device::KernelDevice device = examined("net_af_xdp0,iface=eth1");
  EXPECT_TRUE(device.umem);
  EXPECT_EQ(device.receive_mbufs, 2048U);
  EXPECT_EQ(device.transmit_mbufs, 1024U + 2048);
  EXPECT_EQ(device.least_room, 1500U + 18 + 64 + 256);
  // A chunk has 2,048 bytes at least.
  EXPECT_EQ(examined("net_af_xdp0,iface=eth1", 616).least_room, 2048 - device::kMbufOverhead);
  EXPECT_EQ(examined("net_af_xdp0,iface=eth1", device::kMostXdpMtu).least_room, device::kMostUmemRoom);
  EXPECT_THAT(blamed("net_af_xdp0,iface=e", device::kMostXdpMtu), IsEmpty());
  EXPECT_THAT(blamed("net_af_xdp0,iface=e", device::kMostXdpMtu + 1), ElementsAre("mtu"));
}

TEST(TapDevice, Limits) {
  EXPECT_THAT(blamed("net_tap0,iface=tap0"), IsEmpty());
  EXPECT_THAT(blamed("net_tap0", 1501), ElementsAre("mtu"));
  EXPECT_THAT(blamed("net_tap0", 1500, 2), ElementsAre("queues"));
  EXPECT_EQ(examined("net_tap0").receive_mbufs, 1024U);
  EXPECT_EQ(examined("net_tap0,iface=mine").interface, "") << "it must not exist yet";
  EXPECT_EQ(examined("net_tap0,iface=mine,remote=eth1").interface, "eth1");
}

TEST(PcapDevice, Limits) {
  for (const char* good : {"rx_pcap=/a", "tx_pcap=/a", "rx_pcap=/a,tx_pcap=/b,infinite_rx=1",
                           "iface=e,phy_mac=1", "rx_iface_in=e,tx_iface=e", "rx_iface=e,tx_iface=f"})
    EXPECT_THAT(blamed("net_pcap0," + std::string(good)), IsEmpty()) << good;
  EXPECT_THAT(blamed("net_pcap0"), ElementsAre(""));
  EXPECT_THAT(blamed("net_pcap0,rx_iface=e,tx_iface=e"), ElementsAre("rx_iface"));
  EXPECT_THAT(blamed("net_pcap0,iface=e,tx_pcap=/a"), ElementsAre("iface"));
  EXPECT_THAT(blamed("net_pcap0,tx_pcap=/a,infinite_rx=1"), ElementsAre("infinite_rx"));
  EXPECT_THAT(blamed("net_pcap0,rx_pcap=/a", 1500, 2), ElementsAre("queues"));
}

const std::vector<std::string> kPresent{"lo", "eth0"};

TEST(InterfaceAdvice, AnInterfaceAsItShouldBeIsNotMentioned) {
  const device::InterfaceFacts good{.exists = true, .mtu = 1500};
  for (const char* text : {"net_af_packet0,iface=eth0", "net_af_xdp0,iface=eth0", "net_pcap0,iface=eth0"}) {
    const device::InterfaceAdvice advice = device::advise(examined(text), 1500, good, kPresent);
    EXPECT_EQ(advice.error, "");
    EXPECT_THAT(advice.warnings, IsEmpty());
  }
  EXPECT_EQ(device::advise(examined("net_tap0,iface=new"), 1500, {}, kPresent).error, "");
}

TEST(InterfaceAdvice, WhatCannotWorkIsAnError) {
  const device::KernelDevice device = examined("net_af_packet0,iface=eth7", 9000);
  EXPECT_EQ(device::advise(device, 9000, {}, kPresent).error,
            "there is no network interface eth7; there are: lo, eth0");
  EXPECT_EQ(device::advise(device, 9000, {}, {}).error,
            "there is no network interface eth7; there are: none");
  EXPECT_THAT(device::advise(device, 9000, {.exists = true, .mtu = 1500}, kPresent).error,
              HasSubstr("ip link set eth7 mtu 9000"));
}

TEST(InterfaceAdvice, WhatCostsFramesIsAWarningWithACommand) {
  const device::InterfaceFacts bad{
      .exists = true, .up = false, .mtu = 9000, .merges = true, .has_ipv4 = true, .queues = 8};
  const auto packet = device::advise(examined("net_af_packet0,iface=eth0"), 1500, bad, kPresent);
  EXPECT_EQ(packet.error, "");
  EXPECT_THAT(
      packet.warnings,
      ElementsAre(HasSubstr("ip link set eth0 up"), HasSubstr("ip link set eth0 mtu 1500"),
                  HasSubstr("ethtool -K eth0 gro off lro off"), HasSubstr("ip address flush dev eth0")));
  const auto xdp = device::advise(examined("net_af_xdp0,iface=eth0"), 1500, bad, kPresent);
  EXPECT_THAT(xdp.warnings,
              ElementsAre(HasSubstr("ip link set eth0 up"), HasSubstr("ip link set eth0 mtu 1500"),
                          HasSubstr("ethtool -L eth0 combined 1")));
  const device::InterfaceFacts apart{.exists = true, .mtu = 1500, .queues = 2, .combined = false};
  EXPECT_THAT(device::advise(examined("net_af_xdp0,iface=eth0"), 1500, apart, kPresent).warnings,
              ElementsAre(HasSubstr("ethtool -L eth0 rx 1")));
}

}  // namespace
}  // namespace tally
