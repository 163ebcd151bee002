#pragma once
// The frame by which a worker without the kernel's help tells snooping switches that it wants a multicast
// group: an IGMPv2 membership report (RFC 2236), or an MLDv1 report (RFC 2710). Pure.

#include <array>
#include <cstddef>
#include <span>

#include "tally/net.h"
#include "worker_address.h"

namespace tally {

inline constexpr std::size_t kMostReportBytes = 86;

// A frame without its checksum of Ethernet; IPv4's is padded to the 60 bytes that Ethernet wants.
struct GroupReport {
  std::array<std::byte, kMostReportBytes> frame{};
  std::size_t length = 0;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {frame.data(), length}; }
};

// group: of the family of our own address, IPv4 as ::ffff:a.b.c.d. With IPv6 the source is the link-local
// address that follows from our MAC, for others are not listened to (RFC 2710, 3).
[[nodiscard]] GroupReport make_group_report(const WorkerAddress& ours, const Ipv6& group) noexcept;

}  // namespace tally
