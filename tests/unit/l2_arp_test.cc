// The box's answers to ARP requests.

#include "l2_packets.h"

namespace tally::l2_test {
namespace {

// Who has 10.0.0.1? Tell 10.0.0.10, which is at 02:00:00:00:00:0a.
const Bytes kRequest = packet(
    "ffffffffffff 02000000000a 0806  0001 0800 06 04 0001  02000000000a 0a00000a 000000000000 0a000001");
const Bytes kArpReply = packet(
    "02000000000a 020000000001 0806  0001 0800 06 04 0002  020000000001 0a000001 02000000000a 0a00000a");
constexpr std::size_t kOperation = 20, kSenderMac = 22, kSender = 28, kArpTarget = 38;

TEST(L2Arp, ARequestIsAnswered) { expect_answer(kRequest, l2::SwitchFate::kArpAnswered, kArpReply); }

TEST(L2Arp, ARequestToTheBoxsMacIsAnswered) {
  expect_answer(with(kRequest, 0, "020000000001"), l2::SwitchFate::kArpAnswered, kArpReply);
}

TEST(L2Arp, TheTagIsKept) {
  expect_answer(tagged(kRequest), l2::SwitchFate::kArpAnswered, tagged(kArpReply));
}

TEST(L2Arp, APaddedRequestGetsAPaddedReplyOfZeros) {
  Bytes request = kRequest;
  request.resize(60, std::byte{0xEE});
  expect_answer(request, l2::SwitchFate::kArpAnswered, cut(kArpReply, 60));
  request.resize(90, std::byte{0xEE});
  expect_answer(request, l2::SwitchFate::kArpAnswered, cut(kArpReply, 60));
}

// RFC 5227: the sender's address is not his yet.
TEST(L2Arp, AProbeIsAnswered) {
  expect_answer(with(kRequest, kSender, "00000000"), l2::SwitchFate::kArpAnswered,
                with(kArpReply, kArpTarget, "00000000"));
}

TEST(L2Arp, TheReplyGoesToTheMacInThePacket) {
  expect_answer(with(kRequest, kSenderMac, "02000000000b"), l2::SwitchFate::kArpAnswered,
                with(with(kArpReply, 0, "02000000000b"), 32, "02000000000b"));
}

TEST(L2Arp, WhatIsForOthersIsLeftToTheSwitch) {
  expect_none(with(kRequest, kArpTarget, "0a000002"));
  expect_none(with(kRequest, kOperation, "0002"));  // a gratuitous reply
  expect_none(with(kRequest, 14, "0006"));          // not Ethernet
  expect_none(with(kRequest, 16, "86dd"));
  expect_none(with(kRequest, 18, "08"));
  expect_none(with(kRequest, 19, "10"));
  expect_none(with(kRequest, 0, "020000000002"));
  expect_none(with(kRequest, 0, "01005e000001"));
  expect_none(kRequest, {.mac = kBox.mac, .ipv6 = kBox.ipv6});
  expect_none(with(kRequest, kArpTarget, "00000000"), {.mac = kBox.mac, .ipv6 = kBox.ipv6});
}

TEST(L2Arp, WhatIsForTheBoxAndNoRequestForItsAddressIsNotServed) {
  const Bytes unicast = with(kRequest, 0, "020000000001");
  expect_dropped(with(unicast, kArpTarget, "0a000002"), l2::SwitchFate::kNotServed);
  expect_dropped(with(unicast, kOperation, "0002"), l2::SwitchFate::kNotServed);
  expect_dropped(with(unicast, kOperation, "0003"), l2::SwitchFate::kNotServed);
  expect_dropped(with(unicast, 14, "0006"), l2::SwitchFate::kNotServed);
  expect_dropped(unicast, l2::SwitchFate::kNotServed, {.mac = kBox.mac});
}

TEST(L2Arp, WhatIsMalformedIsDroppedByName) {
  for (std::size_t length = 14; length < kRequest.size(); ++length)
    expect_dropped(cut(kRequest, length), l2::SwitchFate::kRunt);
  for (std::size_t length = 18; length < kRequest.size() + 4; ++length)
    expect_dropped(cut(tagged(kRequest), length), l2::SwitchFate::kRunt);
  expect_dropped(with(kRequest, kSenderMac, "ffffffffffff"), l2::SwitchFate::kArpFields);
  expect_dropped(with(kRequest, kSenderMac, "01005e000001"), l2::SwitchFate::kArpFields);
  expect_dropped(with(kRequest, kSenderMac, "000000000000"), l2::SwitchFate::kArpFields);
  expect_dropped(with(kRequest, kSenderMac, "020000000001"), l2::SwitchFate::kArpFields);
  for (const char* address : {"e0000001", "ffffffff", "7f000001", "00000001"})
    expect_dropped(with(kRequest, kSender, address), l2::SwitchFate::kAsker);
}

// A host that announces the box's address is not believed, and nobody else hears it.
TEST(L2Arp, AnotherHostWithTheBoxsAddressIsAConflict) {
  const Bytes announcement = with(kRequest, kSender, "0a000001");
  expect_dropped(announcement, l2::SwitchFate::kConflict);
  expect_dropped(with(announcement, kOperation, "0002"), l2::SwitchFate::kConflict);
  expect_dropped(with(announcement, kArpTarget, "0a000002"), l2::SwitchFate::kConflict);
  expect_dropped(with(announcement, 0, "020000000001"), l2::SwitchFate::kConflict);
}

TEST(L2Arp, AClaimIsSeenWhoeverItIsSentTo) {
  const Bytes claim = with(with(kRequest, kSender, "0a000001"), 0, "020000000002");
  EXPECT_TRUE(l2::claims_address(claim, kBox));
  EXPECT_TRUE(l2::claims_address(with(claim, kOperation, "0002"), kBox));
  EXPECT_TRUE(l2::claims_address(tagged(claim), kBox));
  EXPECT_EQ(tagged(claim).size(), l2::kClaimBytes);
  EXPECT_FALSE(l2::claims_address(with(claim, kSender, "0a000002"), kBox));
  EXPECT_FALSE(l2::claims_address(with(claim, 12, "0800"), kBox));
  EXPECT_FALSE(l2::claims_address(with(claim, 16, "86dd"), kBox));
  EXPECT_FALSE(l2::claims_address(claim, {.mac = kBox.mac})) << "the box has no IPv4 address";
  EXPECT_FALSE(l2::claims_address(with(claim, kSender, "00000000"), {.mac = kBox.mac}));
  for (std::size_t length = 0; length < claim.size(); ++length)
    EXPECT_FALSE(
        l2::claims_address(Bytes(claim.begin(), claim.begin() + static_cast<std::ptrdiff_t>(length)), kBox));
  for (std::size_t length = 0; length < l2::kClaimBytes; ++length) {
    const Bytes all = tagged(claim);
    EXPECT_FALSE(
        l2::claims_address(Bytes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)), kBox));
  }
}

TEST(L2Arp, OnlySomeDestinationsMayAsk) {
  EXPECT_TRUE(l2::may_ask(kBox.mac, kBox));
  EXPECT_TRUE(l2::may_ask(kBroadcastMac, kBox));
  EXPECT_TRUE(l2::may_ask({0x33, 0x33, 0xff, 0, 0, 1}, kBox));
  EXPECT_FALSE(l2::may_ask({0x33, 0x33, 0xff, 0, 0, 2}, kBox));
  EXPECT_FALSE(l2::may_ask({0x33, 0x33, 0, 0, 0, 1}, kBox));
  EXPECT_FALSE(l2::may_ask({2, 0, 0, 0, 0, 2}, kBox));
  EXPECT_FALSE(l2::may_ask({0x33, 0x33, 0xff, 0, 0, 0}, {.mac = kBox.mac}));
}

TEST(L2Other, FramesToTheBoxThatNothingServesAreDropped) {
  const Bytes other = packet("020000000001 02000000000a 88b5 00");
  expect_dropped(other, l2::SwitchFate::kNotServed);
  expect_dropped(cut(other, 14), l2::SwitchFate::kNotServed);
  expect_dropped(with(other, 12, "8100"), l2::SwitchFate::kRunt);
  expect_dropped(packet("020000000001 02000000000a 8100 0007 8100 0007 0806"), l2::SwitchFate::kNotServed);
  expect_none(with(other, 0, "ffffffffffff"));
  expect_none(packet("3333ff000001 02000000000a 8100 00"));
}

}  // namespace
}  // namespace tally::l2_test
