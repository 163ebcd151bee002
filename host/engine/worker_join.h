#pragma once
// JOINED as a rank reads it: the payload it believes, and what follows from it.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "auth/auth.h"
#include "engine/engine_operation.h"
#include "tally/discipline.h"
#include "tally/engine_statistics.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/plan.h"
#include "tally/priority.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

struct EpochPlan;

[[nodiscard]] constexpr std::uint32_t shard_of_slot(std::uint32_t slot, std::uint32_t shards) noexcept {
  // Mostly no division is needed. has_single_bit() would count bits by a call where there is no instruction for it.
  return (shards & (shards - 1)) == 0 ? slot & (shards - 1) : slot % shards;
}

// Where a worker stands in a job of racks (docs/protocol_racks.md).
struct RackPlace {
  std::array<std::uint8_t, kMaxRacks> workers{};  // of each rack
  std::uint8_t racks = 0;                         // 0: the job has none
  std::uint8_t rack = 0;
  std::uint8_t most_advanced = 0;  // rack with the newest `next`
  std::uint16_t first = 0;         // the program's number of the rack's rank 0

  // As which a member of another rack asks.
  [[nodiscard]] bool is_of_another(Rank asker) const noexcept {
    const std::uint32_t from = std::uint32_t{raw(asker)} - kRackRankBase;
    return from < racks && from != rack;
  }
};

// What the newest JOINED(running) said, in host order, and what follows from it. Transports need the box's
// MAC and the multicast group; the engine needs the rest. In a job of racks `world` is of all, and ranks and bitmaps
// are of the own rack.

struct Membership {
  JobId job{};
  Epoch epoch{};
  Cookie cookie{};  // contribution cookie of this rank
  Cookie result_cookie{};
  Generation generation{};
  Chunk first_chunk{};
  std::uint32_t largest_window = 0;
  std::uint32_t lookahead = 0;
  std::uint32_t elements = 0;  // most elements in a packet
  std::uint32_t window = 0;    // W, at most largest_window
  std::uint32_t world = 0;     // N
  Rank rank{};                 // of this member, as headers and bitmaps have it
  RackPlace place;
  std::uint32_t shards = 1;
  Discipline discipline = Discipline::kPool;
  std::uint32_t shared_slots = 0;                 // of all data cores; 0 with the discipline pool
  std::uint64_t salt = 0;                         // disciplines by hash
  std::uint8_t max_priority = kGreatestPriority;  // of the job, if the box said it
  bool stragglers = false;                        // results may be INCOMPLETE
  bool sparse = false;                            // rows of zeros and runs of zero chunks are understood
  TimeNs lease = 0;
  Rank most_advanced{};
  ResultsMode results = ResultsMode::kUnicast;
  std::uint16_t group_port = 0;
  std::array<std::uint8_t, 16> group{};
  std::array<std::uint8_t, 6> box_mac{};
  auth::Key session{};        // of this process in this epoch: keys the tags of control packets
  std::uint32_t key = 0;      // k of this rank
  std::uint32_t key_sum = 0;  // sum of everybody's k
  // Of a job over several boxes: its plan, whole and fitting, in what a seat offers; nullptr in jobs of one box.
  PlanId plan_id{};
  std::uint32_t plan_bytes = 0;  // 0: no plan
  BoxIndex home_box = PlannedText::kNoBox;
  std::shared_ptr<const EpochPlan> plan;

  // Between two heartbeats. Also at most a second: they tell control how far the numbers have come, and it
  // must renew the epoch in time however long the lease is.
  [[nodiscard]] TimeNs heartbeat_period() const noexcept { return std::min(lease / 10, kSecond); }
  // What a JOIN says of the generation.
  [[nodiscard]] GenerationRecord record() const noexcept {
    return {Be{raw(generation)}, Be{raw(first_chunk)}, Be{largest_window}, Be{lookahead},
            Be{static_cast<std::uint16_t>(elements)}};
  }
  [[nodiscard]] bool has_racks() const noexcept { return place.racks != 0; }
  // How many bitmaps have a bit for.
  [[nodiscard]] std::uint32_t ranks() const noexcept {
    return has_racks() ? place.workers[place.rack] : world;
  }
  [[nodiscard]] std::uint64_t members() const noexcept { return members_of(ranks()); }
  // How many workers are in a sum of these ranks.
  [[nodiscard]] std::uint32_t workers_in(std::uint64_t contributors) const noexcept {
    return contributors == members() ? world : static_cast<std::uint32_t>(std::popcount(contributors));
  }
  // Sum of the keys of some ranks; of a job of racks those of all.
  [[nodiscard]] std::uint32_t keys_of(std::uint64_t ranks) const noexcept {
    if (ranks == members()) return key_sum;
    std::uint32_t keys = 0;
    for (; ranks != 0; ranks &= ranks - 1)
      keys += rank_key(generation, Rank{static_cast<std::uint16_t>(std::countr_zero(ranks))});
    return keys;
  }
  [[nodiscard]] SlotMap slot_map() const noexcept {
    return {discipline, job, window, 2 * largest_window, shared_slots, salt};
  }
  [[nodiscard]] std::uint32_t slot_of(Chunk chunk) const noexcept {
    return tally::slot_of(slot_map(), chunk);
  }
  [[nodiscard]] std::uint32_t shard_of(Chunk chunk) const noexcept {
    return shard_of_slot(slot_of(chunk), shards);
  }
  [[nodiscard]] std::uint16_t port_of(Chunk chunk) const noexcept {
    return static_cast<std::uint16_t>(kBasePort + shard_of(chunk));
  }
};

// Bytes of the longest datagram of a rank that wished for `elements`, in a job of one box; with a plan of a job
// over several boxes, pages of it too.
[[nodiscard]] constexpr std::size_t max_datagram_bytes(std::uint16_t elements) noexcept {
  constexpr std::size_t kJoin = sizeof(JoinPayload) + kMaxNameBytes + kTagBytes;
  constexpr std::size_t kAbort = sizeof(CountedPayload) + kMaxTextBytes + kTagBytes;
  return kHeaderBytes + std::max({std::size_t{4} * elements, kJoin, kAbort});
}
[[nodiscard]] constexpr std::size_t max_planned_bytes(std::uint16_t elements) noexcept {
  constexpr std::size_t kPage =
      kHeaderBytes + sizeof(PlanPayload) + kMaxNameBytes + kPlanPageBytes + kTagBytes;
  constexpr std::size_t kEnlist = kHeaderBytes + sizeof(EnlistPayload) + kMaxNameBytes + kTagBytes;
  return std::max({max_datagram_bytes(elements), kPage, kEnlist});
}

struct Joined {
  JoinedPayload fixed;
  // refused: why; elsewhere: an address; running with a plan: PlannedText; of a job of racks: RacksText and their sizes
  std::span<const std::byte> text;
};

// Lengths only. `payload` has at least the fixed part and the tag.
[[nodiscard]] std::optional<Refused> read_joined(std::span<const std::byte> payload, Joined& out) noexcept;

// What a JOINED with kFlagRacks says of them; nothing if it contradicts itself.
[[nodiscard]] std::optional<RackPlace> read_racks(std::span<const std::byte> text) noexcept;

// JOINED(running) in host order, for a rank with these options (rank, elements); nothing if its values are
// out of the protocol's ranges, contradict each other or exceed the wish. Job, epoch and result cookie come
// from the header. job: the job's key.
[[nodiscard]] std::optional<Membership> to_membership(const Header& header, const Joined& joined,
                                                      const EngineOptions& options,
                                                      const auth::Key& job) noexcept;

// "rank 3", "ranks 1, 4"; empty for no rank. first: what the program calls rank 0 of the bitmap.
[[nodiscard]] std::string name_ranks(std::uint64_t ranks, std::uint32_t first = 0);

}  // namespace tally::engine
