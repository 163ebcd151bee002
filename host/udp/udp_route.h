#pragma once
// How this machine reaches the box, as its routing table says now.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"
#include "udp_address.h"

namespace tally {

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
[[nodiscard]] Result<UdpEnds> parse_udp_ends(std::string_view box, std::string_view own);

}  // namespace tally
