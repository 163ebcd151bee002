#pragma once
// Identifiers of the native protocol. Each is its own type, so a chunk cannot be passed where a slot is
// meant.

#include <cstdint>
#include <type_traits>

namespace tally {

enum class JobId : std::uint16_t {};       // 1..kMaxJobs; 0 is never valid
enum class Rank : std::uint16_t {};        // 0..kMaxRanks-1 a worker; kSwitchRank the box; server_rank()
enum class Epoch : std::uint32_t {};       // random, unique among the box's live jobs; 0 = none
enum class Chunk : std::uint32_t {};       // number within the generation, modulo 2^32
enum class SlotIndex : std::uint32_t {};   // what the wire carries; a function of the chunk
enum class Generation : std::uint64_t {};  // changes with membership; 0 = none
enum class Cookie : std::uint64_t {};  // secret of (job, epoch, rank), or of (job, epoch): the result cookie
enum class PortIndex : std::uint16_t {};  // a port of the box

inline constexpr std::uint32_t kMaxJobs = 1024;
inline constexpr std::uint32_t kMaxRanks = 64;  // one bit per rank in `contributors`
inline constexpr std::uint32_t kMaxRacks = 64;  // of a job of two levels: ranks of the parent's
inline constexpr std::uint32_t kMaxWorld = kMaxRacks * kMaxRanks;
inline constexpr std::uint32_t kMaxShards = 64;  // data cores that may own slots of one job
inline constexpr Rank kSwitchRank{0xFFFF};
inline constexpr std::uint16_t kRackRankBase = 0xFE00;    // + r: rack r asks (docs/protocol_racks.md)
inline constexpr std::uint16_t kServerRankBase = 0xFF00;  // + i: server i of the job
inline constexpr std::uint32_t kMaxServers = 16;          // of one job

// The plain number of an identifier.
template <class Id>
constexpr auto raw(Id id) noexcept {
  return static_cast<std::underlying_type_t<Id>>(id);
}

// Serial difference a - b (RFC 1982 with the tie fixed): exactly 2^31 counts as older, i.e. negative.
constexpr std::int32_t serial_difference(Chunk a, Chunk b) noexcept {
  return static_cast<std::int32_t>(raw(a) - raw(b));
}

constexpr Chunk operator+(Chunk c, std::uint32_t n) noexcept { return Chunk{raw(c) + n}; }
constexpr Chunk operator-(Chunk c, std::uint32_t n) noexcept { return Chunk{raw(c) - n}; }

constexpr Rank server_rank(std::uint32_t server) noexcept {
  return Rank{static_cast<std::uint16_t>(kServerRankBase + server)};
}
// Index of the server that has this rank; kMaxServers or more: it is none's.
constexpr std::uint32_t server_index(Rank r) noexcept {
  return raw(r) < kServerRankBase ? ~std::uint32_t{0} : raw(r) - std::uint32_t{kServerRankBase};
}

constexpr std::uint64_t bit_of(Rank r) noexcept { return std::uint64_t{1} << raw(r); }

// Bitmap of ranks 0..world-1. world: 1..64.
constexpr std::uint64_t members_of(std::uint32_t world) noexcept { return ~std::uint64_t{0} >> (64 - world); }

}  // namespace tally
