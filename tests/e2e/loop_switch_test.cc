// The box as a switch, with the real loop on ring ports.

#include <gtest/gtest.h>

#include <cstring>

#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_switch_rig.h"
#include "tally/net.h"

namespace tally::e2e {
namespace {

class LoopSwitch : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};
class LoopSwitchForms : public LoopSwitch, public testing::WithParamInterface<SwitchCase> {};

constexpr Mac kGroup{0x01, 0, 0x5e, 0, 0, 9};
const Mac kA = host_mac(1), kB = host_mac(2);

TEST_P(LoopSwitchForms, LearnsFloodsAndForwardsAndNeverBack) {
  SwitchRig rig(GetParam());
  const auto queue = static_cast<std::uint16_t>(GetParam().up - 1);
  EXPECT_EQ(rig.ports_of(0, plain_frame(kB, kA), queue), "1 2 3") << "nobody knows B";
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB), 0), "0");
  EXPECT_EQ(rig.ports_of(0, plain_frame(kB, kA), 0), "1");
  EXPECT_EQ(rig.ports_of(3, plain_frame(kB, host_mac(4)), queue), "1");
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB, 1'514), queue), "0");
  EXPECT_EQ(rig.plane().hosts(), 3U);
  EXPECT_EQ(rig.ports_of(2, plain_frame(kBroadcastMac, host_mac(3)), queue), "0 1 3");
  EXPECT_EQ(rig.ports_of(2, plain_frame(kGroup, host_mac(3)), 0), "0 1 3");
  EXPECT_EQ(rig.ports_of(1, plain_frame(host_mac(4), kA), queue), "3") << "A moves";
  EXPECT_EQ(rig.ports_of(3, plain_frame(kA, host_mac(4)), 0), "1");
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB), queue), "") << "they are behind one port";
  EXPECT_EQ(rig.ports_of(1, plain_frame({0x01, 0x80, 0xC2, 0, 0, 0}, kB), 0), "") << "spanning tree";
  const l2::SwitchCounters c = rig.counters();
  EXPECT_EQ(c.of(l2::SwitchFate::kForwarded), 6U);
  EXPECT_EQ(c.of(l2::SwitchFate::kFlooded), 3U);
  EXPECT_EQ(c.of(l2::SwitchFate::kFiltered), 1U);
  EXPECT_EQ(c.of(l2::SwitchFate::kReserved), 1U);
  EXPECT_EQ(c.copies.get(), 9U);
  EXPECT_EQ(c.learned.get(), 4U);
  EXPECT_EQ(c.moved.get(), 1U);
  rig.expect_clean();
}

TEST_P(LoopSwitchForms, ABurstOfFloodsLosesNothing) {
  SwitchRig rig(GetParam());
  std::size_t arrived = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::uint8_t p = 0; p < 4; ++p)
      for (std::uint8_t i = 0; i < 8; ++i)
        rig.send(p, plain_frame(kBroadcastMac, host_mac(p), 60U + i), i % GetParam().up, 1U + i % 2);
    rig.turn();
    for (std::size_t p = 0; p < 4; ++p) {
      for (const Bytes& frame : rig.received(p)) {
        ++arrived;
        EXPECT_NE(frame[11], static_cast<std::byte>(p)) << "a frame came back";
        EXPECT_TRUE(frame == plain_frame(kBroadcastMac, host_mac(std::to_integer<std::uint8_t>(frame[11])),
                                         frame.size()));
      }
    }
  }
  EXPECT_EQ(arrived, 20U * 32 * 3);
  EXPECT_EQ(rig.counters().copies.get(), arrived);
  rig.expect_clean();
}

TEST_P(LoopSwitchForms, JumboFramesInSeveralSegmentsPass) {
  SwitchCase c = GetParam();
  c.mtus = {9'000, 9'000, 9'000, 1'500};
  c.frame_room = 9'216;
  c.frame_mbufs = 128;
  SwitchRig rig(c);
  const auto queue = static_cast<std::uint16_t>(c.up - 1);
  const Bytes jumbo = plain_frame(kB, kA, 9'014);
  EXPECT_EQ(rig.ports_of(0, jumbo, queue, 3), "1 2") << "the last port's MTU is 1500";
  EXPECT_EQ(rig.counters().not_flooded.get(), 1U);
  EXPECT_EQ(rig.ports_of(3, plain_frame(kA, host_mac(4)), 0), "0");
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB, 9'014), queue, 2), "0");
  EXPECT_EQ(rig.segments_received(), c.segments ? 2U : 1U);
  EXPECT_EQ(rig.ports_of(0, plain_frame(host_mac(4), kA, 1'515), 0), "") << "too long for its port";
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kTooLong), 1U);
  EXPECT_EQ(rig.ports_of(0, plain_frame(host_mac(4), kA, 1'514), 0, 2), "3");
  Bytes tagged = plain_frame(host_mac(4), kA, 1'518);
  tagged[12] = std::byte{0x81};
  tagged[13] = std::byte{0};
  EXPECT_EQ(rig.ports_of(0, tagged, 0), "3") << "a tag does not count";
  rig.expect_clean();
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LoopSwitchForms,
    testing::Values(SwitchCase{.name = "RingPorts"}, SwitchCase{.name = "SharingPorts", .copies = true},
                    SwitchCase{.name = "NoSegments", .segments = false, .copies = true},
                    SwitchCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2, .copies = true},
                    SwitchCase{.name = "TwoCoresOneQueue", .cores = 2, .up = 2},
                    SwitchCase{.name = "TwoCoresOneQueueShared", .cores = 2, .up = 2, .copies = true}),
    [](const auto& one) { return one.param.name; });

TEST_F(LoopSwitch, AHostThatIsSilentIsForgotten) {
  SwitchRig rig({.name = "Ageing", .ports = 3});
  EXPECT_EQ(rig.ports_of(0, plain_frame(kBroadcastMac, kA)), "1 2");
  rig.set_time(300 * kSecond);
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB)), "0");
  rig.set_time(400 * kSecond);
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB)), "0 2");
  EXPECT_EQ(rig.plane().hosts(), 1U);
  rig.expect_clean();
}

TEST_F(LoopSwitch, OneCoresHostsAreKnownToTheOther) {
  SwitchRig rig({.name = "Shared", .cores = 2, .ports = 3, .up = 2, .down = 2});
  EXPECT_EQ(rig.ports_of(0, plain_frame(kBroadcastMac, kA), 1), "1 2");
  EXPECT_EQ(rig.ports_of(2, plain_frame(kA, kB), 0), "0");
  EXPECT_EQ(rig.plane().core(0).statistics.l2.of(l2::SwitchFate::kForwarded), 1U);
  EXPECT_EQ(rig.plane().core(1).statistics.l2.of(l2::SwitchFate::kFlooded), 1U);
  rig.expect_clean();
}

// Ring ports need a copy each, but the last one.
TEST_F(LoopSwitch, AnEmptyMempoolCostsCopiesAndNothingElse) {
  SwitchRig rig({.name = "Exhausted", .frame_mbufs = 3});
  const Bytes frame = plain_frame(kBroadcastMac, kA);
  rig.send(0, frame);
  rig.send(0, frame);
  rig.turn();
  EXPECT_EQ(rig.sum(&io::CoreStatistics::no_mbuf), 1U);
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kFlooded), 2U);
  EXPECT_EQ(rig.counters().copies.get(), 5U);
  EXPECT_EQ(rig.received(1).size() + rig.received(2).size() + rig.received(3).size(), 5U);
  EXPECT_EQ(rig.ports_of(0, frame), "1 2 3") << "as soon as mbufs are back";
  rig.expect_clean();
}

TEST_F(LoopSwitch, AQuestionInPiecesThatFindsNoMbufIsCounted) {
  SwitchRig rig({.name = "Pieces", .frame_mbufs = 1});
  const Bytes frame = plain_frame(loop_box().mac, kA, 100);
  rig.send(0, plain_frame(kBroadcastMac, kA));
  rig.turn();  // one copy is on the wire
  rig.send(0, frame, 0, 2);
  rig.turn();
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kNoMbuf), 1U);
  for (std::size_t p = 1; p < 4; ++p) static_cast<void>(rig.received(p));
  rig.send(0, frame, 0, 2);
  rig.turn();
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kNotServed), 1U);
  Bytes large = plain_frame(loop_box().mac, kA, 2'400);
  rig.send(0, large, 0, 2);
  rig.turn();
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kTooLong), 1U);
  rig.expect_clean();
}

TEST_F(LoopSwitch, LossOnPurposeAppliesToWhatIsForwarded) {
  const impair::ImpairOptions loss{.loss_ppm = 300'000, .seed = 5};
  SwitchRig rig({.name = "Loss", .copies = true, .impair = {loss, loss}});
  for (int i = 0; i < 100; ++i) rig.send(0, plain_frame(kBroadcastMac, kA));
  rig.turn();
  std::size_t arrived = 0;
  for (std::size_t p = 1; p < 4; ++p) arrived += rig.received(p).size();
  EXPECT_EQ(arrived + rig.sum(&io::CoreStatistics::impaired_out), rig.counters().copies.get());
  EXPECT_GT(rig.sum(&io::CoreStatistics::impaired_out), 0U);
  rig.expect_clean();
}

// Who has the box's address? A asks.
Bytes arp_request() {
  Bytes frame = plain_frame(kBroadcastMac, kA, 42);
  const std::array<std::uint8_t, 10> head{8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
  std::memcpy(frame.data() + 12, head.data(), head.size());
  std::memcpy(frame.data() + 22, kA.data(), 6);
  const Ipv4 sender{10, 0, 1, 77};
  std::memcpy(frame.data() + 28, sender.data(), 4);
  std::memcpy(frame.data() + 38, loop_box().ipv4.data(), 4);
  return frame;
}

struct AnswerCase {
  l2::BoxMode mode;
  std::uint16_t queue;
  std::size_t segments;
};

// Also by a core that has no transmit queue, also to who asks in pieces.
TEST_F(LoopSwitch, TheBoxAnswersForItsAddressWhereItIsAsked) {
  for (const AnswerCase& c :
       {AnswerCase{l2::BoxMode::kInline, 0, 1}, AnswerCase{l2::BoxMode::kInline, 1, 2},
        AnswerCase{l2::BoxMode::kOneArm, 0, 2}, AnswerCase{l2::BoxMode::kOneArm, 1, 1}}) {
    SwitchRig rig({.name = "Answers", .mode = c.mode, .cores = 2, .up = 2});
    rig.send(1, arp_request(), c.queue, c.segments);
    rig.turn();
    const auto replies = rig.received(1);
    ASSERT_EQ(replies.size(), 1U);
    ASSERT_EQ(replies[0].size(), 42U);
    EXPECT_EQ(std::memcmp(replies[0].data(), kA.data(), 6), 0);
    EXPECT_EQ(std::memcmp(replies[0].data() + 22, loop_box().mac.data(), 6), 0);
    for (const std::size_t p : {0U, 2U, 3U}) EXPECT_TRUE(rig.received(p).empty());
    EXPECT_EQ(rig.counters().of(l2::SwitchFate::kArpAnswered), 1U);
    EXPECT_EQ(rig.plane().hosts(), c.mode == l2::BoxMode::kInline ? 1U : 0U);
    rig.expect_clean();
  }
}

TEST_F(LoopSwitch, OneArmForwardsNothing) {
  SwitchRig rig({.name = "OneArm", .mode = l2::BoxMode::kOneArm});
  EXPECT_EQ(rig.ports_of(0, plain_frame(kBroadcastMac, kA)), "");
  EXPECT_EQ(rig.ports_of(1, plain_frame(kA, kB)), "");
  EXPECT_EQ(rig.ports_of(1, plain_frame(kGroup, kB)), "");
  EXPECT_EQ(rig.ports_of(1, plain_frame(loop_box().mac, kB)), "");
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kNotForUs), 3U);
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kNotServed), 1U);
  EXPECT_EQ(rig.plane().hosts(), 0U);
  EXPECT_EQ(rig.sum(&io::CoreStatistics::frames_out), 0U);
  rig.expect_clean();
}

TEST_F(LoopSwitch, WhatIsWrongIsDroppedByName) {
  SwitchRig rig({.name = "Wrong"});
  const auto dropped = [&](const Bytes& frame, l2::SwitchFate why) {
    const std::uint64_t before = rig.counters().of(why);
    EXPECT_EQ(rig.ports_of(0, frame), "") << l2::name_of(why);
    EXPECT_EQ(rig.counters().of(why), before + 1) << l2::name_of(why);
  };
  dropped(plain_frame(kB, loop_box().mac), l2::SwitchFate::kOwnSource);
  dropped(plain_frame(kB, kGroup), l2::SwitchFate::kSource);
  dropped(plain_frame(kB, {}), l2::SwitchFate::kSource);
  dropped(plain_frame(loop_box().mac, kA), l2::SwitchFate::kNotServed);
  Bytes short_arp = arp_request();
  short_arp.resize(41);
  dropped(short_arp, l2::SwitchFate::kRunt);
  EXPECT_EQ(rig.plane().hosts(), 1U);
  rig.expect_clean();
}

TEST_F(LoopSwitch, WhatIsTooShortToBeSentIsARunt) {
  SwitchRig rig({.name = "Short"});
  for (const std::size_t bytes : {14U, 15U, 16U})
    for (const Mac& to : {kBroadcastMac, kB, loop_box().mac})
      EXPECT_EQ(rig.ports_of(0, plain_frame(to, kA, bytes)), "") << bytes;
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kRunt), 9U);
  EXPECT_EQ(rig.plane().hosts(), 0U);
  EXPECT_EQ(rig.ports_of(0, plain_frame(kBroadcastMac, kA, 17)), "1 2 3");
  rig.expect_clean();
}

// A ping of A to the box, with this many bytes behind the Ethernet header.
Bytes echo_request(std::uint16_t bytes) {
  Bytes frame = plain_frame(loop_box().mac, kA, 14U + bytes);
  const auto put16 = [&](std::size_t at, std::uint32_t value) {
    frame[at] = static_cast<std::byte>(value >> 8);
    frame[at + 1] = static_cast<std::byte>(value);
  };
  const auto put_sum = [&](std::size_t at, std::size_t from, std::size_t length) {
    put16(at, 0);
    put16(at, 0xFFFFU & ~folded(internet_sum({frame.data() + from, length})));
  };
  const std::array<std::uint8_t, 16> ip{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 1, 77};
  put16(12, kEtherIpv4);
  std::memcpy(frame.data() + 14, ip.data(), ip.size());
  put16(16, bytes);
  std::memcpy(frame.data() + 30, loop_box().ipv4.data(), 4);
  put_sum(24, 14, 20);
  put16(34, 0x0800);
  put_sum(36, 34, bytes - 20U);
  return frame;
}

TEST_F(LoopSwitch, AnAnswerLongerThanThePortsMtuIsNotSent) {
  SwitchRig rig({.name = "LongPing"});
  rig.send(1, echo_request(1'501));
  rig.turn();
  EXPECT_TRUE(rig.received(1).empty());
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kTooLong), 1U);
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kEchoAnswered), 0U);
  rig.send(1, echo_request(1'500));
  rig.turn();
  EXPECT_EQ(rig.received(1).size(), 1U);
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kEchoAnswered), 1U);
  rig.expect_clean();
}

// A reply of A that says it has the box's address, to whoever.
Bytes arp_claim(const Mac& to, bool tagged) {
  Bytes frame = arp_request();
  std::memcpy(frame.data(), to.data(), 6);
  frame[21] = std::byte{2};
  std::memcpy(frame.data() + 28, loop_box().ipv4.data(), 4);
  constexpr std::array<std::byte, 4> kTag{std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{9}};
  if (tagged) frame.insert(frame.begin() + 12, kTag.begin(), kTag.end());
  return frame;
}

TEST_F(LoopSwitch, ArpThatClaimsTheBoxsAddressReachesNobody) {
  SwitchRig rig({.name = "Claims"});
  EXPECT_EQ(rig.ports_of(1, plain_frame(kBroadcastMac, kB)), "0 2 3");
  std::uint64_t claims = 0;
  for (const Mac& to : {kB, host_mac(9), kGroup, kBroadcastMac, loop_box().mac}) {
    for (const bool tagged : {false, true}) {
      for (const std::size_t segments : {1U, 2U}) {
        EXPECT_EQ(rig.ports_of(0, arp_claim(to, tagged), 0, segments), "") << tagged << segments;
        EXPECT_EQ(rig.counters().of(l2::SwitchFate::kConflict), ++claims);
      }
    }
  }
  Bytes other = arp_claim(kB, false);
  other[31] ^= std::byte{1};
  EXPECT_EQ(rig.ports_of(0, other), "1") << "what others say of themselves passes";
  rig.expect_clean();
}

TEST_F(LoopSwitch, ABoxWithOnePortFloodsToNobody) {
  SwitchRig rig({.name = "Alone", .ports = 1});
  EXPECT_EQ(rig.ports_of(0, plain_frame(kBroadcastMac, kA)), "");
  EXPECT_EQ(rig.counters().of(l2::SwitchFate::kFlooded), 1U);
  EXPECT_EQ(rig.counters().copies.get(), 0U);
  rig.expect_clean();
}

}  // namespace
}  // namespace tally::e2e
