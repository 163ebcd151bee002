#pragma once
// A profile of the loop for people and programs. Pure.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "step_profile.h"

namespace tally::bench {

struct StepLine {
  std::string key{};         // for programs
  std::string name{};        // for people
  std::uint64_t events = 0;  // packets of its kind, results, or all contributions
  double each = 0;           // cycles of one of these, stamps taken off
  double share = 0;          // cycles for each contribution of the whole loop
};

struct StepFigures {
  std::vector<StepLine> lines{};  // whose shares add up to `total`; rows without events are left out
  std::uint64_t contributions = 0;
  double total = 0;        // cycles for each contribution, stamps taken off
  double with_stamps = 0;  // the same with them
  double unprofiled = 0;   // of the loop as it is in the product, measured in turn
  double stamp = 0;        // cycles taken off for each stamp
  double stamps = 0;       // for each contribution
  double tsc_hz = 0;
};

// rounds: as middle_half() wants them. stamp: as stamp_cycles() says. unprofiled: cycles for each
// contribution.
[[nodiscard]] StepFigures step_figures(std::vector<StepProfile> rounds, double stamp, double unprofiled,
                                       double tsc_hz);

// Heads, a line for each step, and the sum beside the loop that was not profiled.
[[nodiscard]] std::string step_table(const StepFigures& figures);
[[nodiscard]] std::string step_csv(const StepFigures& figures);
[[nodiscard]] nlohmann::json step_json(const StepFigures& figures);

}  // namespace tally::bench
