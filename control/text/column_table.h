#pragma once
// A table for people: columns as wide as their widest cell, numbers to the right.

#include <cstddef>
#include <string>
#include <vector>

namespace tally {

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

}  // namespace tally
