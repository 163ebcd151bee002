#pragma once
// A table for people: columns as wide as their widest cell, numbers to the right.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::text {

class ColumnTable {
 public:
  // left: how many columns from the first on are text and stand to the left.
  explicit ColumnTable(std::vector<std::string> header, std::size_t left = 1);
  void add(std::vector<std::string> row);  // cells that it lacks at its end stay empty
  [[nodiscard]] std::string text() const;  // lines with their ends, no blanks before them
  // A wide enough column keeps the rows of a table that is printed line by line under its header.
  void widen(std::size_t column, std::size_t width);
  [[nodiscard]] std::string header_line() const { return line(rows_.front()); }
  [[nodiscard]] std::string line(const std::vector<std::string>& row) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
  std::size_t left_;
};

// Numbers for people.

// 25,557,032
[[nodiscard]] std::string with_commas(std::uint64_t n);
// 102 MB: in the unit that leaves 3 digits, powers of 1000.
[[nodiscard]] std::string short_bytes(std::uint64_t bytes);
// With `digits` behind the point.
[[nodiscard]] std::string fixed(double value, int digits);
// part / whole with one digit behind the point, such as "12.5 %"; "-" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);
// Parts per million with as many digits behind the point as they need: "12.5%".
[[nodiscard]] std::string percent_text(std::uint32_t ppm);

// How far a word is from the one that was meant; each caller decides how far is near.

// Optimal string alignment distance: letters wrong, missing, too many, or two neighbours swapped.
[[nodiscard]] std::size_t typing_errors(std::string_view a, std::string_view b);

}  // namespace tally::text
