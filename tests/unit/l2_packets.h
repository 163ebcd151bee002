#pragma once
// Packets written by hand, byte for byte, and what the box makes of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "l2/box_answers.h"
#include "l2/l2_headers.h"

namespace tally::l2_test {

using Bytes = std::vector<std::byte>;

inline const jobs::Box kBox{.mac = {2, 0, 0, 0, 0, 1},
                            .ipv4 = {10, 0, 0, 1},
                            .ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

// Hexadecimal digits; blanks between them do not count.
inline Bytes packet(std::string_view hex) {
  std::string digits(hex);
  std::erase(digits, ' ');
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline std::string hex_of(const Bytes& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<std::size_t>(b) >> 4];
    text += kDigits[std::to_integer<std::size_t>(b) & 15];
  }
  return text;
}

// With these bytes instead of those at `at`.
inline Bytes with(Bytes bytes, std::size_t at, std::string_view hex) {
  const Bytes other = packet(hex);
  std::copy(other.begin(), other.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}
// With a VLAN tag behind the two MACs.
inline Bytes tagged(const Bytes& bytes) {
  Bytes out(bytes.begin(), bytes.begin() + 12);
  for (const std::byte b : packet("8100 6007")) out.push_back(b);
  out.insert(out.end(), bytes.begin() + 12, bytes.end());
  return out;
}
inline Bytes cut(Bytes bytes, std::size_t length) {
  bytes.resize(length);
  return bytes;
}
// With a right Internet checksum at `checksum` of what begins at `first`. start: the pseudo header's part.
inline Bytes summed(Bytes bytes, std::size_t first, std::size_t checksum, std::uint32_t start = 0,
                    std::size_t length = ~std::size_t{0}) {
  bytes[checksum] = bytes[checksum + 1] = std::byte{0};
  const auto part = std::span<const std::byte>(bytes).subspan(first);
  const auto sum =
      static_cast<std::uint16_t>(~folded(start + internet_sum(part.first(std::min(part.size(), length)))));
  bytes[checksum] = static_cast<std::byte>(sum >> 8);
  bytes[checksum + 1] = static_cast<std::byte>(sum);
  return bytes;
}

struct Asked {
  l2::Answer::Kind kind{};
  l2::SwitchFate fate{};
  std::string frame;  // afterwards, hexadecimal
};

// In a heap block of exactly the frame's size and spare room.
inline Asked ask(const Bytes& frame, const jobs::Box& box = kBox, std::size_t spare = 64) {
  const auto room = std::make_unique<std::byte[]>(frame.size() + spare);
  if (!frame.empty()) std::memcpy(room.get(), frame.data(), frame.size());
  const l2::Answer out = l2::answer({.data = room.get(),
                                     .length = static_cast<std::uint32_t>(frame.size()),
                                     .capacity = static_cast<std::uint32_t>(frame.size() + spare)},
                                    box);
  const std::size_t length = out.kind == l2::Answer::Kind::kAnswer ? out.length : frame.size();
  return {out.kind, out.fate, hex_of({room.get(), room.get() + length})};
}

inline void expect_answer(const Bytes& question, l2::SwitchFate fate, const Bytes& wanted) {
  const Asked a = ask(question);
  EXPECT_EQ(a.kind, l2::Answer::Kind::kAnswer) << l2::name_of(a.fate);
  EXPECT_EQ(l2::name_of(a.fate), l2::name_of(fate));
  EXPECT_EQ(a.frame, hex_of(wanted));
}
inline void expect_dropped(const Bytes& frame, l2::SwitchFate why, const jobs::Box& box = kBox) {
  const Asked a = ask(frame, box);
  EXPECT_EQ(a.kind, l2::Answer::Kind::kDropped);
  EXPECT_EQ(l2::name_of(a.fate), l2::name_of(why));
  EXPECT_EQ(a.frame, hex_of(frame)) << "a frame that is dropped is not written";
}
inline void expect_none(const Bytes& frame, const jobs::Box& box = kBox) {
  const Asked a = ask(frame, box);
  EXPECT_EQ(a.kind, l2::Answer::Kind::kNone) << l2::name_of(a.fate);
  EXPECT_EQ(a.frame, hex_of(frame)) << "a frame for others is not written";
}

}  // namespace tally::l2_test
