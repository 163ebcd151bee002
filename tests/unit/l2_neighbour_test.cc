// The box's answers to neighbour solicitations.

#include "l2_packets.h"

namespace tally::l2_test {
namespace {

// fe80::a, at 02:00:00:00:00:0a, asks the group of fd00::1 where that is.
const Bytes kSolicitation = packet(
    "3333ff000001 02000000000a 86dd  60000000 0020 3a ff"
    "fe80000000000000000000000000000a ff0200000000000000000001ff000001"
    "87 00 7c07 00000000 fd000000000000000000000000000001  01 01 02000000000a");
const Bytes kAdvertisement = packet(
    "02000000000a 020000000001 86dd  60000000 0020 3a ff"
    "fd000000000000000000000000000001 fe80000000000000000000000000000a"
    "88 00 1b14 60000000 fd000000000000000000000000000001  02 01 020000000001");
// The same to the box's own address and without the option.
const Bytes kUnicast = packet(
    "020000000001 02000000000a 86dd  60000000 0018 3a ff"
    "fe80000000000000000000000000000a fd000000000000000000000000000001"
    "87 00 801e 00000000 fd000000000000000000000000000001");
// Is fd00::1 anybody's already?
const Bytes kProbe = packet(
    "3333ff000001 02000000000a 86dd  60000000 0018 3a ff"
    "00000000000000000000000000000000 ff0200000000000000000001ff000001"
    "87 00 7da5 00000000 fd000000000000000000000000000001");
const Bytes kProbeAnswer = packet(
    "333300000001 020000000001 86dd  60000000 0020 3a ff"
    "fd000000000000000000000000000001 ff020000000000000000000000000001"
    "88 00 5a9b 20000000 fd000000000000000000000000000001  02 01 020000000001");
constexpr std::size_t kIp = 14, kSource = kIp + 8, kDestination = kIp + 24, kIcmp = kIp + 40;
constexpr std::size_t kTarget = kIcmp + 8, kOption = kIcmp + 24;

Bytes right(const Bytes& b) {
  const std::size_t bytes = b.size() - kIcmp;
  return summed(b, kIcmp, kIcmp + 2,
                internet_sum(std::span(b).subspan(kSource, 32)) + static_cast<std::uint32_t>(bytes) + 58);
}
Bytes changed(std::size_t at, std::string_view hex) { return right(with(kSolicitation, at, hex)); }
// With options of these bytes.
Bytes options(std::string_view hex) {
  Bytes b = cut(kSolicitation, kOption);
  for (const std::byte byte : packet(hex)) b.push_back(byte);
  b[kIp + 5] = static_cast<std::byte>(b.size() - kIcmp);
  return right(b);
}

TEST(L2Neighbour, ASolicitationIsAnswered) {
  expect_answer(kSolicitation, SwitchFate::kNeighbourAnswered, kAdvertisement);
  expect_answer(right(with(kSolicitation, 0, "020000000001")), SwitchFate::kNeighbourAnswered,
                kAdvertisement);
}

TEST(L2Neighbour, TheTagIsKept) {
  expect_answer(tagged(kSolicitation), SwitchFate::kNeighbourAnswered, tagged(kAdvertisement));
}

TEST(L2Neighbour, WithoutAnOptionTheAnswerGoesToTheSendersMac) {
  expect_answer(kUnicast, SwitchFate::kNeighbourAnswered, kAdvertisement);
}

TEST(L2Neighbour, TheOptionSaysWhereTheAnswerGoes) {
  expect_answer(options("0101 02000000000b"), SwitchFate::kNeighbourAnswered,
                with(kAdvertisement, 0, "02000000000b"));
  // Behind one that the box does not know (a nonce, RFC 3971), which the answer lacks.
  expect_answer(options("0e01 112233445566 0101 02000000000b"), SwitchFate::kNeighbourAnswered,
                with(kAdvertisement, 0, "02000000000b"));
}

// RFC 4862: who has no address yet is answered in front of everybody.
TEST(L2Neighbour, AProbeIsAnsweredToAllNodes) {
  expect_answer(kProbe, SwitchFate::kNeighbourAnswered, kProbeAnswer);
  expect_answer(tagged(kProbe), SwitchFate::kNeighbourAnswered, tagged(kProbeAnswer));
}

TEST(L2Neighbour, AnAnswerThatDoesNotFitTheBufferIsDropped) {
  const Asked a = ask(kUnicast, kBox, 7);
  EXPECT_EQ(a.kind, Answer::Kind::kDropped);
  EXPECT_EQ(name_of(a.fate), "room");
  EXPECT_EQ(a.frame, hex_of(kUnicast));
  EXPECT_EQ(ask(kUnicast, kBox, 8).kind, Answer::Kind::kAnswer);
  EXPECT_EQ(ask(kSolicitation, kBox, 0).kind, Answer::Kind::kAnswer);
}

TEST(L2Neighbour, WhatIsForOthersIsLeftToTheSwitch) {
  expect_none(changed(kTarget + 15, "02"));
  expect_none(changed(kTarget, "fd01"));                   // another address of the same group
  expect_none(changed(kIcmp, "88"));                       // an advertisement
  expect_none(right(with(kSolicitation, kIp + 6, "00")));  // MLD has an option in front
  expect_none(right(with(kSolicitation, 0, "3333ff000002")));
  expect_none(right(with(kSolicitation, 0, "ffffffffffff")));
  expect_none(right(with(kSolicitation, kDestination + 15, "02")));
  expect_none(kSolicitation, {.mac = kBox.mac, .ipv4 = kBox.ipv4});
}

TEST(L2Neighbour, WhatIsForTheBoxAndNotForItsAddressIsNotServed) {
  const Bytes unicast = with(kSolicitation, 0, "020000000001");
  expect_dropped(right(with(unicast, kTarget + 15, "02")), SwitchFate::kNotServed);
  expect_dropped(right(with(unicast, kIcmp, "88")), SwitchFate::kNotServed);
  expect_dropped(right(with(unicast, kIcmp, "86")), SwitchFate::kNotServed);
  expect_dropped(unicast, SwitchFate::kNotServed, {.mac = kBox.mac});
}

TEST(L2Neighbour, WhatIsMalformedIsDroppedByName) {
  for (std::size_t length = kIp; length < kIcmp; ++length)
    expect_dropped(cut(kSolicitation, length), SwitchFate::kRunt);
  for (std::size_t length = kIcmp; length < kSolicitation.size(); ++length)
    expect_dropped(cut(kSolicitation, length), SwitchFate::kLength);
  expect_dropped(right(with(cut(kSolicitation, kOption - 1), kIp + 4, "0017")), SwitchFate::kRunt);
  expect_dropped(with(kSolicitation, kIp + 4, "0007"), SwitchFate::kRunt);
  expect_dropped(changed(kIp, "70"), SwitchFate::kIpHeader);
  expect_dropped(changed(kIp + 7, "fe"), SwitchFate::kNeighbourFields);
  expect_dropped(changed(kIcmp + 1, "01"), SwitchFate::kNeighbourFields);
  expect_dropped(with(kSolicitation, kIcmp + 3, "08"), SwitchFate::kChecksum);
}

TEST(L2Neighbour, WrongOptionsAreDroppedByName) {
  for (const char* wrong :
       {"0100 02000000000b", "0e00 000000000000", "0102 02000000000b", "0e02 000000000000",
        "0102 02000000000b 0000000000000000", "0e", "0101 02000000000b 0e01", "0101 000000000000",
        "0101 ffffffffffff", "0101 020000000001"})
    expect_dropped(options(wrong), SwitchFate::kNeighbourFields);
}

TEST(L2Neighbour, AProbeHasNoAddressAndAsksTheGroup) {
  expect_dropped(right(with(kSolicitation, kSource, "00000000000000000000000000000000")),
                 SwitchFate::kNeighbourFields);
  expect_dropped(right(with(kUnicast, kSource, "00000000000000000000000000000000")),
                 SwitchFate::kNeighbourFields);
}

TEST(L2Neighbour, SomeSourcesGetNoAnswer) {
  expect_dropped(changed(kSource, "ff020000000000000000000000000001"), SwitchFate::kAsker);
  expect_dropped(changed(kSource, "fd000000000000000000000000000001"), SwitchFate::kConflict);
}

}  // namespace
}  // namespace tally::l2_test
