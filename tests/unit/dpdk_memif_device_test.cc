#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dpdk/memif_device.h"
#include "dpdk/port.h"

namespace tally {
namespace {

using testing::HasSubstr;

constexpr std::string_view kServer = "net_memif0,role=server,id=3,socket=/run/x.sock,socket-abstract=no";

std::string mistake(const std::string& device, std::uint32_t frame_bytes = 1518) {
  const auto memif = dpdk::parse_memif(device, 1024, frame_bytes);
  return memif ? "" : memif.error().text();
}

TEST(MemifDevice, TakesTheTextApartAndAddsTheRingSize) {
  const auto memif = dpdk::parse_memif(kServer, 1024, 1518);
  ASSERT_TRUE(memif) << memif.error().text();
  EXPECT_EQ(memif->name, "net_memif0");
  EXPECT_TRUE(memif->server);
  EXPECT_FALSE(memif->abstract);
  EXPECT_EQ(memif->socket, "/run/x.sock");
  EXPECT_EQ(memif->descriptors, 1024);
  EXPECT_EQ(memif->device, std::string(kServer) + ",rsize=10");
}

TEST(MemifDevice, RingSizesArePowersOfTwoAndAtMost16384) {
  EXPECT_EQ(dpdk::parse_memif(kServer, 1000, 64)->descriptors, 512);
  EXPECT_EQ(dpdk::parse_memif(kServer, 65535, 64)->descriptors, 16384);
  EXPECT_EQ(dpdk::parse_memif(kServer, 0, 64)->descriptors, 2);
}

TEST(MemifDevice, WhatTheUserWroteStays) {
  const auto memif = dpdk::parse_memif("net_memif1,role=client,rsize=8,bsize=4096", 1024, 1518);
  ASSERT_TRUE(memif) << memif.error().text();
  EXPECT_EQ(memif->descriptors, 256);
  EXPECT_EQ(memif->device, "net_memif1,role=client,rsize=8,bsize=4096");
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = memif->device}), 256);
  EXPECT_EQ(dpdk::Port::descriptors_of({.device = "net_ring0", .descriptors = 300}), 300);
}

TEST(MemifDevice, LargeFramesGetLargeBuffers) {
  EXPECT_THAT(dpdk::parse_memif(kServer, 1024, 9018)->device, HasSubstr(",bsize=9216"));
  EXPECT_THAT(mistake(std::string(kServer) + ",bsize=2048", 9018),
              HasSubstr("bsize=2048: a buffer holds a whole frame, 9018 bytes"));
}

// The driver would ignore every argument because of one that it does not know.
TEST(MemifDevice, UnknownKeysAreRefused) {
  EXPECT_THAT(mistake("net_memif0,role=server,sock=/run/x"),
              HasSubstr("net_memif0: sock=/run/x: net_memif takes"));
  EXPECT_THAT(mistake("net_memif0,server"), HasSubstr("key=value"));
  EXPECT_THAT(mistake("net_memif0,id="), HasSubstr("key=value"));
}

TEST(MemifDevice, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(mistake("net_memif0,role=master"), HasSubstr("role is server or client"));
  EXPECT_THAT(mistake("net_memif0,rsize=1024"), HasSubstr("base-2 logarithm"));
  EXPECT_THAT(mistake("net_memif0,rsize=0"), HasSubstr("base-2 logarithm"));
  EXPECT_THAT(mistake("net_memif0,bsize=70000"), HasSubstr("1..65535"));
  EXPECT_THAT(mistake("net_memif0,socket-abstract=maybe"), HasSubstr("yes or no"));
  EXPECT_THAT(mistake("net_memif0,socket=/" + std::string(120, 'x')), HasSubstr("at most 107 bytes"));
}

}  // namespace
}  // namespace tally
