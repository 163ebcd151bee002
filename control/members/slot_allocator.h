#pragma once
// Slot memory of a core, handed out in ranges of lines. One allocator serves all cores: a job holds the same
// range on each. First fit: jobs come and go by the hour, so simplicity wins over packing.

#include <cstdint>
#include <optional>
#include <vector>

#include "jobs/job_table.h"

namespace tally::members {

class SlotAllocator {
 public:
  explicit SlotAllocator(std::uint32_t lines);

  // The lowest free range of `count` lines, count >= 1; empty if no hole is large enough.
  [[nodiscard]] std::optional<jobs::LineRange> allocate(std::uint32_t count);
  // As many at the end of the highest hole that has them.
  [[nodiscard]] std::optional<jobs::LineRange> allocate_high(std::uint32_t count);
  // Gives back exactly a range that allocate() returned.
  void release(jobs::LineRange range);

  [[nodiscard]] std::uint32_t lines() const noexcept { return lines_; }
  [[nodiscard]] std::uint32_t largest_hole() const noexcept;
  [[nodiscard]] std::uint32_t free_lines() const noexcept;

 private:
  std::uint32_t lines_;
  std::vector<jobs::LineRange> holes_;  // ascending, disjoint, never adjoining
};

}  // namespace tally::members
