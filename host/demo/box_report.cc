#include "box_report.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

namespace tally {
namespace {

// The cells of a line of a table: at least two blanks part them.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find("  ", at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = std::min(line.find_first_not_of(' ', end), line.size());
  }
  return cells;
}

// "1,234"
std::optional<std::uint64_t> number_of(std::string text) {
  std::erase(text, ',');
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

}  // namespace

bool BoxReport::take(std::string_view line) {
  if (line.starts_with("tallyd ") && line.find(": counters after ") != std::string_view::npos) text_.clear();
  text_.append(line).append("\n");
  return line.empty();
}

std::optional<std::uint64_t> BoxReport::number(std::string_view table, std::string_view row,
                                               std::string_view column) const {
  std::istringstream lines(text_);
  bool inside = false;  // the table
  bool first = true;    // line of a table
  std::size_t at = 0;   // of the column
  for (std::string line; std::getline(lines, line); first = line.empty()) {
    const auto cells = cells_of(line);
    if (first || cells.empty()) {
      inside = !cells.empty() && cells[0] == table;
      at = static_cast<std::size_t>(std::ranges::find(cells, column) - cells.begin());
    } else if (inside && cells[0] == row) {
      return at < cells.size() ? number_of(cells[at]) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace tally
