#pragma once
// The kernel's own answer to 'ip route get TO from FROM', over rtnetlink.

#include "udp_address.h"

namespace tally {

// Index of the interface through which packets with these addresses leave; 0: no route, or the kernel does
// not tell. Of one family. Any thread.
[[nodiscard]] unsigned find_outgoing_interface(const UdpAddress& to, const UdpAddress& from) noexcept;

}  // namespace tally
