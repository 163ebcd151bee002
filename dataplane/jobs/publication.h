#pragma once
// How a new job table reaches the data cores.

#include <cstdint>
#include <memory>
#include <vector>

#include "job_table.h"
#include "tally/ids.h"

namespace tally {

// Lines that left a job, the same on every core. The core counts the job's filling entries in it out of its
// occupancy and zeroes every line.
struct FreedLines {
  JobId job{};
  // Layout: entries of that many elements from lines.first on. 0: a ledger, nothing but to be zeroed.
  std::uint16_t elements = 0;
  LineRange lines{};
  std::uint64_t members = 0;   // an entry with these contributors is complete, not filling
  std::uint32_t in_front = 1;  // lines of an entry before its values
};

// Every core executes every publication, in order: `freed` first, then the table.
struct Publication {
  std::uint64_t version = 0;  // increasing; never 0
  std::shared_ptr<const JobTable> table{};
  std::vector<FreedLines> freed{};  // to be zeroed by each core before it loads the table
};

}  // namespace tally
