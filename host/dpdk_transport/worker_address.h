#pragma once
// Who a worker is on the wire, and whom it talks to. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "jobs/binding.h"
#include "tally/error.h"
#include "tally/net.h"

namespace tally::dpdk_transport {

struct WorkerAddress {
  Ipv6 own{};  // IPv4 as ::ffff:a.b.c.d
  Ipv6 box{};  // of the same family
  Mac mac{};
  std::uint16_t udp_port = 0;
  unsigned network_bits = 0;  // of its network's addresses, which have 128

  [[nodiscard]] bool ipv4() const noexcept { return is_mapped_ipv4(own); }
};

// box: an IP address; address: CIDR of this worker, in a network that holds the box, for JOIN goes out as an
// Ethernet broadcast and there is no router in between. random: makes the locally administered MAC and the
// UDP port (49152..65535). Errors name TALLY_SWITCH or TALLY_ADDRESS.
[[nodiscard]] Result<WorkerAddress> make_worker_address(std::string_view box, std::string_view address,
                                                        std::uint64_t random);

// Why another box of the job cannot be reached from here, with the reason of make_worker_address(); success: it can.
[[nodiscard]] Result<void> check_other_box(const WorkerAddress& ours, const Ipv6& box);

// The UDP payload of a frame to one of `ours` from one of the boxes, empty if it is somebody else's or malformed:
// lengths first, no options, no fragments, the VLAN tag of that id or none. group, group_mac, group_port:
// port 0 means unicast only. vlan: 12 bits, or kUntagged.
struct WorkerFilter {
  WorkerAddress ours;
  Ipv6 group{};
  Mac group_mac{};
  std::uint16_t group_port = 0;
  std::uint16_t vlan = jobs::kUntagged;
  std::vector<Ipv6> boxes{};  // empty: ours.box alone
};
// box: where the sender stands among the boxes.
[[nodiscard]] std::span<const std::byte> open_worker_frame(std::span<const std::byte> frame,
                                                           const WorkerFilter& filter,
                                                           std::size_t& box) noexcept;
[[nodiscard]] inline std::span<const std::byte> open_worker_frame(std::span<const std::byte> frame,
                                                                  const WorkerFilter& filter) noexcept {
  std::size_t box = 0;
  return open_worker_frame(frame, filter, box);
}

// The frame by which a worker without the kernel's help tells snooping switches that it wants a multicast
// group: an IGMPv2 membership report (RFC 2236), or an MLDv1 report (RFC 2710). Pure.

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

}  // namespace tally::dpdk_transport
