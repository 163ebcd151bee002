#pragma once
// What people read and write, for every program of the tree.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tally/error.h"
#include "tally/net.h"

namespace tally::text {

// A table for people: columns as wide as their widest cell, numbers to the right.
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

// Broken at blanks into lines of at most `width` bytes; a word that is longer stays whole.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, std::size_t width);

// Characters of a UTF-8 text, one by one, and how a terminal may see them.

// Bytes of the valid UTF-8 character (RFC 3629: no surrogates, no overlong forms) at `at`; 0 if there is
// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at) noexcept;

// The same, but a broken byte counts as a character of length 1. at < text.size().
[[nodiscard]] std::size_t character_length(std::string_view text, std::size_t at) noexcept;

// One character as a terminal may show it: a tab as \t, other control characters and broken bytes as \xNN,
// what turns or breaks the text behind it as \uNNNN, which YAML reads in double quotes.
[[nodiscard]] std::string printable(std::string_view character);

// Text of others made fit for terminals and logs: a blank for each character that is not shown as it is.
[[nodiscard]] std::string cleaned(std::string_view text);
// Of what is named in the configuration: letters, digits, '_', '-' and '.', the first a letter or a digit.
[[nodiscard]] bool is_name_character(char c) noexcept;
[[nodiscard]] bool is_name(std::string_view text) noexcept;
[[nodiscard]] inline std::string cleaned(std::span<const std::byte> text) {
  return cleaned(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
}

// Numbers for people.

// 0x1f
[[nodiscard]] std::string hexadecimal(std::uint64_t n);
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

// "1 core", "2 cores"
[[nodiscard]] std::string counted(std::uint64_t n, std::string_view noun);
// "a, b, c": of strings or numbers. word: of each, where that is not the element itself.
template <class Range, class Word = std::identity>
[[nodiscard]] std::string listed(const Range& all, std::string_view between = ", ", Word word = {}) {
  std::string text;
  for (bool first = true; const auto& each : all) {
    if (!std::exchange(first, false)) text += between;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(each)>>)
      text += std::to_string(each);
    else
      text += std::invoke(word, each);
  }
  return text;
}

// What a person wrote, in a message to that person. (std::quoted would be found for strings by
// argument-dependent lookup.)
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

// A whole number in low..high and nothing else.
[[nodiscard]] std::optional<std::uint64_t> whole_number(std::string_view text, std::uint64_t low,
                                                        std::uint64_t high);
// 4096, 4K, 1M or 2G: bytes; powers of 1024, also written KiB, MiB, GiB.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);
// An IP address without a port, scope or prefix length, IPv4 as ::ffff:a.b.c.d; IPv4 in IPv6's notation is
// none.
[[nodiscard]] std::optional<Ipv6> ip_address(std::string_view text);

// Why a text is no job or token; empty if it is fine.
[[nodiscard]] std::string objection_to(std::string_view text, std::size_t most_bytes);
// A job's token: the text of a file without the end of its line, 1..64 bytes. where: what named the file, for
// errors.
[[nodiscard]] Result<std::string> read_token(const std::string& path, const std::string& where);

// How far a word is from the one that was meant; each caller decides how far is near.

// Optimal string alignment distance: letters wrong, missing, too many, or two neighbours swapped.
[[nodiscard]] std::size_t typing_errors(std::string_view a, std::string_view b);

}  // namespace tally::text
