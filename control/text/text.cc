#include "text/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include "tally/check.h"

namespace tally::text {

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

std::string with_commas(std::uint64_t n) {
  const std::string digits = std::to_string(n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string short_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fixed(value, digits) + " " + kUnits[unit];
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return length > 0 ? std::string(text.data()) : std::string("?");
}

std::string percent_text(std::uint32_t ppm) {
  std::string out = std::to_string(ppm / 10'000);
  if (const std::uint32_t rest = ppm % 10'000; rest != 0) {
    std::string digits = std::to_string(10'000 + rest).substr(1);
    while (digits.ends_with('0')) digits.pop_back();
    out.append(".").append(digits);
  }
  return out + "%";
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %";
}

std::size_t typing_errors(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t changed = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace tally::text
