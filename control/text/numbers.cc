#include "numbers.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace tally {

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

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %";
}

}  // namespace tally
