#pragma once
// What the box says for its own addresses: ARP replies, neighbour advertisements and echo replies, written
// into the frame that asked. Pure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "jobs/binding.h"
#include "l2/forwarding.h"
#include "tally/net.h"

namespace tally::l2 {

// A frame that is not the pipeline's, in one piece, lent by the caller.
struct AskedFrame {
  std::byte* data = nullptr;   // first byte of the Ethernet header; at least that header is there
  std::uint32_t length = 0;    // bytes of the frame
  std::uint32_t capacity = 0;  // bytes from `data` to the end of the buffer
};

struct Answer {
  enum class Kind : std::uint8_t {
    kNone,     // not for the box, or for others too: not a byte has changed
    kAnswer,   // the frame became the answer, which goes back out of the port that it came from
    kDropped,  // it is for the box alone, and dropped by name: not a byte has changed
  };
  Kind kind = Kind::kNone;
  SwitchFate fate{};         // unless kNone
  std::uint32_t length = 0;  // kAnswer: of the frame
};

// Whether answer() may say anything but kNone: the box's own MAC, broadcast (ARP), and the group of its IPv6
// address's neighbour solicitations.
[[nodiscard]] bool may_ask(const Mac& destination, const jobs::Box& box) noexcept;

// Answers, if that is due. The tag of the frame is kept; a frame that was padded stays padded. Frames to the
// box's MAC are never kNone. The Ethernet source is one host's, not the box (wrong_source()). Reads only
// bytes below frame.length, writes only those below frame.capacity.
[[nodiscard]] Answer answer(const AskedFrame& frame, const jobs::Box& box) noexcept;

// Whether an ARP packet says that another host has the box's IPv4 address. head: the first bytes of a frame,
// kClaimBytes of them if it has so many.
inline constexpr std::uint32_t kClaimBytes = 46;
[[nodiscard]] bool claims_address(std::span<const std::byte> head, const jobs::Box& box) noexcept;

// Shared by the answers: a question that was opened as far as its Ethernet header and tag.

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

[[nodiscard]] Answer answer_arp(const Question& q, const jobs::Box& box) noexcept;
[[nodiscard]] Answer answer_ipv4(const Question& q, const jobs::Box& box) noexcept;
// Echo requests and neighbour solicitations.
[[nodiscard]] Answer answer_ipv6(const Question& q, const jobs::Box& box) noexcept;
// ip: the header at q.at(), checked. payload: bytes behind it, as it says, all there.
[[nodiscard]] Answer answer_echo6(const Question& q, const jobs::Box& box, const Ipv6Header& ip,
                                  std::size_t payload) noexcept;
[[nodiscard]] Answer answer_solicitation(const Question& q, const jobs::Box& box, const Ipv6Header& ip,
                                         std::size_t payload) noexcept;
// Ones' complement sum of an ICMPv6 packet with its pseudo header; 0xFFFF if its checksum is right.
[[nodiscard]] std::uint16_t icmp6_sum(const Ipv6Header& ip, std::span<const std::byte> icmp) noexcept;

}  // namespace tally::l2
