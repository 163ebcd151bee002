#pragma once
// What the box says for its own addresses: ARP replies, neighbour advertisements and echo replies, written
// into the frame that asked; and what it announces by itself. Pure.

#include <cstddef>
#include <cstdint>
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

// What the box says without being asked, so that hosts that know another MAC for its address learn this one: an ARP
// announcement (RFC 5227, 2.3) and an unsolicited neighbour advertisement (RFC 4861, 7.2.6). Written to `out`,
// of at least kAnnouncementBytes; returns the frame's bytes, 0 if the box has no such address.
inline constexpr std::uint32_t kAnnouncementBytes = 86;
[[nodiscard]] std::uint32_t announce_ipv4(std::span<std::byte> out, const jobs::Box& box) noexcept;
[[nodiscard]] std::uint32_t announce_ipv6(std::span<std::byte> out, const jobs::Box& box) noexcept;

// Ones' complement sum of an ICMPv6 packet with its pseudo header; 0xFFFF if its checksum is right.
[[nodiscard]] std::uint16_t icmp6_sum(const Ipv6Header& ip, std::span<const std::byte> icmp) noexcept;

}  // namespace tally::l2
