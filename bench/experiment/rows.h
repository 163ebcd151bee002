#pragma once
// The rows of the comparison, and those that are left out with their reasons.

#include <span>
#include <string_view>

#include "setting.h"

namespace tally::experiment {

enum RowIndex : std::uint8_t {
  kNoInaRow,
  kPoolRow,
  kAtpHashRow,
  kAtpAnyFreeRow,
  kFcfsViaServerRow,
  kFcfsRow,
  kRandomPriorityRow,
  kPreemptiveNoneRow,
  kPreemptiveSilenceRow,
  kPreemptiveDenialRow,
  kNoSwapRow,
  kSharedRow,
  kRowCount,
};

[[nodiscard]] std::span<const Row> all_rows();
[[nodiscard]] inline const Row& row_at(RowIndex index) { return all_rows()[index]; }

struct LeftOut {
  std::string_view name;
  std::string_view why;
};
[[nodiscard]] std::span<const LeftOut> left_out();

}  // namespace tally::experiment
