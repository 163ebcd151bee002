#pragma once
// How this machine reaches the box, as its routing table says now.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"
#include "udp/udp_address.h"

namespace tally::udp {

struct UdpRoute {
  UdpAddress source;           // of this machine, port 0
  std::uint32_t mtu = 0;       // of the route; what the path reported is in it
  unsigned interface = 0;      // index of the one that leads to the box; 0: unknown
  std::string interface_name;  // empty: unknown
};

// box: with its port. own: the source address that was asked for, or of no family. Errors name TALLY_SWITCH
// or TALLY_ADDRESS and what to do.
[[nodiscard]] Result<UdpRoute> find_route(const UdpAddress& box, const UdpAddress& own);

// TALLY_SWITCH and TALLY_ADDRESS (with or without a prefix length; may be empty) as sockets need them.
struct UdpEnds {
  UdpAddress box;
  UdpAddress own;  // of no family: the route decides
};
[[nodiscard]] Result<UdpEnds> parse_ends(std::string_view box, std::string_view own);

// The kernel's own answer to 'ip route get TO from FROM', over rtnetlink.

// Index of the interface through which packets with these addresses leave; 0: no route, or the kernel does
// not tell. Of one family. Any thread.
[[nodiscard]] unsigned find_outgoing_interface(const UdpAddress& to, const UdpAddress& from) noexcept;

}  // namespace tally::udp
