#pragma once
// Tables for people: the first column to the left, the others to the right.

#include <cstdint>
#include <string>
#include <vector>

namespace tally {

// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t value);
// part / whole with one digit behind the point, such as "12.5 %"; "-" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  // As many cells as the header has; fewer: the rest stays empty.
  void add(std::vector<std::string> cells);
  // Lines with a break at the end of each, no spaces at the end of any.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tally
