#pragma once
// The match table of the pipeline: one immutable row per running job, published by control as an immutable
// snapshot. Data cores load the pointer once per burst; control frees the old one after every core passed a
// quiescent point.

#include <array>
#include <cstdint>
#include <memory>

#include "binding.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/wire_join.h"

namespace tally {

struct Member {
  Cookie cookie{};        // contribution cookie
  std::uint32_t key = 0;  // k[rank]
  Binding binding;
};

// Slot memory of one core, in lines of 64 bytes from the start of the core's region.
struct LineRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  constexpr bool operator==(const LineRange&) const noexcept = default;
};

struct Job {
  JobId id{};
  Epoch epoch{};
  Generation generation{};
  Cookie result_cookie{};
  Discipline discipline = Discipline::kPool;
  ResultsMode results = ResultsMode::kUnicast;
  std::uint8_t world = 1;   // N, 1..64
  std::uint8_t shards = 1;  // data cores, 1..64
  std::uint8_t max_priority = 254;
  std::uint16_t elements = 0;  // most elements in a packet, 16..2224, a multiple of 16
  std::uint32_t window = 0;    // W, a power of two, 16..16384
  std::uint32_t span = 0;      // 2 x the largest window of the generation
  std::uint64_t members = 0;   // bitmap of ranks 0..world-1
  // Results multicast: one rank for each (port, VLAN, IP version) that has a member; a frame goes to each.
  std::uint64_t leaders = 0;
  std::uint32_t key_sum = 0;  // sum of all members' keys
  LineRange slots;            // same range on every core (each core has its own region)
  std::array<Member, kMaxRanks> ranks{};
};

// Lines of one entry: a line of registers, then the values.
constexpr std::uint32_t entry_lines(std::uint32_t elements) noexcept { return 1 + elements / 16; }

// Entries a pool job needs on one core: two versions of its share of the W slots.
constexpr std::uint32_t pool_entries(std::uint32_t window, std::uint32_t shards) noexcept {
  return 2 * ((window + shards - 1) / shards);
}
constexpr std::uint32_t pool_lines(std::uint32_t window, std::uint32_t shards,
                                   std::uint32_t elements) noexcept {
  return pool_entries(window, shards) * entry_lines(elements);
}

// Immutable once published. Rows of jobs that are not running are empty: their packets are Drop(job) and
// answered by REJECT.
class JobTable {
 public:
  [[nodiscard]] const Job* find(JobId id) const noexcept {
    return raw(id) <= kMaxJobs ? rows_[raw(id)].get() : nullptr;
  }
  // The copy with one row replaced; nullptr clears it. Cold path.
  [[nodiscard]] std::shared_ptr<const JobTable> with(JobId id, std::shared_ptr<const Job> job) const {
    auto next = std::make_shared<JobTable>(*this);
    next->rows_.at(raw(id)) = std::move(job);
    return next;
  }

 private:
  std::array<std::shared_ptr<const Job>, kMaxJobs + 1> rows_{};
};

}  // namespace tally
