#pragma once
// What an interface of this machine does with a burst that is one message (GSO).

#include <optional>
#include <string>

namespace tally {

// Whether it takes UDP messages uncut (ethtool -k: tx-udp-segmentation). If not, the kernel cuts them into
// frames before the interface sees them. Empty: it cannot be found out.
[[nodiscard]] std::optional<bool> takes_uncut_udp(const std::string& interface);

}  // namespace tally
