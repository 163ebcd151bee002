#pragma once
// Jobs for tests that do not go through membership: rows of the job table with made-up secrets.

#include <cstdint>
#include <memory>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "jobs/layout.h"

namespace tally {

struct JobSpec {
  std::uint16_t id = 1;
  std::uint32_t epoch = 0x1000'0001;
  std::uint64_t generation = 0xfeed'beef;
  std::uint8_t world = 2;
  std::uint8_t shards = 1;
  std::uint32_t window = 16;
  std::uint16_t elements = 16;
  std::uint32_t first_line = 0;  // of its pool or ledger
  // With shared slots the server is the embedded one, or there are external ones.
  std::uint8_t servers = 0;
  Discipline discipline = Discipline::kPool;
  Decay decay = Decay::kSilence;
  std::uint8_t max_priority = 254;
  std::uint32_t reserved = 0;
  std::uint32_t cap = 0xFFFF'FFFF;  // for who publishes the row: it lies beside it
  std::uint32_t shared_slots = 0;
  jobs::Stragglers stragglers{};
  std::uint64_t salt = 0;
  std::shared_ptr<const jobs::PlanPart> part;  // of a job over several boxes
  // Of a job of so many racks: this is the row of the second one's box. Each rack has `world` workers.
  std::uint8_t racks = 0;
  std::uint8_t parent_shards = 1;
  bool sparse = false;  // its members understand SPARSE and zero runs
};

inline constexpr JobId kJobAbove{1000};  // a job of racks has this number less its own at the parent
// The parent of a job of racks, as far as its shard 0 sends.
[[nodiscard]] jobs::Binding test_parent();

// Binding of rank: port = rank mod 4, 10.0.job.rank+1, one UDP port per rank.
[[nodiscard]] jobs::Binding test_binding(std::uint16_t job, std::uint16_t rank);
[[nodiscard]] jobs::NativeJob make_job(const JobSpec& spec);
[[nodiscard]] jobs::Box test_box(std::uint8_t i = 0);  // 10.255.0.i+1

// Zeroed slot memory for one core.
class SlotMemory {
 public:
  explicit SlotMemory(std::uint32_t lines) : lines_(lines) {}
  [[nodiscard]] jobs::Region region() noexcept { return lines_; }

 private:
  std::vector<jobs::Line> lines_;
};

}  // namespace tally
