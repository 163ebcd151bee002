#pragma once
// How a job uses slot memory, and where its chunks lie in it (docs/protocol.md, 1; docs/scheduling.md).
// Switch and worker compute the slot with the same function, so that a packet of another idea of it is
// Drop(slot).

#include <cstdint>

#include "tally/ids.h"
#include "tally/mix64.h"

namespace tally {

enum class Discipline : std::uint8_t {
  kPool = 1,        // a private range, two versions (SwitchML)
  kFcfs = 2,        // shared slots by hash; who comes second goes to the server (ATP)
  kPreemptive = 3,  // shared slots by hash; a higher priority swaps the lower out (in the style of ESA)
  kShared = 4,      // shared slots from a free list, a ledger per job, first arrivals swap
};

// Jobs of these share the slots of the shared region.
constexpr bool shares_slots(Discipline d) noexcept { return d != Discipline::kPool; }
constexpr bool by_hash(Discipline d) noexcept {
  return d == Discipline::kFcfs || d == Discipline::kPreemptive;
}

// How the discipline `preemptive` lowers the priority of an entry.
enum class Decay : std::uint8_t {
  kNone = 0,
  kSilence = 1,  // halved for each RTO in which nothing touched it
  kDenial = 2,   // halved by each attempt that it denied
};

enum class ServerKind : std::uint8_t {
  kNone = 0,
  kEmbedded = 1,  // the merge engine on the owner core
  kExternal = 2,  // processes of their own (tally-ps), which the box reaches through its ports
};

// Which of a job's servers (1..kMaxServers of them) sums a chunk. The same everywhere: what one of them holds
// of a chunk, no other has.
constexpr std::uint32_t server_of(Chunk chunk, std::uint32_t servers) noexcept {
  return raw(chunk) % servers;
}

// Scheduling class 0..3 of a priority 0..254: higher classes take slots from lower ones.
constexpr std::uint8_t class_of(std::uint8_t priority) noexcept {
  return static_cast<std::uint8_t>(priority >> 6);
}

// What the slot of a chunk depends on. window, span: powers of two; shared_slots: of all cores, >= 1 with the
// disciplines by hash.
struct SlotMap {
  Discipline discipline = Discipline::kPool;
  JobId job{};
  std::uint32_t window = 0;
  std::uint32_t span = 0;
  std::uint32_t shared_slots = 0;
  std::uint64_t salt = 0;
};

constexpr std::uint32_t slot_of(const SlotMap& map, Chunk chunk) noexcept {
  if (map.discipline == Discipline::kPool) return raw(chunk) & (map.window - 1);
  if (map.discipline == Discipline::kShared) return raw(chunk) & (map.span - 1);
  const std::uint64_t key = std::uint64_t{raw(map.job)} << 32 | raw(chunk);
  return static_cast<std::uint32_t>(mix64(map.salt ^ key) % map.shared_slots);
}

}  // namespace tally
