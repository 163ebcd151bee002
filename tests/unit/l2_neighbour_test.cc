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
constexpr std::size_t kIp6 = 14, kSource = kIp6 + 8, kDestination = kIp6 + 24, kNeighbour = kIp6 + 40;
constexpr std::size_t kNeighbourTarget = kNeighbour + 8, kOption = kNeighbour + 24;

Bytes right(const Bytes& b) {
  const std::size_t bytes = b.size() - kNeighbour;
  return summed(b, kNeighbour, kNeighbour + 2,
                internet_sum(std::span(b).subspan(kSource, 32)) + static_cast<std::uint32_t>(bytes) + 58);
}
Bytes changed(std::size_t at, std::string_view hex) { return right(with(kSolicitation, at, hex)); }
// With options of these bytes.
Bytes options(std::string_view hex) {
  Bytes b = cut(kSolicitation, kOption);
  for (const std::byte byte : packet(hex)) b.push_back(byte);
  b[kIp6 + 5] = static_cast<std::byte>(b.size() - kNeighbour);
  return right(b);
}

TEST(L2Neighbour, ASolicitationIsAnswered) {
  expect_answer(kSolicitation, l2::SwitchFate::kNeighbourAnswered, kAdvertisement);
  expect_answer(right(with(kSolicitation, 0, "020000000001")), l2::SwitchFate::kNeighbourAnswered,
                kAdvertisement);
}

TEST(L2Neighbour, TheTagIsKept) {
  expect_answer(tagged(kSolicitation), l2::SwitchFate::kNeighbourAnswered, tagged(kAdvertisement));
}

TEST(L2Neighbour, WithoutAnOptionTheAnswerGoesToTheSendersMac) {
  expect_answer(kUnicast, l2::SwitchFate::kNeighbourAnswered, kAdvertisement);
}

TEST(L2Neighbour, TheOptionSaysWhereTheAnswerGoes) {
  expect_answer(options("0101 02000000000b"), l2::SwitchFate::kNeighbourAnswered,
                with(kAdvertisement, 0, "02000000000b"));
  // Behind one that the box does not know (a nonce, RFC 3971), which the answer lacks.
  expect_answer(options("0e01 112233445566 0101 02000000000b"), l2::SwitchFate::kNeighbourAnswered,
                with(kAdvertisement, 0, "02000000000b"));
}

// RFC 4862: who has no address yet is answered in front of everybody.
TEST(L2Neighbour, AProbeIsAnsweredToAllNodes) {
  expect_answer(kProbe, l2::SwitchFate::kNeighbourAnswered, kProbeAnswer);
  expect_answer(tagged(kProbe), l2::SwitchFate::kNeighbourAnswered, tagged(kProbeAnswer));
}

TEST(L2Neighbour, AnAnswerThatDoesNotFitTheBufferIsDropped) {
  const Asked a = ask(kUnicast, kBox, 7);
  EXPECT_EQ(a.kind, l2::Answer::Kind::kDropped);
  EXPECT_EQ(l2::name_of(a.fate), "room");
  EXPECT_EQ(a.frame, hex_of(kUnicast));
  EXPECT_EQ(ask(kUnicast, kBox, 8).kind, l2::Answer::Kind::kAnswer);
  EXPECT_EQ(ask(kSolicitation, kBox, 0).kind, l2::Answer::Kind::kAnswer);
}

TEST(L2Neighbour, WhatIsForOthersIsLeftToTheSwitch) {
  expect_none(changed(kNeighbourTarget + 15, "02"));
  expect_none(changed(kNeighbourTarget, "fd01"));           // another address of the same group
  expect_none(changed(kNeighbour, "88"));                   // an advertisement
  expect_none(right(with(kSolicitation, kIp6 + 6, "00")));  // MLD has an option in front
  expect_none(right(with(kSolicitation, 0, "3333ff000002")));
  expect_none(right(with(kSolicitation, 0, "ffffffffffff")));
  expect_none(right(with(kSolicitation, kDestination + 15, "02")));
  expect_none(kSolicitation, {.mac = kBox.mac, .ipv4 = kBox.ipv4});
}

TEST(L2Neighbour, WhatIsForTheBoxAndNotForItsAddressIsNotServed) {
  const Bytes unicast = with(kSolicitation, 0, "020000000001");
  expect_dropped(right(with(unicast, kNeighbourTarget + 15, "02")), l2::SwitchFate::kNotServed);
  expect_dropped(right(with(unicast, kNeighbour, "88")), l2::SwitchFate::kNotServed);
  expect_dropped(right(with(unicast, kNeighbour, "86")), l2::SwitchFate::kNotServed);
  expect_dropped(unicast, l2::SwitchFate::kNotServed, {.mac = kBox.mac});
}

TEST(L2Neighbour, WhatIsMalformedIsDroppedByName) {
  for (std::size_t length = kIp6; length < kNeighbour; ++length)
    expect_dropped(cut(kSolicitation, length), l2::SwitchFate::kRunt);
  for (std::size_t length = kNeighbour; length < kSolicitation.size(); ++length)
    expect_dropped(cut(kSolicitation, length), l2::SwitchFate::kLength);
  expect_dropped(right(with(cut(kSolicitation, kOption - 1), kIp6 + 4, "0017")), l2::SwitchFate::kRunt);
  expect_dropped(with(kSolicitation, kIp6 + 4, "0007"), l2::SwitchFate::kRunt);
  expect_dropped(changed(kIp6, "70"), l2::SwitchFate::kIpHeader);
  expect_dropped(changed(kIp6 + 7, "fe"), l2::SwitchFate::kNeighbourFields);
  expect_dropped(changed(kNeighbour + 1, "01"), l2::SwitchFate::kNeighbourFields);
  expect_dropped(with(kSolicitation, kNeighbour + 3, "08"), l2::SwitchFate::kChecksum);
}

TEST(L2Neighbour, WrongOptionsAreDroppedByName) {
  for (const char* wrong :
       {"0100 02000000000b", "0e00 000000000000", "0102 02000000000b", "0e02 000000000000",
        "0102 02000000000b 0000000000000000", "0e", "0101 02000000000b 0e01", "0101 000000000000",
        "0101 ffffffffffff", "0101 020000000001"})
    expect_dropped(options(wrong), l2::SwitchFate::kNeighbourFields);
}

TEST(L2Neighbour, AProbeHasNoAddressAndAsksTheGroup) {
  expect_dropped(right(with(kSolicitation, kSource, "00000000000000000000000000000000")),
                 l2::SwitchFate::kNeighbourFields);
  expect_dropped(right(with(kUnicast, kSource, "00000000000000000000000000000000")),
                 l2::SwitchFate::kNeighbourFields);
}

TEST(L2Neighbour, SomeSourcesGetNoAnswer) {
  expect_dropped(changed(kSource, "ff020000000000000000000000000001"), l2::SwitchFate::kAsker);
  expect_dropped(changed(kSource, "fd000000000000000000000000000001"), l2::SwitchFate::kConflict);
}

}  // namespace
}  // namespace tally::l2_test
