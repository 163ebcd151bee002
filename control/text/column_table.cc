#include "column_table.h"

#include <algorithm>
#include <utility>

#include "tally/check.h"

namespace tally {

ColumnTable::ColumnTable(std::vector<std::string> header, std::size_t left)
    : widths_(header.size()), left_(left) {
  add(std::move(header));
}

void ColumnTable::add(std::vector<std::string> row) {
  TALLY_CHECK(row.size() <= widths_.size(), "a row has no more cells than its table has columns");
  row.resize(widths_.size());
  for (std::size_t i = 0; i < row.size(); ++i) widen(i, row[i].size());
  rows_.push_back(std::move(row));
}

void ColumnTable::widen(std::size_t column, std::size_t width) {
  widths_[column] = std::max(widths_[column], width);
}

std::string ColumnTable::line(const std::vector<std::string>& row) const {
  std::string out;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string blanks(widths_[i] > row[i].size() ? widths_[i] - row[i].size() : 0, ' ');
    if (i > 0) out += "  ";
    out += i < left_ ? row[i] + blanks : blanks + row[i];
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string ColumnTable::text() const {
  std::string out;
  for (const auto& row : rows_) out += line(row);
  return out;
}

}  // namespace tally
