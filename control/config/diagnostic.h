#pragma once
// One message about the configuration, as a compiler would give it: file:line:col, the line, a caret, what to
// do. Programs take the fields, people read to_text().

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tally {

// Both from 1; a column counts characters, not bytes. line 0: the file as a whole.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  constexpr auto operator<=>(const Position&) const noexcept = default;
};

enum class Severity : std::uint8_t { kWarning, kError };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;         // as the caller named it
  Position at{};            // where the fault is
  std::string path{};       // the key, such as jobs[0].window; empty: none in particular
  std::string message{};    // what is wrong
  std::string help{};       // what to do
  std::string excerpt{};    // the line, or the part of a long line around the fault, fit for a terminal
  std::uint32_t caret = 0;  // characters in front of the caret
};

using Diagnostics = std::vector<Diagnostic>;  // in the order of the file

[[nodiscard]] std::string to_text(const Diagnostic& diagnostic);
// For a log: file:line:col: message; what to do
[[nodiscard]] std::string one_line(const Diagnostic& diagnostic);
// All of them, and a last line that counts.
[[nodiscard]] std::string to_text(const Diagnostics& diagnostics);

}  // namespace tally
