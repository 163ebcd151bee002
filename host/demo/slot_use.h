#pragma once
// What the switch's counters say of the shared slots: who took them from whom, and what that means for the
// demo's story. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "box_report.h"

namespace tally {

// Of a job, or of several together.
struct SlotUse {
  std::uint64_t contributions = 0;
  std::uint64_t denied = 0;  // of them found no slot
  std::uint64_t taken = 0;   // slots that it took, from its own chunks or from others'
  std::uint64_t lost = 0;    // slots that were taken from it

  bool operator==(const SlotUse&) const = default;
};

// Since the start of the switch. Nothing: the report, as far as it has come, does not show that the job
// shares slots.
[[nodiscard]] std::optional<SlotUse> slot_use(const BoxReport& report, const std::string& job);
// All together, or nothing if one of them is not there.
[[nodiscard]] std::optional<SlotUse> slot_use(const BoxReport& report, std::span<const std::string> jobs);
// later - earlier
[[nodiscard]] SlotUse since(const SlotUse& later, const SlotUse& earlier);

// The line that is printed when the late jobs come, and the one when they have gone: what happened before,
// and what meanwhile. jobs, late: "resnet50 and bert", "urgent".
[[nodiscard]] std::string before_text(const std::string& jobs, const std::string& late, std::uint32_t slots,
                                      const SlotUse& of_jobs);
[[nodiscard]] std::string meanwhile_text(const std::string& jobs, const std::string& late,
                                         const SlotUse& of_jobs, const SlotUse& of_late);
// "a", "a and b", "a, b and c"
[[nodiscard]] std::string listed(std::span<const std::string> names);

}  // namespace tally
