// The box's answers to ping.

#include "l2_packets.h"
#include "rng.h"

namespace tally::l2_test {
namespace {

// 10.0.0.10 pings 10.0.0.1: id abcd, number 7, 9 bytes of data.
const Bytes kEcho = packet(
    "020000000001 02000000000a 0800  45 10 0025 1234 0000 21 01 738a 0a00000a 0a000001"
    "08 00 7ee3 abcd 0007  6f6464206461746121");
const Bytes kReply = packet(
    "02000000000a 020000000001 0800  45 10 0025 0000 4000 40 01 26be 0a000001 0a00000a"
    "00 00 86e3 abcd 0007  6f6464206461746121");
constexpr std::size_t kIp = 14, kIcmp = 34;
// With a right header checksum.
Bytes ip(std::size_t at, std::string_view hex) {
  return summed(with(kEcho, kIp + at, hex), kIp, kIp + 10, 0, 20);
}
Bytes icmp(std::size_t at, std::string_view hex) {
  return summed(with(kEcho, kIcmp + at, hex), kIcmp, kIcmp + 2);
}

// The same over IPv6, from fd00::a to fd00::1.
const Bytes kEcho6 = packet(
    "020000000001 02000000000a 86dd  62012345 0011 3a 07"
    "fd00000000000000000000000000000a fd000000000000000000000000000001"
    "80 00 0c8b abcd 0007  6f6464206461746121");
const Bytes kReply6 = packet(
    "02000000000a 020000000001 86dd  62012345 0011 3a 40"
    "fd000000000000000000000000000001 fd00000000000000000000000000000a"
    "81 00 0b8b abcd 0007  6f6464206461746121");
constexpr std::size_t kSource6 = kIp + 8, kIcmp6 = kIp + 40;
Bytes summed6(const Bytes& b) {
  const std::size_t bytes = b.size() - kIcmp6;
  return summed(b, kIcmp6, kIcmp6 + 2,
                internet_sum(std::span(b).subspan(kSource6, 32)) + static_cast<std::uint32_t>(bytes) + 58);
}

TEST(L2Echo, AnEchoRequestIsAnswered) { expect_answer(kEcho, l2::SwitchFate::kEchoAnswered, kReply); }
TEST(L2Echo, AnEchoRequestOverIpv6IsAnswered) {
  expect_answer(kEcho6, l2::SwitchFate::kEchoAnswered, kReply6);
}

TEST(L2Echo, TheTagIsKept) {
  expect_answer(tagged(kEcho), l2::SwitchFate::kEchoAnswered, tagged(kReply));
  expect_answer(tagged(kEcho6), l2::SwitchFate::kEchoAnswered, tagged(kReply6));
}

TEST(L2Echo, PaddingIsNoPartOfThePacket) {
  Bytes padded = kEcho;
  padded.resize(60, std::byte{0xEE});
  expect_answer(padded, l2::SwitchFate::kEchoAnswered, cut(kReply, 60));
  padded = kEcho6;
  padded.resize(90, std::byte{0xEE});
  expect_answer(padded, l2::SwitchFate::kEchoAnswered, kReply6);
}

// The reply's checksums over whatever it carries, up to a jumbo frame.
TEST(L2Echo, EveryLengthGetsARightChecksum) {
  Rng rng(1);
  for (std::size_t data : {0U, 1U, 2U, 3U, 1'471U, 1'472U, 8'972U}) {
    for (int round = 0; round < 20; ++round) {
      Bytes request = cut(kEcho, kIcmp + 8 + data);
      for (std::size_t i = kIcmp + 4; i < request.size(); ++i)
        request[i] = round == 0 ? std::byte{0} : static_cast<std::byte>(rng.below(256));
      const std::size_t total = 28 + data;
      request[kIp + 2] = static_cast<std::byte>(total >> 8);
      request[kIp + 3] = static_cast<std::byte>(total);
      request = summed(summed(request, kIp, kIp + 10, 0, 20), kIcmp, kIcmp + 2);
      const Asked a = ask(request);
      ASSERT_EQ(a.kind, l2::Answer::Kind::kAnswer) << data << ' ' << l2::name_of(a.fate);
      const Bytes reply = packet(a.frame);
      EXPECT_EQ(folded(internet_sum(std::span(reply).subspan(kIp, 20))), 0xFFFF);
      EXPECT_TRUE(reply == summed(reply, kIcmp, kIcmp + 2)) << data;
      EXPECT_TRUE(std::equal(request.begin() + kIcmp + 4, request.end(), reply.begin() + kIcmp + 4));

      Bytes six = cut(kEcho6, kIcmp6 + 8 + data);
      std::copy(request.begin() + kIcmp + 4, request.end(), six.begin() + kIcmp6 + 4);
      six[kIp + 4] = static_cast<std::byte>((8 + data) >> 8);
      six[kIp + 5] = static_cast<std::byte>(8 + data);
      const Asked b = ask(summed6(six));
      ASSERT_EQ(b.kind, l2::Answer::Kind::kAnswer) << data << ' ' << l2::name_of(b.fate);
      EXPECT_TRUE(b.frame == hex_of(summed6(packet(b.frame)))) << data;
    }
  }
}

TEST(L2Echo, WhatIsMalformedIsDroppedByName) {
  for (std::size_t length = kIp; length < kIp + 20; ++length)
    expect_dropped(cut(kEcho, length), l2::SwitchFate::kRunt);
  for (std::size_t length = kIp + 20; length < kEcho.size(); ++length)
    expect_dropped(cut(kEcho, length), l2::SwitchFate::kLength);
  expect_dropped(ip(2, "001b"), l2::SwitchFate::kRunt);
  expect_dropped(ip(2, "0000"), l2::SwitchFate::kRunt);
  expect_dropped(ip(2, "0026"), l2::SwitchFate::kLength);
  expect_dropped(ip(0, "55"), l2::SwitchFate::kIpHeader);
  expect_dropped(ip(0, "44"), l2::SwitchFate::kIpHeader);
  expect_dropped(ip(0, "46"), l2::SwitchFate::kIpOptions);
  expect_dropped(ip(6, "2000"), l2::SwitchFate::kFragment);
  expect_dropped(ip(6, "0001"), l2::SwitchFate::kFragment);
  expect_dropped(with(kEcho, kIp + 10, "738b"), l2::SwitchFate::kIpHeader);
  expect_dropped(with(kEcho, kIcmp + 2, "7ee4"), l2::SwitchFate::kChecksum);
  expect_dropped(with(kEcho, kEcho.size() - 1, "22"), l2::SwitchFate::kChecksum);
  expect_dropped(icmp(1, "01"), l2::SwitchFate::kIcmp);
}

TEST(L2Echo, WhatIsMalformedOverIpv6IsDroppedByName) {
  for (std::size_t length = kIp; length < kIcmp6; ++length)
    expect_dropped(cut(kEcho6, length), l2::SwitchFate::kRunt);
  for (std::size_t length = kIcmp6; length < kEcho6.size(); ++length)
    expect_dropped(cut(kEcho6, length), l2::SwitchFate::kLength);
  expect_dropped(with(kEcho6, kIp + 4, "0007"), l2::SwitchFate::kRunt);
  expect_dropped(with(kEcho6, kIp + 4, "0012"), l2::SwitchFate::kLength);
  expect_dropped(with(kEcho6, kIp, "42"), l2::SwitchFate::kIpHeader);
  expect_dropped(with(kEcho6, kIp + 6, "2c"), l2::SwitchFate::kFragment);
  for (const char* next : {"00", "2b", "33", "3c"})
    expect_dropped(with(kEcho6, kIp + 6, next), l2::SwitchFate::kIpOptions);
  expect_dropped(with(kEcho6, kIcmp6 + 2, "0c8c"), l2::SwitchFate::kChecksum);
  expect_dropped(summed6(with(kEcho6, kIcmp6 + 1, "01")), l2::SwitchFate::kIcmp);
}

TEST(L2Echo, SomeSourcesGetNoAnswer) {
  for (const char* source : {"00000000", "7f000001", "e0000001", "ffffffff", "0a000001"})
    expect_dropped(ip(12, source), l2::SwitchFate::kAsker);
  for (const char* source : {"00000000000000000000000000000000", "00000000000000000000000000000001",
                             "ff020000000000000000000000000001", "fd000000000000000000000000000001",
                             "00000000000000000000ffff0a00000a"})
    expect_dropped(summed6(with(kEcho6, kSource6, source)), l2::SwitchFate::kAsker);
}

TEST(L2Echo, GroupsAreNotAnswered) {
  expect_none(with(kEcho, 0, "ffffffffffff"));
  expect_none(with(with(kEcho, 0, "ffffffffffff"), kIp + 16, "0a0000ff"));
  expect_none(with(kEcho, 0, "01005e000001"));
  expect_dropped(ip(16, "0a0000ff"), l2::SwitchFate::kNotServed);
  expect_dropped(ip(16, "e0000001"), l2::SwitchFate::kNotServed);
  expect_none(with(kEcho6, 0, "333300000001"));
  expect_none(with(kEcho6, 0, "ffffffffffff"));
  const Bytes solicited = with(kEcho6, kSource6 + 16, "ff0200000000000000000001ff000001");
  expect_dropped(summed6(solicited), l2::SwitchFate::kNotServed);
  expect_none(summed6(with(solicited, 0, "3333ff000001")));
  expect_none(with(kEcho6, 0, "3333ff000001"));  // the box's own address in a group's frame
}

TEST(L2Echo, NothingElseIsServed) {
  expect_dropped(ip(16, "0a000002"), l2::SwitchFate::kNotServed);
  expect_dropped(ip(9, "06"), l2::SwitchFate::kNotServed);
  expect_dropped(icmp(0, "00"), l2::SwitchFate::kNotServed);
  expect_dropped(icmp(0, "03"), l2::SwitchFate::kNotServed);
  expect_dropped(with(kEcho6, kSource6 + 31, "02"), l2::SwitchFate::kNotServed);
  expect_dropped(with(kEcho6, kIp + 6, "06"), l2::SwitchFate::kNotServed);
  expect_dropped(summed6(with(kEcho6, kIcmp6, "81")), l2::SwitchFate::kNotServed);
  expect_dropped(kEcho, l2::SwitchFate::kNotServed, {.mac = kBox.mac, .ipv6 = kBox.ipv6});
  expect_dropped(kEcho6, l2::SwitchFate::kNotServed, {.mac = kBox.mac, .ipv4 = kBox.ipv4});
  expect_dropped(ip(16, "00000000"), l2::SwitchFate::kNotServed, {.mac = kBox.mac});
}

}  // namespace
}  // namespace tally::l2_test
