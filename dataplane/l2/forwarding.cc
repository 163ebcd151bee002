#include "l2/forwarding.h"

namespace tally::l2 {
namespace {

// 01:80:C2:00:00:00..0F: spanning tree, pause frames, LLDP and their like never pass a bridge
// (802.1D, 7.12.6).
bool is_reserved(const Mac& mac) noexcept {
  return mac[0] == 0x01 && mac[1] == 0x80 && mac[2] == 0xC2 && mac[3] == 0 && mac[4] == 0 && mac[5] < 0x10;
}

}  // namespace

std::optional<SwitchFate> wrong_source(const Mac& source, const Mac& box) noexcept {
  if (is_group(source) || source == Mac{}) return SwitchFate::kSource;
  if (source == box) return SwitchFate::kOwnSource;
  return std::nullopt;
}

void Forwarding::learn(const Mac& source, PortIndex ingress, TimeNs now) noexcept {
  const Seconds second = now / kSecond;
  hosts_.age(second);
  switch (hosts_.learn(source, ingress, second)) {
    case MacTable::Learned::kReplaced:
      ++counters_.evicted;
      [[fallthrough]];
    case MacTable::Learned::kNew:
      ++counters_.learned;
      break;
    case MacTable::Learned::kMoved:
      ++counters_.moved;
      break;
    case MacTable::Learned::kKnown:
      break;
  }
}

Route Forwarding::route(PortIndex ingress, const Mac& destination, const Mac& source, TimeNs now) noexcept {
  if (is_reserved(destination)) return {.fate = SwitchFate::kReserved};
  learn(source, ingress, now);
  if (is_group(destination)) return {.fate = SwitchFate::kFlooded};
  const auto port = hosts_.find(destination, now / kSecond);
  if (!port) return {.fate = SwitchFate::kFlooded};
  if (*port == ingress) return {.fate = SwitchFate::kFiltered};
  return {.fate = SwitchFate::kForwarded, .to = *port};
}

}  // namespace tally::l2
