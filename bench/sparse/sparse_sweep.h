#pragma once
// Which sums there are, all of them on a few threads, and what they leave behind.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "virtual_sums.h"

namespace tally::sparse {

enum class Table : std::uint8_t {
  kHeadline,  // links, workers, types, blocks
  kWindows,   // longer round trips, larger windows
  kBox,       // whose box takes what it takes
};
inline constexpr std::array<std::string_view, 3> kTableNames{"headline", "windows", "box"};

struct Cell {
  Table table{};
  Conditions conditions{};
};

struct Done {
  Cell cell{};
  Measured measured{};
  [[nodiscard]] double of_ideal() const { return measured.ideal / static_cast<double>(measured.time); }
  [[nodiscard]] double of_format() const { return measured.of_format / static_cast<double>(measured.time); }
};

inline constexpr double kGoal = 0.8;  // of the ideal

[[nodiscard]] std::vector<Cell> all_cells(bool quick);
// In the order of the cells. Ends the program where a run has no figure.
[[nodiscard]] std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads);
// How many times faster than the sum of as many values of which none is zero, all else alike; 0: there is none.
[[nodiscard]] double gain_of(const std::vector<Done>& runs, const Done& run);
[[nodiscard]] std::uint64_t wrong_in(const std::vector<Done>& runs);
[[nodiscard]] std::string markdown_of(const std::vector<Done>& runs);
[[nodiscard]] std::string json_of(const std::vector<Done>& runs);

}  // namespace tally::sparse
