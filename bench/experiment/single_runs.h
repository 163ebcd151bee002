#pragma once
// Single runs of the comparison, from the command line: a line of CSV for each.

#include <cstdint>
#include <string>
#include <vector>

#include "setting.h"

namespace tally::experiment {

// Empty: the default of Setting. Slots and losses in %.
struct SingleRuns {
  std::vector<std::string> rows;
  std::vector<double> slots;
  std::vector<double> losses;
  std::vector<std::uint64_t> seeds;
  std::vector<std::uint64_t> regimes;  // instead of slots, losses, seeds, mix and r
  std::string mix;
  std::string r;
};

[[nodiscard]] std::vector<std::string> names_of_rows();
[[nodiscard]] std::vector<std::string> names_of_mixes();
[[nodiscard]] std::vector<std::string> names_of_servers();

[[nodiscard]] std::vector<Setting> settings_of(const SingleRuns& wanted);
// With a first line that names the columns.
[[nodiscard]] std::string csv_of(const std::vector<Setting>& settings, const std::vector<Outcomes>& outcomes);

// Prints them. The exit code: 0, or 1 if a sum was wrong.
[[nodiscard]] int run_single(const SingleRuns& wanted, unsigned threads);

}  // namespace tally::experiment
