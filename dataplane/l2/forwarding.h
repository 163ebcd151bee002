#pragma once
// Where a frame that is not for the box goes, and what the switch learns from it (IEEE 802.1D, 7). No VLANs
// of its own: a host is behind one port whatever tag its frames carry, and tags are carried untouched.

#include <optional>

#include "l2_counters.h"
#include "mac_table.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally {

enum class BoxMode : std::uint8_t {
  kInline,  // workers hang on the box's ports, and the box is their switch
  kOneArm,  // the box hangs on a switch and forwards nothing
};

constexpr bool is_group(const Mac& mac) noexcept { return (mac[0] & 1) != 0; }

// Why a frame with this source is dropped, if it is.
[[nodiscard]] std::optional<SwitchFate> wrong_source(const Mac& source, const Mac& box) noexcept;

struct Route {
  SwitchFate fate{};  // kForwarded, kFlooded, kFiltered or kReserved
  PortIndex to{};     // kForwarded
};

class Forwarding {
 public:
  // hosts: shared with other cores. counters: of this core. Both outlive it.
  Forwarding(MacTable& hosts, SwitchCounters& counters) noexcept : hosts_(hosts), counters_(counters) {}

  // source: not wrong_source(). ingress: where it came in.
  void learn(const Mac& source, PortIndex ingress, TimeNs now) noexcept;
  // Learns, and says where the frame goes; never back to `ingress`. Counts nothing but what it learned.
  [[nodiscard]] Route route(PortIndex ingress, const Mac& destination, const Mac& source,
                            TimeNs now) noexcept;

 private:
  MacTable& hosts_;
  SwitchCounters& counters_;
};

}  // namespace tally
