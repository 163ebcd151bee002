#pragma once
// The machine that a figure was measured on, and what spoils figures there right now.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tally::perf {

struct Machine {
  std::string cpu{};
  unsigned cores = 0;
  std::string kernel{};
  std::string governor{};  // of CPU 0; "none visible" in most virtual machines
  double load = 0;         // of the last minute
  std::string version{};   // of Tally: release, and commit when it runs out of a git tree
};

[[nodiscard]] Machine read_machine();

// "AMD EPYC, 2 cores, kernel 6.1, governor none visible, load 0.03, tally 0.2.0 (abc123)"
[[nodiscard]] std::string machine_line(const Machine& machine);

[[nodiscard]] std::vector<std::string> machine_warnings(const Machine& machine);

// The machine of a figure in a results file.

// "warnings": machine_warnings().
[[nodiscard]] nlohmann::json machine_json(const Machine& machine);

}  // namespace tally::perf
