#include "engine/datagram.h"

#include <cstring>

#include "tally/rows.h"
#include "tally/wire.h"
#include "tally/zero_run.h"

namespace tally::engine {
namespace {

constexpr std::size_t kCounted = sizeof(CountedPayload) + kTagBytes;

bool taken(PacketType type, Opener opener) noexcept {
  switch (type) {
    case PacketType::kContribute:
    case PacketType::kPartial:
      return opener == Opener::kServer;
    case PacketType::kResend:
    case PacketType::kLeave:
    case PacketType::kNack:
    case PacketType::kZeroRun:
      return opener == Opener::kWorker;
    case PacketType::kQuery:
    case PacketType::kResult:
    case PacketType::kReject:
    case PacketType::kJoined:
    case PacketType::kChallenge:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kPlan:
      return true;
    default:
      return false;
  }
}

std::uint8_t known_flags(const Header& header, Opener opener) noexcept {
  if (header.type == PacketType::kJoined) return kKnownFlags | kFlagPlanned | kFlagRacks;
  if (header.type == PacketType::kZeroRun) return 0;
  const bool rows =
      header.type == PacketType::kResult && opener == Opener::kWorker && (header.flags & kFlagZero) == 0;
  return rows ? kKnownFlags | kFlagSparse : kKnownFlags;
}

std::optional<Refused> check_length(const Datagram& d) noexcept {
  const std::size_t bytes = d.payload.size();
  const std::uint32_t elements = d.header.elements.host();
  bool right = false;
  switch (d.header.type) {
    case PacketType::kContribute:
    case PacketType::kPartial:
    case PacketType::kResult:
      right = valid_elements(elements, d.header.dtype) &&
              ((d.header.flags & kFlagSparse) != 0
                   ? are_rows(d.payload.data(), rows_of(elements, d.header.dtype), bytes)
                   : bytes == values_bytes(d.header));
      break;
    case PacketType::kZeroRun:
      right =
          valid_elements(elements, d.header.dtype) && are_run_exponents(d.header, d.payload.data(), bytes);
      break;
    case PacketType::kQuery:
    case PacketType::kResend:
    case PacketType::kNack:
      right = elements == 0 && bytes == 0;
      break;
    case PacketType::kReject:  // of a data core, or of control
      right = bytes == 0 || bytes == kCounted;
      break;
    case PacketType::kHeartbeat:
    case PacketType::kLeave:
      right = bytes == kCounted;
      break;
    case PacketType::kChallenge:
      right = bytes == sizeof(ChallengePayload);
      break;
    case PacketType::kJoined:
      right = bytes >= sizeof(JoinedPayload) + kTagBytes;
      break;
    case PacketType::kAbort:
      right = bytes >= kCounted && bytes <= kCounted + kMaxTextBytes;
      break;
    case PacketType::kPlan:
      right = bytes >= sizeof(PlanPayload) + kTagBytes;
      break;
    default:
      break;
  }
  if (!right) return Refused::kLength;
  return std::nullopt;
}

}  // namespace

std::optional<Refused> open_datagram(std::span<const std::byte> bytes, const kernels::Kernels& kernels,
                                     Datagram& out, Opener opener) noexcept {
  if (bytes.size() < kHeaderBytes) return Refused::kRunt;
  Header& header = out.header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  out.payload = bytes.subspan(kHeaderBytes);
  if (header.version != kWireVersion) return Refused::kVersion;
  if (header.check.host() != kernels.crc32c(bytes.data(), kCheckedBytes)) return Refused::kCheck;
  if (!taken(header.type, opener)) return Refused::kType;
  if ((header.flags & ~known_flags(header, opener)) != 0) return Refused::kFlags;
  if (const auto wrong = check_length(out)) return wrong;
  const bool summed = is_control(header.type) || header.type == PacketType::kReject;
  if (summed && header.sum1.host() != kernels.crc32c(out.payload.data(), out.payload.size()))
    return Refused::kPayload;
  return std::nullopt;
}

std::size_t seal_control(Header header, std::size_t payload_bytes, std::span<std::byte> out,
                         const kernels::Kernels& kernels) noexcept {
  header.sum1 = Be<std::uint32_t>{kernels.crc32c(out.data() + kHeaderBytes, payload_bytes)};
  return seal(header, payload_bytes, out, kernels);
}

}  // namespace tally::engine
