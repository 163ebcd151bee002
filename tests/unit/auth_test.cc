// Keys and tags against the bytes of docs/protocol_examples.md, which another program made.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"

namespace tally::auth {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

Key key_of(std::string_view hex) {
  Key key{};
  const Bytes bytes = bytes_of(hex);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = std::to_integer<std::uint8_t>(bytes[i]);
  return key;
}

const Key kJob = job_key("resnet", "s3cret");
const Key kSession =
    session_key(kJob, Generation{0x0123456789abcdef}, Epoch{0x5eed0001}, Cookie{0x2222222222222222},
                Cookie{0xa0a0a0a0a0a0a0a0}, 0x1111111111111111, Rank{0});

// Of the page.
struct Datagram {
  explicit Datagram(std::string_view hex)
      : bytes(bytes_of(hex)),
        header(wire_at<Header>(bytes.data())),
        payload(std::span(bytes).subspan(kHeaderBytes)) {}
  Bytes bytes;
  Header header;
  std::span<const std::byte> payload;
};

const Datagram kJoin(
    "0209000000000000000000000000000000000000000000800000000000000000000000000000000012f5b8980000000000000000"
    "8ed957fe"
    "111111111111111100000000c0ffee01000000020000000000000000000201600000000000000000000000000000000000000000"
    "000006"
    "00c0c1c2c3c4c5c6c7c8c9cacbcccdcecf7265736e6574e705791003271920721de1590fe10fc1");
const Datagram kHeartbeat(
    "020c0000000100005eed00010000000400000000000000801111111111111111a0a0a0a0a0a0a0a0f1a937640000000000000000"
    "a3185b4d"
    "01234567000000017265736e65743179abd8840edb7d03db2ab468b98725");

const Datagram kEcho(
    "020c00000001ffff5eed00010000000400000000000000800000000000000003222222222222222274be33130000000000000000"
    "2c13956d"
    "0000000000000001758d1621f7522a4caec284ae68ca1c3b");

TEST(Auth, KeysAreThoseOfThePage) {
  EXPECT_EQ(kJob, key_of("a365e5b922bcc46ef317609ac7a7ddf11269050e2ff65f0806a7d501c444e793"));
  EXPECT_EQ(kSession, key_of("a06f5e839db574e01858e44a5165d440bb132a11efba50fabd099c6e53466319"));
}

TEST(Auth, TagsAreThoseOfThePage) {
  EXPECT_TRUE(verify(kJob, kJoin.header, kJoin.payload));
  EXPECT_TRUE(verify(kJob, kHeartbeat.header, kHeartbeat.payload));
  EXPECT_TRUE(verify(kSession, kEcho.header, kEcho.payload));
  EXPECT_FALSE(verify(kJob, kEcho.header, kEcho.payload));
  EXPECT_FALSE(verify(kSession, kJoin.header, kJoin.payload));
}

// Each bit of the header in front of its sums, and of the payload.
TEST(Auth, NoBitCanBeChanged) {
  for (const Datagram* const datagram : {&kJoin, &kHeartbeat, &kEcho}) {
    const Key& key = datagram == &kEcho ? kSession : kJob;
    for (std::size_t bit = 0; bit < 8 * datagram->bytes.size(); ++bit) {
      if (bit / 8 >= offsetof(Header, sum1) && bit / 8 < kHeaderBytes) continue;
      Bytes bytes = datagram->bytes;
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      EXPECT_FALSE(verify(key, wire_at<Header>(bytes.data()), std::span(bytes).subspan(kHeaderBytes))) << bit;
    }
  }
}

TEST(Auth, APayloadWithoutRoomForATagHasNone) {
  EXPECT_FALSE(verify(kJob, kJoin.header, {}));
  EXPECT_FALSE(verify(kJob, kJoin.header, kJoin.payload.first(kTagBytes - 1)));
}

// What runs into each other without lengths.
TEST(Auth, NameAndTokenAreToldApart) {
  EXPECT_NE(job_key("ab", "c"), job_key("a", "bc"));
  EXPECT_NE(job_key("a", ""), job_key("", "a"));
}

// A hint and no proof: 16 bits, other ones for other tokens but by chance.
TEST(Auth, ACheckOfATokenTellsTokensApart) {
  const std::uint16_t check = token_check(job_key("vgg", "secret"));
  EXPECT_EQ(token_check(job_key("vgg", "secret")), check);
  EXPECT_NE(token_check(job_key("vgg", "")), check);
  EXPECT_NE(token_check(job_key("resnet", "secret")), check);
  int same = 0;
  for (int i = 0; i < 10'000; ++i)
    same += token_check(job_key("vgg", "secret" + std::to_string(i))) == check ? 1 : 0;
  EXPECT_LE(same, 3);
}

TEST(Auth, ASessionIsOfOneProcessOfOneRankInOneEpoch) {
  const auto with = [](std::uint64_t generation, std::uint32_t epoch, std::uint64_t result,
                       std::uint64_t cookie, std::uint64_t instance, std::uint16_t rank) {
    return session_key(kJob, Generation{generation}, Epoch{epoch}, Cookie{result}, Cookie{cookie}, instance,
                       Rank{rank});
  };
  const Key one = with(1, 2, 3, 4, 5, 6);
  EXPECT_EQ(one, with(1, 2, 3, 4, 5, 6));
  EXPECT_NE(one, with(9, 2, 3, 4, 5, 6));
  EXPECT_NE(one, with(1, 9, 3, 4, 5, 6));
  EXPECT_NE(one, with(1, 2, 9, 4, 5, 6));
  EXPECT_NE(one, with(1, 2, 3, 9, 5, 6));
  EXPECT_NE(one, with(1, 2, 3, 4, 9, 6));
  EXPECT_NE(one, with(1, 2, 3, 4, 5, 9));
}

TEST(Auth, AChallengeIsOfOneBoxBindingProcessAndTime) {
  const Key box = box_key(std::array<std::uint64_t, 4>{1, 2, 3, 4});
  const Bytes here(32, std::byte{1});
  const Bytes there(32, std::byte{2});
  const Tag one = challenge(box, here, 7, 1);
  EXPECT_TRUE(equal(one, challenge(box, here, 7, 1)));
  EXPECT_FALSE(equal(one, challenge(box_key(std::array<std::uint64_t, 4>{1, 2, 3, 5}), here, 7, 1)));
  EXPECT_FALSE(equal(one, challenge(box, there, 7, 1)));
  EXPECT_FALSE(equal(one, challenge(box, here, 8, 1)));
  EXPECT_FALSE(equal(one, challenge(box, here, 7, 2)));
}

}  // namespace
}  // namespace tally::auth
