#pragma once
// The boxes that the contributions of a job come through in one epoch (docs/protocol_boxes.md, 17.4): which ranks
// are behind each of them, and what must be known to send there. A job without a plan has one box, index 0, and
// everybody behind it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/worker_join.h"
#include "tally/ids.h"
#include "tally/plan.h"
#include "tally/wire.h"

namespace tally::ps {

// A box as the server has it: the job's id there, and its data cores.
struct JobBox {
  JobId job{};
  std::uint32_t shards = 1;
  bool open = false;  // the server is a member there now

  [[nodiscard]] std::uint16_t port_of(std::uint32_t slot) const noexcept {
    return static_cast<std::uint16_t>(kBasePort + slot % shards);
  }
};

class JobBoxes {
 public:
  // plan: nullptr in a job that has none; its box is open. home: which of the plan's boxes told of the epoch,
  // PlannedText::kNoBox for none of them; it is open, the others are not yet.
  void enter(const engine::Membership& membership, std::shared_ptr<const Plan> plan, BoxIndex home);
  void open(BoxIndex box, JobId job, std::uint32_t shards) { boxes_[box] = {job, shards, true}; }
  void close(BoxIndex box) { boxes_[box].open = false; }

  [[nodiscard]] bool planned() const noexcept { return plan_ != nullptr; }
  [[nodiscard]] const Plan* plan() const noexcept { return plan_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return boxes_.size(); }
  [[nodiscard]] const JobBox& operator[](BoxIndex box) const noexcept { return boxes_[box]; }

  // Bitmaps of ranks. here: whose contributions the box adds up, so that it may hold some that wait for others;
  // through: these and those that it passes on. A plan is needed.
  [[nodiscard]] std::uint64_t here(BoxIndex box, Chunk chunk) const noexcept;
  [[nodiscard]] std::uint64_t through(BoxIndex box, Chunk chunk) const noexcept;
  // Who is alone in here() takes no entry there: what it sends is passed on at once. Of all others a box may have an
  // entry. Bitmap of the boxes that may have some of these ranks in one:
  [[nodiscard]] std::uint64_t holders(std::uint64_t ranks, Chunk chunk) const noexcept;
  // The ranks that boxes may have in an entry, but those of the boxes in the bitmap.
  [[nodiscard]] std::uint64_t held_but(std::uint64_t boxes, Chunk chunk) const noexcept;
  // Where the lowest of these ranks comes through. ranks: members, at least one.
  [[nodiscard]] BoxIndex box_of(std::uint64_t ranks, Chunk chunk) const noexcept;

 private:
  // here() of each box, 0 where it takes no entry.
  [[nodiscard]] std::array<std::uint64_t, kMaxPlanBoxes> entries(Chunk chunk) const noexcept;

  std::vector<JobBox> boxes_;
  std::shared_ptr<const Plan> plan_;
  // Ranks have few tables between them: one look at each table finds all of a group.
  std::array<std::uint64_t, kMaxPlanTables> ranks_of_{};  // by table
};

}  // namespace tally::ps
