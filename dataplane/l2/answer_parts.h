#pragma once
// Shared by the answers: a question that was opened as far as its Ethernet header and tag.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "box_answers.h"
#include "tally/net.h"

namespace tally {

template <class T>
[[nodiscard]] T wire_at(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void wire_put(std::byte* at, const T& value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

struct Question {
  AskedFrame frame;
  std::size_t offset = 0;  // of what follows Ethernet header and tag
  bool alone = false;      // to the box's MAC, so nobody else wants it

  [[nodiscard]] std::byte* at() const noexcept { return frame.data + offset; }
  [[nodiscard]] std::size_t room() const noexcept { return frame.length - offset; }
};

[[nodiscard]] constexpr Answer dropped(SwitchFate why) noexcept { return {Answer::Kind::kDropped, why, 0}; }
// Nothing that the box answers.
[[nodiscard]] constexpr Answer ignored(const Question& q) noexcept {
  return q.alone ? dropped(SwitchFate::kNotServed) : Answer{};
}

// The frame goes from `from` to `to` and has `bytes` behind its Ethernet header and tag. What the port had
// padded to Ethernet's 60 bytes is padded again, with zeros: another port may not do it.
[[nodiscard]] inline Answer answered(const Question& q, SwitchFate fate, const Mac& to, const Mac& from,
                                     std::size_t bytes) noexcept {
  constexpr std::size_t kShortest = 60;
  std::memcpy(q.frame.data, to.data(), to.size());
  std::memcpy(q.frame.data + to.size(), from.data(), from.size());
  const std::size_t end = q.offset + bytes;
  const std::size_t length = std::max(end, std::min<std::size_t>(q.frame.length, kShortest));
  std::fill(q.frame.data + end, q.frame.data + length, std::byte{0});
  return {Answer::Kind::kAnswer, fate, static_cast<std::uint32_t>(length)};
}

[[nodiscard]] inline Mac asker_mac(const Question& q) noexcept {
  return wire_at<EthernetHeader>(q.frame.data).source;
}

[[nodiscard]] Answer answer_arp(const Question& q, const Box& box) noexcept;
[[nodiscard]] Answer answer_ipv4(const Question& q, const Box& box) noexcept;
// Echo requests and neighbour solicitations.
[[nodiscard]] Answer answer_ipv6(const Question& q, const Box& box) noexcept;
// ip: the header at q.at(), checked. payload: bytes behind it, as it says, all there.
[[nodiscard]] Answer answer_echo6(const Question& q, const Box& box, const Ipv6Header& ip,
                                  std::size_t payload) noexcept;
[[nodiscard]] Answer answer_solicitation(const Question& q, const Box& box, const Ipv6Header& ip,
                                         std::size_t payload) noexcept;
// Ones' complement sum of an ICMPv6 packet with its pseudo header; 0xFFFF if its checksum is right.
[[nodiscard]] std::uint16_t icmp6_sum(const Ipv6Header& ip, std::span<const std::byte> icmp) noexcept;

}  // namespace tally
