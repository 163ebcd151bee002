#pragma once
// Slot memory that a job has for itself on each core: what the allocator hands out.

#include <cstdint>

#include "job_table.h"
#include "shared_region.h"
#include "tally/discipline.h"

namespace tally {

// pool: its entries; shared: its ledger, which covers the span; by hash: nothing.
constexpr std::uint32_t own_lines(Discipline discipline, std::uint32_t window, std::uint32_t span,
                                  std::uint32_t shards, std::uint32_t elements) noexcept {
  switch (discipline) {
    case Discipline::kPool:
      return pool_lines(window, shards, elements);
    case Discipline::kShared:
      return ledger_lines(span, shards);
    case Discipline::kFcfs:
    case Discipline::kPreemptive:
      break;
  }
  return 0;
}

}  // namespace tally
