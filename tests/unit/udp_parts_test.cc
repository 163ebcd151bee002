// What transport 'udp' computes without a socket: options, addresses, batches, words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/udp.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "api/debug_log.h"
#include "tally/mtu.h"
#include "udp/udp_address.h"
#include "udp/udp_route.h"
#include "udp/udp_sender.h"
#include "udp/udp_socket.h"
#include "udp/udp_transport.h"

namespace tally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Mtu, CarriesTheElementsThatTheProtocolSays) {
  EXPECT_EQ(elements_that_fit(1500, true), 352);
  EXPECT_EQ(elements_that_fit(1500, false), 336);
  EXPECT_EQ(elements_that_fit(9000, true), 2224);
  EXPECT_EQ(elements_that_fit(kGreatestMtu, false), 2224);
  EXPECT_EQ(elements_that_fit(kLeastMtu, false), 128) << "exactly";
  EXPECT_EQ(elements_that_fit(kLeastMtu - 1, false), 112);
  EXPECT_EQ(elements_that_fit(kLeastMtu - 1, true), 128);
  EXPECT_EQ(elements_that_fit(84 + 64, true), 16);
  EXPECT_EQ(elements_that_fit(84 + 63, true), 0);
  EXPECT_EQ(elements_that_fit(0, true), 0) << "not even the headers";
}

TEST(UdpSettings, DefaultsAndEveryOption) {
  const auto none = udp::parse_settings("");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->port, 0);
  EXPECT_EQ(none->buffer, std::size_t{4} << 20);
  EXPECT_EQ(none->gso, udp::Gso::kAuto);
  EXPECT_EQ(none->busy_poll_us, 0U);
  EXPECT_EQ(none->backlog, 0U);
  const auto all = udp::parse_settings("port=20000,buffer=64KiB,backlog=128,gso=on,busy-poll=50");
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_EQ(all->port, 20'000);
  EXPECT_EQ(all->buffer, std::size_t{64} << 10);
  EXPECT_EQ(all->gso, udp::Gso::kOn);
  EXPECT_EQ(udp::parse_settings("gso=off")->gso, udp::Gso::kOff);
  EXPECT_EQ(all->busy_poll_us, 50U);
  EXPECT_EQ(all->backlog, 128U);
  EXPECT_EQ(udp::parse_settings("buffer=1GiB")->buffer, std::size_t{1} << 30);
  EXPECT_EQ(udp::parse_settings("buffer=100000")->buffer, 100'000U);
}

TEST(UdpSettings, NameEveryMistake) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"eth0", "'eth0' is not KEY=VALUE: write udp, or for example udp:buffer=8MiB"},
      {"=1", "'=1' is not KEY=VALUE"},
      {"gso=on,", ""},
      {"gso=on,,", "'' is not KEY=VALUE"},
      {"gso=yes", "gso=yes: must be on, off or auto"},
      {"port=80", "port=80: must be a number from 1024 to 65535"},
      {"port=65536", "must be a number from 1024 to 65535"},
      {"port=", "port=: must be a number"},
      {"buffer=63KiB", "buffer=63KiB: must be a size from 64KiB to 1GiB, such as 4MiB"},
      {"buffer=2GiB", "must be a size"},
      {"buffer=4MB", "must be a size"},
      {"buffer=4294967295GiB", "must be a size"},
      {"backlog=15", "backlog=15: must be a number from 16 to 16384"},
      {"busy-poll=0", "busy-poll=0: must be a number from 1 to 1000"},
      {"gro=on", "'gro' is no option of udp: there are port=, buffer=, backlog=, gso= and busy-poll="}};
  for (const auto& [text, told] : mistakes) {
    const auto settings = udp::parse_settings(text);
    if (told.empty()) {
      EXPECT_TRUE(settings) << text;
      continue;
    }
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error().where, "TALLY_TRANSPORT");
    EXPECT_THAT(settings.error().what, HasSubstr(told)) << text;
  }
}

TEST(UdpEnds, OfOneFamilyWithOrWithoutAPrefixLength) {
  const auto v4 = udp::parse_ends("10.0.0.1", "10.0.0.11/24");
  ASSERT_TRUE(v4) << v4.error().text();
  EXPECT_EQ(v4->box.text(), "10.0.0.1:48896");
  EXPECT_EQ(v4->own.text(), "10.0.0.11:0");
  const auto v6 = udp::parse_ends("fd00::1", "");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->box.text(), "[fd00::1]:48896");
  EXPECT_EQ(v6->own.family(), AF_UNSPEC);
}

TEST(UdpEnds, NameEveryMistake) {
  struct Mistake {
    const char* box;
    const char* own;
    const char* where;
    const char* told;
  };
  const std::vector<Mistake> mistakes{
      {"box", "", "TALLY_SWITCH", "'box' is not the IP address of a box"},
      {"0.0.0.0", "", "TALLY_SWITCH", "is not the IP address of a box"},
      {"239.1.2.3", "", "TALLY_SWITCH", "is not the IP address of a box"},
      {"255.255.255.255", "", "TALLY_SWITCH", "is not the IP address of a box"},
      {"ff15::1", "", "TALLY_SWITCH", "is not the IP address of a box"},
      {"::ffff:10.0.0.1", "", "TALLY_SWITCH", "is not the IP address of a box"},
      {"fe80::1", "", "TALLY_SWITCH", "is a link-local address"},
      {"10.0.0.1", "fd00::2", "TALLY_ADDRESS",
       "'fd00::2' and the box 10.0.0.1 are not both IPv4 or both IPv6"},
      {"10.0.0.1", "10.0.0", "TALLY_ADDRESS", "is not an IP address of this machine"},
      {"10.0.0.1", "0.0.0.0/0", "TALLY_ADDRESS", "is not an IP address of this machine"}};
  for (const Mistake& each : mistakes) {
    const auto ends = udp::parse_ends(each.box, each.own);
    ASSERT_FALSE(ends) << each.box << ' ' << each.own;
    EXPECT_EQ(ends.error().where, each.where);
    EXPECT_THAT(ends.error().what, HasSubstr(each.told));
  }
}

TEST(UdpAddresses, AreWhatTheyWereMadeOf) {
  const udp::UdpAddress v4(mapped({10, 0, 0, 1}), 7);
  EXPECT_TRUE(v4.ipv4());
  EXPECT_EQ(v4.ip(), mapped({10, 0, 0, 1}));
  EXPECT_TRUE(v4.same_ip(udp::UdpAddress(mapped({10, 0, 0, 1}), 8)));
  EXPECT_FALSE(v4.same_ip(udp::UdpAddress(mapped({10, 0, 0, 2}), 7)));
  Ipv6 ip{0xfd};
  ip[15] = 1;
  const udp::UdpAddress v6(ip, 7);
  EXPECT_EQ(v6.ip(), ip);
  EXPECT_FALSE(v6.same_ip(v4));
  EXPECT_FALSE(v6.same_ip(udp::UdpAddress(Ipv6{0xfd}, 7)));
}

class UdpBatch : public testing::Test {
 protected:
  void add(std::size_t bytes, std::uint16_t port = 1) {
    buffers_.emplace_back(bytes);
    batch_.add(buffers_.back(), port);
  }
  // Datagrams of each message that is left.
  [[nodiscard]] std::vector<std::size_t> counts() {
    std::vector<std::size_t> all;
    for (const mmsghdr& each : batch_.left()) all.push_back(each.msg_hdr.msg_iovlen);
    return all;
  }
  [[nodiscard]] static std::uint16_t segment(mmsghdr& message) {
    const cmsghdr* const control = CMSG_FIRSTHDR(&message.msg_hdr);
    if (control == nullptr) return 0;
    EXPECT_EQ(control->cmsg_level, IPPROTO_UDP);
    EXPECT_EQ(control->cmsg_type, UDP_SEGMENT);
    std::uint16_t size = 0;
    std::memcpy(&size, CMSG_DATA(control), sizeof size);
    return size;
  }
  [[nodiscard]] std::vector<std::uint16_t> ports() {
    std::vector<std::uint16_t> all;
    for (const mmsghdr& each : batch_.left())
      all.push_back(static_cast<const udp::UdpAddress*>(each.msg_hdr.msg_name)->port());
    return all;
  }

  std::vector<std::vector<std::byte>> buffers_;
  udp::DatagramBatch batch_{udp::UdpAddress(mapped({10, 0, 0, 1}))};
};

TEST_F(UdpBatch, PlainIsOneMessageEachInOrder) {
  add(100, 2);
  add(100, 1);
  add(100, 2);
  batch_.build(false);
  EXPECT_THAT(counts(), ElementsAre(1, 1, 1));
  EXPECT_THAT(ports(), ElementsAre(2, 1, 2));
  for (mmsghdr& each : batch_.left()) EXPECT_EQ(segment(each), 0);
}

TEST_F(UdpBatch, SegmentsAreOfOneSizeAndPortAndOnlyTheLastIsShorter) {
  add(100);
  add(100);
  add(60);   // ends the first message
  add(100);  // longer again: the next one
  add(100);
  add(200);  // longer
  batch_.build(true);
  EXPECT_THAT(counts(), ElementsAre(3, 2, 1));
  EXPECT_EQ(segment(batch_.left()[0]), 100);
  EXPECT_EQ(segment(batch_.left()[1]), 100);
  EXPECT_EQ(segment(batch_.left()[2]), 0) << "a datagram alone is not cut";
}

TEST_F(UdpBatch, SegmentsOfAPortComeTogetherAndKeepTheirOrder) {
  for (std::size_t i = 0; i < 6; ++i) add(100, static_cast<std::uint16_t>(1 + i % 2));
  batch_.build(true);
  EXPECT_THAT(counts(), ElementsAre(3, 3));
  EXPECT_THAT(ports(), ElementsAre(1, 2));
  for (std::size_t message = 0; message < 2; ++message) {
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(batch_.left()[message].msg_hdr.msg_iov[i].iov_base, buffers_[message + 2 * i].data());
  }
}

TEST_F(UdpBatch, AMessageIsToOneBoxAndEachBoxKeepsItsOrder) {
  const std::array boxes{udp::UdpAddress(mapped({10, 0, 0, 1})), udp::UdpAddress(mapped({10, 0, 0, 2})),
                         udp::UdpAddress(mapped({10, 0, 9, 1}))};
  batch_.set_boxes(boxes);
  for (std::size_t i = 0; i < 9; ++i) {
    buffers_.emplace_back(100);
    batch_.add(buffers_.back(), kBasePort, static_cast<std::uint16_t>(2 - i % 3));
  }
  batch_.build(true);
  ASSERT_THAT(counts(), ElementsAre(3, 3, 3));
  for (std::size_t message = 0; message < 3; ++message) {
    const msghdr& head = batch_.left()[message].msg_hdr;
    EXPECT_TRUE(static_cast<const udp::UdpAddress*>(head.msg_name)->same_ip(boxes[message]));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(head.msg_iov[i].iov_base, buffers_[2 - message + 3 * i].data());
  }
}

TEST_F(UdpBatch, AMessageStaysBelowWhatAnIpPacketHolds) {
  for (int i = 0; i < 32; ++i) add(8952);
  batch_.build(true);
  EXPECT_THAT(counts(), ElementsAre(7, 7, 7, 7, 4));
}

TEST_F(UdpBatch, WhatIsLeftCanBeSplit) {
  for (std::size_t i = 0; i < 6; ++i) add(100, static_cast<std::uint16_t>(1 + i % 2));
  batch_.build(true);
  EXPECT_EQ(batch_.datagrams(), 3U);
  batch_.advance();
  batch_.split();
  EXPECT_THAT(counts(), ElementsAre(1, 1, 1));
  EXPECT_THAT(ports(), ElementsAre(2, 2, 2));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(segment(batch_.left()[i]), 0);
    EXPECT_EQ(batch_.left()[i].msg_hdr.msg_iov->iov_base, buffers_[1 + 2 * i].data());
  }
  batch_.advance();
  batch_.advance();
  batch_.advance();
  EXPECT_TRUE(batch_.done());
  batch_.split();
  EXPECT_TRUE(batch_.done());
}

TEST(UdpPathErrors, ANewKindIsNewsAtMostOnceAMinute) {
  TroubleNews news;
  const std::string refused = "1 error of the path, the last: Connection refused";
  const std::string too_long = "7 errors of the path, the last: Message too long";
  EXPECT_FALSE(news.is_news("", 1 * kSecond));
  EXPECT_TRUE(news.is_news(refused, 1 * kSecond));
  EXPECT_FALSE(news.is_news("2 errors of the path, the last: Connection refused", 60 * kSecond));
  EXPECT_FALSE(news.is_news(too_long, 60 * kSecond)) << "too early";
  EXPECT_FALSE(news.is_news("2 errors of the path, the last: Connection refused", 61 * kSecond));
  EXPECT_TRUE(news.is_news(too_long, 61 * kSecond));
  EXPECT_FALSE(news.is_news("99 errors of the path, the last: Message too long", 600 * kSecond));
  EXPECT_FALSE(news.is_news("", 600 * kSecond));
  EXPECT_TRUE(news.is_news(refused, 600 * kSecond));
}

TEST(UdpPathErrors, AreCountedAndSaidWithWhatToDo) {
  udp::PathErrors errors;
  const udp::UdpAddress box(mapped({10, 0, 0, 1}));
  EXPECT_EQ(errors.text(box), "");
  errors.note(ECONNREFUSED);
  EXPECT_THAT(errors.text(box), HasSubstr("1 error of the path, the last: Connection refused (the machine at "
                                          "10.0.0.1 is there, but no box listens on it"));
  errors.note(EMSGSIZE);
  EXPECT_THAT(errors.text(box), HasSubstr("2 errors of the path, the last: Message too long"));
  EXPECT_THAT(errors.text(box), HasSubstr("lower TALLY_MTU"));
  EXPECT_FALSE(errors.take_queued());
  errors.expect_queued();
  EXPECT_TRUE(errors.take_queued());
  EXPECT_FALSE(errors.take_queued());
}

// How much of the window may wait for the wire: docs/udp.md.

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
