#pragma once
// What one data core remembers of one job beside the registers. Written by the owner core only; control reads
// the OneWriter words.

#include <array>
#include <cstdint>

#include "tally/ids.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally {

struct JobState {
  OneWriter<std::uint32_t> occupancy = 0;  // the job's filling entries on this core, any epoch; never reset
  std::uint32_t bad_sums_in_row = 0;       // finished sums that failed their check, one after the other
  std::uint32_t suspect_chunks = 0;        // > 0: verify every contribution whatever the port says
  // Additions in which an element left int32 (second witness of OVERFLOW).
  OneWriter<std::uint64_t> overflows = 0;
  std::array<OneWriter<TimeNs>, kMaxRanks> last_seen{};  // of the rank's last new contribution

  [[nodiscard]] bool suspect() const noexcept { return suspect_chunks > 0; }

  void finished_well() noexcept {
    bad_sums_in_row = 0;
    if (suspect_chunks > 0) --suspect_chunks;
  }
  void finished_badly() noexcept {
    if (++bad_sums_in_row >= kSuspectAfter || suspect()) suspect_chunks = kSuspectChunks;
  }

  static constexpr std::uint32_t kSuspectAfter = 3;       // protocol.md, finish
  static constexpr std::uint32_t kSuspectChunks = 1'024;  // finished chunks without bad_sum
};

}  // namespace tally
