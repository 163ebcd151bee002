#pragma once
// The machine that a figure was measured on, and what spoils figures there right now.

#include <string>
#include <vector>

namespace tally {

struct Machine {
  std::string cpu{};
  unsigned cores = 0;
  std::string kernel{};
  std::string governor{};  // of CPU 0; "none visible" in most virtual machines
  double load = 0;         // of the last minute
  std::string version{};   // of Tally: release, and commit when it runs out of a git tree
};

[[nodiscard]] Machine read_machine();

// "AMD EPYC, 2 cores, kernel 6.1, governor none visible, load 0.03, tally 0.1.0 (abc123)"
[[nodiscard]] std::string machine_line(const Machine& machine);

[[nodiscard]] std::vector<std::string> machine_warnings(const Machine& machine);

}  // namespace tally
