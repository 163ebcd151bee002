#include "gate.h"

namespace tally {
namespace {

// Flags a packet of this type may carry; nothing for types the box never takes from outside.
std::optional<std::uint8_t> flags_of(PacketType type) noexcept {
  switch (type) {
    case PacketType::kContribute:
      return kFlagRetransmit | kFlagDirect | kFlagOverflow;
    case PacketType::kQuery:
      return kFlagRetransmit;
    case PacketType::kAnswer:
      return kFlagRetransmit | kFlagOverflow | kFlagIncomplete;  // the last: of some jobs only
    case PacketType::kResult:
      return kFlagRetransmit | kFlagOverflow;
    case PacketType::kFlush:
    case PacketType::kResend:
    case PacketType::kJoin:
    case PacketType::kLeave:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kProbe:
      return std::uint8_t{0};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Drop> refuse_header(const Header& h, const std::byte* datagram, std::uint32_t bytes,
                                  const Kernels& kernels) noexcept {
  if (h.version != kWireVersion) return Drop::kVersion;
  if (kernels.crc32c(datagram, kCheckedBytes) != h.check.host()) return Drop::kCheck;
  const auto allowed = flags_of(h.type);
  if (!allowed) return Drop::kType;
  if ((h.flags & ~*allowed) != 0) return Drop::kFlags;
  if (is_control(h.type)) return std::nullopt;  // its payload is the control thread's to judge
  const std::uint32_t elements = h.elements.host();
  if (!valid_elements(elements) || (h.type == PacketType::kQuery && elements != 0)) return Drop::kElements;
  if (bytes != kHeaderBytes + 4 * elements) return Drop::kLength;
  if (h.dtype > static_cast<std::uint8_t>(Dtype::kFloat32)) return Drop::kDtype;
  return std::nullopt;
}

}  // namespace tally
