#include "members/control_packet.h"

#include <bit>
#include <cstring>

#include "kernels/kernels.h"
#include "members/job_config.h"

namespace tally::members {
namespace {

constexpr auto kRefused = [](MembershipDrop d) { return tl::unexpected<MembershipDrop>(d); };

bool taken_here(PacketType type) noexcept {
  return is_control(type) && type != PacketType::kJoined && type != PacketType::kChallenge;
}

bool length_fits(PacketType type, std::size_t payload) noexcept {
  constexpr std::size_t kCounted = sizeof(CountedPayload) + kTagBytes;
  switch (type) {
    case PacketType::kJoin:  // of whatever version: here ends what they have in common
      return payload >= offsetof(JoinPayload, challenge);
    case PacketType::kHeartbeat:
      return payload > kCounted && payload <= kCounted + kMaxNameBytes;
    case PacketType::kAbort:
      return payload >= kCounted && payload <= kCounted + kMaxTextBytes;
    case PacketType::kProbe:
      return payload <= 4 * std::size_t{kMaxElements};
    default:
      return payload == kCounted;
  }
}

std::string_view chars_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_window(std::uint32_t w) noexcept {
  return w >= kMinWindow && w <= kMaxWindow && std::has_single_bit(w);
}

bool is_member_elements(std::uint32_t n) noexcept { return n >= kMinElements && valid_elements(n); }

bool record_valid(const GenerationRecord& r) noexcept {
  if (r.generation.host() == 0) return r == GenerationRecord{};
  return is_window(r.largest_window.host()) && is_window(r.lookahead.host()) &&
         r.lookahead.host() <= r.largest_window.host() && is_member_elements(r.elements.host());
}

// A server asks for the world instead of telling what it expects.
bool world_valid(Rank rank, std::uint32_t world) noexcept {
  if (server_index(rank) < kMaxServers) return world == 0;
  return world >= 1 && world <= kMaxRanks;
}

bool fields_valid(const Header& h, const JoinPayload& p) noexcept {
  return h.job.host() == 0 && h.epoch.host() == 0 && h.cookie.host() == 0 && p.instance.host() != 0 &&
         world_valid(h.rank_id(), p.world.host()) && is_member_elements(p.elements.host()) &&
         serial_difference(Chunk{p.next.host()}, Chunk{p.lowest.host()}) >= 0 && record_valid(p.last) &&
         p.reserved == 0;
}

}  // namespace

Gate<ControlPacket> read_control(std::span<const std::byte> datagram) noexcept {
  if (datagram.size() < kHeaderBytes) return kRefused(MembershipDrop::kRunt);
  const auto& crc32c = kernels::best_kernels().crc32c;
  ControlPacket packet;
  std::memcpy(&packet.header, datagram.data(), kHeaderBytes);
  packet.payload = datagram.subspan(kHeaderBytes);
  const Header& h = packet.header;
  if (h.version != kWireVersion && h.type != PacketType::kJoin) return kRefused(MembershipDrop::kVersion);
  if (h.check.host() != crc32c(datagram.data(), kCheckedBytes)) return kRefused(MembershipDrop::kCheck);
  if (!taken_here(h.type)) return kRefused(MembershipDrop::kType);
  if ((h.flags & ~unsigned{kKnownFlags}) != 0) return kRefused(MembershipDrop::kFlags);
  if (!length_fits(h.type, packet.payload.size())) return kRefused(MembershipDrop::kLength);
  const std::uint32_t sum = packet.payload.empty() ? 0 : crc32c(packet.payload.data(), packet.payload.size());
  if (h.sum1.host() != sum) return kRefused(MembershipDrop::kPayload);
  if (h.type != PacketType::kJoin && h.type != PacketType::kProbe) {
    packet.counter = wire_at<CountedPayload>(packet.payload.data()).counter.host();
    packet.text = chars_of(auth::body_of(packet.payload).subspan(sizeof(CountedPayload)));
  }
  return packet;
}

Gate<JoinRequest> read_join(const ControlPacket& packet) noexcept {
  if (packet.payload.size() < sizeof(JoinPayload) + kTagBytes) return kRefused(MembershipDrop::kLength);
  JoinRequest join;
  join.fixed = wire_at<JoinPayload>(packet.payload.data());
  join.rank = packet.header.rank_id();
  join.name = chars_of(auth::body_of(packet.payload).subspan(sizeof(JoinPayload)));
  const std::uint8_t name_bytes = join.fixed.name_bytes;
  if (name_bytes < 1 || name_bytes > kMaxNameBytes || join.name.size() != name_bytes)
    return kRefused(MembershipDrop::kLength);
  if (!fields_valid(packet.header, join.fixed)) return kRefused(MembershipDrop::kField);
  return join;
}

}  // namespace tally::members
