#include "text/text.h"

#include <arpa/inet.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>

#include "tally/check.h"
#include "tally/wire.h"

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

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.size();
    if (end - at > width) {
      end = text.rfind(' ', at + width);
      if (end == std::string::npos || end <= at) end = std::min(text.find(' ', at), text.size());
    }
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool is_name_character(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
         std::ranges::all_of(text, is_name_character);
}

std::string hexadecimal(std::uint64_t n) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n, 16);
  return "0x" + std::string(digits.data(), end.ptr);
}

std::string counted(std::uint64_t n, std::string_view noun) {
  return std::to_string(n).append(" ").append(noun).append(n == 1 ? "" : "s");
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

std::optional<std::uint64_t> whole_number(std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end || number < low || number > high) return std::nullopt;
  return number;
}

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
                "write a size in bytes as 4096, 4K, 1M or 2G, not " + in_quotes(text));
  }
  return n << shift;
}

namespace {

std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (at < text.size() && first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0) return 0;
  // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  return length;
}

std::size_t character_length(std::string_view text, std::size_t at) noexcept {
  const std::size_t length = utf8_length(text, at);
  return length == 0 ? 1 : length;
}

namespace {

// Unicode's controls of direction and its ends of lines and paragraphs: with them a line reads otherwise than
// it is. Some languages need them in a comment, so they are shown and not refused.
std::string direction_control(std::string_view c) {
  const auto byte = [&c](std::size_t i) { return static_cast<unsigned char>(c[i]); };
  if (c == "\xD8\x9C") return "\\u061C";
  if (c.size() != 3 || byte(0) != 0xE2) return {};
  const unsigned low = (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  const bool turns =
      low == 0x0E || low == 0x0F || (low >= 0x28 && low <= 0x2E) || (low >= 0x66 && low <= 0x69);
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return turns ? std::string("\\u20") + kDigits[low >> 4U] + kDigits[low & 15U] : std::string();
}

}  // namespace

std::string printable(std::string_view character) {
  if (character == "\t") return "\\t";
  if (std::string seen = direction_control(character); !seen.empty()) return seen;
  const auto first = static_cast<unsigned char>(character[0]);
  const bool control =
      first < 0x20 || first == 0x7F ||
      (first == 0xC2 && character.size() == 2 && static_cast<unsigned char>(character[1]) < 0xA0);
  const bool broken = utf8_length(character, 0) != character.size();
  return control || broken ? escaped(character) : std::string(character);
}

std::string cleaned(std::string_view text) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, character_length(text, at));
    clean += printable(character) == character ? character : " ";
    at += character.size();
  }
  return clean;
}

std::optional<Ipv6> ip_address(std::string_view text) {
  const std::string copy(text);
  Ipv4 v4{};
  if (inet_pton(AF_INET, copy.c_str(), v4.data()) == 1) return mapped(v4);
  Ipv6 v6{};
  if (inet_pton(AF_INET6, copy.c_str(), v6.data()) == 1 && !is_mapped_ipv4(v6)) return v6;
  return std::nullopt;
}

std::string objection_to(std::string_view text, std::size_t most_bytes) {
  if (text.size() > most_bytes)
    return " has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(most_bytes) +
           " are allowed";
  const bool control =
      std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
  return control ? " contains a line break or another control character" : "";
}

Result<std::string> read_token(const std::string& path, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    return fail(ErrorCode::kInvalidArgument, in_quotes(path) + what, where);
  };
  std::ifstream file(path, std::ios::binary);
  const int why = errno;
  if (!file) return system_failure("cannot read " + in_quotes(path), why, where);
  constexpr std::size_t kEnough = 4096;
  std::string token(kEnough, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  if (file.bad()) return refuse(" cannot be read as a file");
  token.resize(static_cast<std::size_t>(file.gcount()));
  if (token.ends_with('\n')) token.pop_back();
  if (token.ends_with('\r')) token.pop_back();
  if (token.empty()) return refuse(" is empty; put the job's token in it");
  if (const auto objection = objection_to(token, kMaxTokenBytes); !objection.empty())
    return refuse(" is no token file: its text" + objection);
  return token;
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
