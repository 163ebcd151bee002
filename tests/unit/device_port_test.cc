// The texts of devices, and what a memif must say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/memif_device.h"
#include "device/port_device.h"

namespace tally {
namespace {

using device::DeviceKind;
using device::MemifEnd;
using testing::HasSubstr;
using testing::IsEmpty;

device::PortDevice parsed(std::string_view text) {
  device::DeviceComplaints complaints;
  device::PortDevice device = device::parse_device(text, complaints);
  EXPECT_THAT(complaints, IsEmpty()) << text;
  EXPECT_EQ(device.kind, device::kind_of(text));
  return device;
}

TEST(PortDevices, KindNameAndArguments) {
  const auto memif = parsed("net_memif3,role=server,id=3,socket=/run/tally/a.sock,socket-abstract=no");
  EXPECT_EQ(memif.kind, DeviceKind::kMemif);
  EXPECT_EQ(memif.name, "net_memif3");
  EXPECT_EQ(memif.find("id")->value, "3");
  EXPECT_EQ(memif.find("id")->offset, 23U);
  EXPECT_FALSE(memif.has("bsize"));
  EXPECT_EQ(memif.for_driver(), memif.text);
  for (const char* pci : {"0000:3b:00.0", "3b:00.0", "0000:3B:00.0,some-arg=1"}) {
    EXPECT_EQ(parsed(pci).kind, DeviceKind::kPci);
    EXPECT_EQ(parsed(pci).name, "0000:3b:00.0");
  }
  EXPECT_EQ(parsed("net_ring0").kind, DeviceKind::kRing);
  EXPECT_EQ(parsed("net_null12,size=64,copy=1").kind, DeviceKind::kNull);
  EXPECT_EQ(parsed("net_memif").kind, DeviceKind::kMemif);
}

TEST(PortDevices, NameWhatIsWrong) {
  for (const char* bad : {"", ",", "eth0", "net_ring0,", "net_ring0,x", "net_ring0,=",
                          "net_ring0,nodeaction=", "net_ring0,nodeaction=a,nodeaction=b", "net_ring0,size=64",
                          "net_ringx", "3b:00.8", "3b:00", "0000:3g:00.0", "net_tun0", "0000:3b:00.0,x"}) {
    device::DeviceComplaints complaints;
    static_cast<void>(device::parse_device(bad, complaints));
    ASSERT_FALSE(complaints.empty()) << bad;
    EXPECT_FALSE(complaints.front().message.empty() || complaints.front().help.empty()) << bad;
  }
}

constexpr std::string_view kServer = "net_memif0,role=server,id=3,socket=/run/x.sock,socket-abstract=no";

device::MemifDevice examined_memif(std::string_view text, std::uint32_t mtu = 1500,
                                   std::uint32_t descriptors = 1024, MemifEnd end = MemifEnd::kAny) {
  device::MemifDevice memif = device::examine_memif_device(text, end, mtu, descriptors);
  EXPECT_THAT(memif.complaints, IsEmpty()) << text;
  return memif;
}

// Of the first complaint.
std::string mistake(std::string_view text, std::uint32_t mtu = 1500, MemifEnd end = MemifEnd::kAny) {
  const auto complaints = device::examine_memif_device(text, end, mtu, 1024).complaints;
  return complaints.empty() ? "" : complaints.front().message + ": " + complaints.front().help;
}

TEST(MemifDevices, TheTextIsTakenApartAndTheRingSizeAdded) {
  const auto memif = examined_memif(kServer);
  EXPECT_EQ(memif.name, "net_memif0");
  EXPECT_EQ(memif.id, 3U);
  EXPECT_TRUE(memif.server);
  EXPECT_FALSE(memif.abstract);
  EXPECT_EQ(memif.socket, "/run/x.sock");
  EXPECT_EQ(memif.descriptors, 1024);
  EXPECT_EQ(memif.device, std::string(kServer) + ",rsize=10");
}

TEST(MemifDevices, RingSizesArePowersOfTwoAndAtMost16384) {
  EXPECT_EQ(examined_memif(kServer, 64, 1000).descriptors, 512);
  EXPECT_EQ(examined_memif(kServer, 64, 65535).descriptors, 16384);
  EXPECT_EQ(examined_memif(kServer, 64, 0).descriptors, 2);
}

TEST(MemifDevices, WhatTheUserWroteStays) {
  const auto memif = examined_memif("net_memif1,role=client,rsize=8,bsize=4096");
  EXPECT_EQ(memif.descriptors, 256);
  EXPECT_EQ(memif.device, "net_memif1,role=client,rsize=8,bsize=4096");
}

TEST(MemifDevices, LargeFramesGetLargeBuffers) {
  EXPECT_THAT(examined_memif(kServer, 9000).device, HasSubstr(",bsize=9216"));
  EXPECT_THAT(mistake(std::string(kServer) + ",bsize=2048", 9000),
              HasSubstr("bsize is 2048, but a frame of mtu 9000 has 9018 bytes"));
  EXPECT_EQ(mistake(std::string(kServer) + ",bsize=2048", 2030), "");
  EXPECT_THAT(mistake(kServer, 2031, MemifEnd::kBox), HasSubstr("write bsize=9216")) << "a box says so";
}

// The driver would ignore every argument because of one that it does not know.
TEST(MemifDevices, UnknownKeysAreRefused) {
  EXPECT_THAT(mistake("net_memif0,role=server,sock=/run/x"), HasSubstr("net_memif has no argument 'sock'"));
  EXPECT_THAT(mistake("net_memif0,server"), HasSubstr("key=value"));
  EXPECT_THAT(mistake("net_memif0,id="), HasSubstr("key=value"));
}

TEST(MemifDevices, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(mistake("net_memif0,role=master"), HasSubstr("write server or client"));
  EXPECT_THAT(mistake("net_memif0,rsize=1024"), HasSubstr("from 1 to 14"));
  EXPECT_THAT(mistake("net_memif0,rsize=0"), HasSubstr("from 1 to 14"));
  EXPECT_THAT(mistake("net_memif0,bsize=70000"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(mistake("net_memif0,id=4294967296"), HasSubstr("from 0 to 4294967295"));
  EXPECT_THAT(mistake("net_memif0,socket-abstract=maybe"), HasSubstr("yes or no"));
  EXPECT_THAT(mistake("net_memif0,secret=123456789012345678901234"), HasSubstr("at most 23"));
  EXPECT_EQ(mistake("net_memif0,mac=02:00:00:aB:0f:01,secret=12345678901234567890123"), "");
  for (const char* mac : {"02-00-00-00-00-01", "02:00:00:00:00", "02:00:00:00:00:0g", "00:00:00:00:00:00",
                          "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:001"})
    EXPECT_THAT(mistake("net_memif0,mac=" + std::string(mac)), HasSubstr("MAC")) << mac;
}

TEST(MemifDevices, ASocketsNameEndsInTime) {
  const auto named = [](std::size_t length) { return "net_memif0,socket=/" + std::string(length - 1, 'x'); };
  EXPECT_EQ(mistake(named(106)), "");
  EXPECT_THAT(mistake(named(107)), HasSubstr("at most 106"));
  EXPECT_EQ(mistake(named(107) + ",socket-abstract=no"), "");
  EXPECT_THAT(mistake(named(108) + ",socket-abstract=no"), HasSubstr("at most 107"));
}

TEST(MemifDevices, TheBoxIsTheServerAndItsWorkersAreTheClients) {
  EXPECT_EQ(mistake(kServer, 1500, MemifEnd::kBox), "");
  EXPECT_THAT(mistake("net_memif0,role=client", 1500, MemifEnd::kBox), HasSubstr("write role=server"));
  EXPECT_THAT(mistake("net_memif0", 1500, MemifEnd::kBox), HasSubstr("role is missing"));
  EXPECT_THAT(mistake("net_memif0,role=server,socket=x,socket-abstract=no", 1500, MemifEnd::kBox),
              HasSubstr("not an absolute path"));
  EXPECT_THAT(mistake(kServer, 1500, MemifEnd::kWorker), HasSubstr("write role=client"));
  EXPECT_EQ(mistake("net_memif0", 1500, MemifEnd::kWorker), "");
  EXPECT_EQ(mistake("net_memif0,role=client,zero-copy=no", 1500, MemifEnd::kWorker), "");
  EXPECT_THAT(mistake("net_memif0,zero-copy=yes", 1500, MemifEnd::kWorker), HasSubstr("not in this version"));
  EXPECT_THAT(mistake("net_memif0,role=server,zero-copy=yes", 1500, MemifEnd::kBox),
              HasSubstr("does nothing"));
}

}  // namespace
}  // namespace tally
