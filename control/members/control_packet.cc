#include "members/control_packet.h"

#include <cstring>

#include "kernels/kernels.h"
#include "members/job_config.h"
#include "tally/plan.h"

namespace tally::members {
namespace {

constexpr auto kRefused = [](MembershipDrop d) { return tl::unexpected<MembershipDrop>(d); };

bool taken_here(PacketType type) noexcept {
  return is_control(type) && type != PacketType::kJoined && type != PacketType::kChallenge;
}

bool is_counted(PacketType type) noexcept {
  return type == PacketType::kLeave || type == PacketType::kHeartbeat || type == PacketType::kAbort ||
         type == PacketType::kLost;
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
    case PacketType::kPlan:
      return payload > sizeof(PlanPayload) + kTagBytes &&
             payload <= sizeof(PlanPayload) + kMaxNameBytes + kPlanPageBytes + kTagBytes;
    case PacketType::kEnlist:
      return payload > sizeof(EnlistPayload) + kTagBytes &&
             payload <= sizeof(EnlistPayload) + kMaxNameBytes + kTagBytes;
    case PacketType::kLost:
      return payload == sizeof(LostPayload) + kTagBytes;
    case PacketType::kProbe:
      return payload <= 4 * std::size_t{kMaxElements};
    default:
      return payload == kCounted;
  }
}

std::string_view chars_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_member_elements(std::uint32_t n) noexcept { return n >= kMinElements && valid_elements(n); }

bool record_valid(const GenerationRecord& r) noexcept {
  if (r.generation.host() == 0) return r == GenerationRecord{};
  return is_window(r.largest_window.host()) && is_window(r.lookahead.host()) &&
         r.lookahead.host() <= r.largest_window.host() && is_member_elements(r.elements.host());
}

// A server asks for the world instead of telling what it expects. A worker's is of all racks.
bool world_valid(Rank rank, std::uint32_t world, std::uint32_t rack_workers) noexcept {
  if (server_index(rank) < kMaxServers) return world == 0 && rack_workers == 0;
  return world >= 1 && world <= (rack_workers == 0 ? kMaxWorld : kMaxRacks) && rack_workers <= kMaxRanks;
}

// Who has an epoch to lose ends it by ABORT, and a server by silence.
bool gives_up(const Header& h, const JoinPayload& p) noexcept {
  return p.elements.host() == 0 && p.last == GenerationRecord{} && server_index(h.rank_id()) >= kMaxServers;
}

bool fields_valid(const Header& h, const JoinPayload& p) noexcept {
  const bool of_rack = p.rack_workers != 0;
  return h.job.host() == 0 && (h.epoch.host() == 0 || of_rack) && h.cookie.host() == 0 &&
         p.instance.host() != 0 && world_valid(h.rank_id(), p.world.host(), p.rack_workers) &&
         (is_member_elements(p.elements.host()) || gives_up(h, p)) &&
         serial_difference(Chunk{p.next.host()}, Chunk{p.lowest.host()}) >= 0 && record_valid(p.last);
}

// As JOINED(running) of the home may say it.
bool fields_valid(const Header& h, const EnlistPayload& p) noexcept {
  const std::uint32_t world = p.world.host();
  const std::uint64_t lease = p.lease_ms.host() * kMillisecond;
  const bool is_rank = server_index(h.rank_id()) < kMaxServers || raw(h.rank_id()) < world;
  return h.job.host() == 0 && h.epoch.host() != 0 && h.cookie.host() != 0 && p.instance.host() != 0 &&
         is_rank && world >= 1 && world <= kMaxRanks && p.result_cookie.host() != 0 &&
         p.record.generation.host() != 0 && record_valid(p.record) && is_window(p.window.host()) &&
         p.window.host() <= p.record.largest_window.host() && lease >= kMinLease && lease <= kMaxLease &&
         p.plan_bytes.host() >= plan_bytes(1, world, 1) && p.plan_bytes.host() <= kMaxPlanBytes &&
         p.box < kMaxPlanBoxes && p.max_priority <= kMaxPriority && p.zero == 0;
}

// Behind the fixed part: the name, and what is left in front of the tag.
template <class Fixed>
bool name_fits(const ControlPacket& packet, std::uint8_t bytes) noexcept {
  return bytes >= 1 && bytes <= kMaxNameBytes && packet.payload.size() >= sizeof(Fixed) + bytes + kTagBytes;
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
  if (is_counted(h.type)) {
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
  join.epoch = packet.header.epoch_id();
  join.features = packet.header.contributors.host();
  join.instance = join.fixed.instance.host();
  join.nonce = join.fixed.nonce.host();
  join.attempt = join.fixed.attempt.host();
  join.challenge = join.fixed.challenge;
  join.name = chars_of(auth::body_of(packet.payload).subspan(sizeof(JoinPayload)));
  const std::uint8_t name_bytes = join.fixed.name_bytes;
  if (name_bytes < 1 || name_bytes > kMaxNameBytes || join.name.size() != name_bytes)
    return kRefused(MembershipDrop::kLength);
  if (!fields_valid(packet.header, join.fixed)) return kRefused(MembershipDrop::kField);
  return join;
}

Gate<EnlistRequest> read_enlist(const ControlPacket& packet) noexcept {
  EnlistRequest enlist;
  enlist.fixed = wire_at<EnlistPayload>(packet.payload.data());
  enlist.rank = packet.header.rank_id();
  enlist.epoch = packet.header.epoch_id();
  enlist.cookie = Cookie{packet.header.cookie.host()};
  enlist.instance = enlist.fixed.instance.host();
  enlist.nonce = enlist.fixed.nonce.host();
  enlist.attempt = enlist.fixed.attempt.host();
  enlist.challenge = enlist.fixed.challenge;
  enlist.name = chars_of(auth::body_of(packet.payload).subspan(sizeof(EnlistPayload)));
  if (!name_fits<EnlistPayload>(packet, enlist.fixed.name_bytes) ||
      enlist.name.size() != enlist.fixed.name_bytes)
    return kRefused(MembershipDrop::kLength);
  if (!fields_valid(packet.header, enlist.fixed)) return kRefused(MembershipDrop::kField);
  return enlist;
}

Gate<PlanPacket> read_plan_packet(const ControlPacket& packet) noexcept {
  const Header& h = packet.header;
  PlanPacket plan;
  plan.fixed = wire_at<PlanPayload>(packet.payload.data());
  plan.rank = h.rank_id();
  if (!name_fits<PlanPayload>(packet, plan.fixed.name_bytes)) return kRefused(MembershipDrop::kLength);
  const auto rest = auth::body_of(packet.payload).subspan(sizeof(PlanPayload));
  plan.name = chars_of(rest.first(plan.fixed.name_bytes));
  plan.page = rest.subspan(plan.fixed.name_bytes);
  if (plan.page.size() != plan.fixed.page_bytes.host()) return kRefused(MembershipDrop::kLength);
  const std::uint32_t bytes = plan.fixed.bytes.host();
  const bool good = h.job.host() == 0 && h.epoch.host() == 0 && h.cookie.host() == 0 && bytes >= 1 &&
                    bytes <= kMaxPlanBytes && plan.fixed.page < plan_pages(bytes);
  if (!good) return kRefused(MembershipDrop::kField);
  return plan;
}

}  // namespace tally::members
