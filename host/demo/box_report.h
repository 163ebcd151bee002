#pragma once
// The counters that tallyd prints, taken apart: its tables, by the words that stand in them. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tally {

class BoxReport {
 public:
  // The next line of tallyd's output; the heading of a report puts away the one before. Returns whether a
  // table has just ended.
  bool take(std::string_view line);
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // table, row: their first words; column: its heading. Nothing if there is no such cell, or it is no number.
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view table, std::string_view row,
                                                    std::string_view column) const;

 private:
  std::string text_;
};

}  // namespace tally
