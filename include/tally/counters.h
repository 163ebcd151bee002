#pragma once
// Counters of one data core for one job. Written by that core only, read by control; row 0 of a core counts
// the packets that matched no job, so every packet changes exactly one of `verdicts` and `drops`.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/drop.h"
#include "tally/one_writer.h"
#include "tally/verdict.h"

namespace tally {

// Lines of its own: what lies beside it may be another core's.
struct alignas(64) JobCounters {
  std::array<OneWriter<std::uint64_t>, kVerdictCount>
      verdicts{};  // [kDrop] stays 0: drops are counted by reason
  std::array<OneWriter<std::uint64_t>, kDropCount> drops{};

  bool operator==(const JobCounters&) const noexcept = default;
  [[nodiscard]] std::uint64_t of(Verdict v) const noexcept { return verdicts[static_cast<std::size_t>(v)]; }
  [[nodiscard]] std::uint64_t of(Drop d) const noexcept { return drops[static_cast<std::size_t>(d)]; }
  [[nodiscard]] std::uint64_t packets() const noexcept {
    std::uint64_t n = 0;
    for (const auto& v : verdicts) n += v;
    for (const auto& d : drops) n += d;
    return n;
  }
};
static_assert(sizeof(JobCounters) % 64 == 0 && static_cast<std::size_t>(Verdict::kComplete) < 8,
              "contributions and results are counted in one line");

}  // namespace tally
