#pragma once
// The box's own addresses on the wire (docs/protocol.md, 2). One MAC on all its ports.

#include "tally/net.h"

namespace tally {

struct Box {
  Mac mac{};
  Ipv4 ipv4{};  // all zero: no IPv4
  Ipv6 ipv6{};  // all zero: no IPv6
};

}  // namespace tally
