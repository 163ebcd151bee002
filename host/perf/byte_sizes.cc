#include "byte_sizes.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace tally {

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.size() == 3 && unit.ends_with("iB")) unit.remove_suffix(2);
  unsigned shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (error != std::errc{} || (shift == 0 && !unit.empty()) || (n << shift) >> shift != n) {
    return fail(ErrorCode::kInvalidArgument,
                std::string("write a size in bytes as 4096, 4K, 1M or 2G, not '").append(text).append("'"));
  }
  return n << shift;
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

}  // namespace tally
