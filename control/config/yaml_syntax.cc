#include "yaml_syntax.h"

#include <array>
#include <cctype>

namespace tally {
namespace {

struct Explanation {
  std::string_view yaml;  // how yaml-cpp's message begins
  std::string_view message;
  std::string_view help;
};

constexpr std::string_view kIndent =
    "indent keys of one map alike, list entries with '- ', and end every key with ': '";

constexpr std::array kExplanations{
    Explanation{"end of map flow", "this {...} is not closed", "write '}' behind its last key"},
    Explanation{"end of sequence flow", "this [...] is not closed", "write ']' behind its last value"},
    Explanation{"end of map", "this does not fit what stands above it", kIndent},
    Explanation{"end of sequence", "this does not fit the list above it", kIndent},
    Explanation{"illegal map value", "a ':' where no key can end",
                "put a value that contains ': ' in quotes; indent keys of one map alike"},
    Explanation{"illegal map key", "a '?' where no key can begin", "put the value in quotes"},
    Explanation{"illegal block entry", "a '- ' where no list can begin",
                "begin the list in the next line, or write it as [a, b]"},
    Explanation{"illegal flow end", "a bracket that closes nothing",
                "remove it, or add what is missing in front of the one that opens"},
    Explanation{"illegal EOF", "the quote that opens here is never closed", "close it in the same line"},
    Explanation{"unknown escape", "an unknown escape behind '\\'",
                "write \\\\ for a backslash, or use '...'"},
    Explanation{"bad file", "nested too deep", "a configuration needs four levels; is this the right file?"},
    Explanation{"unknown token", "no value begins with this character", "put the value in quotes"},
    Explanation{"the referenced anchor", "an alias (*)", "aliases are not allowed: write the value itself"},
    Explanation{"alias not found", "an alias (*)", "put a value that begins with * in quotes"},
    Explanation{"anchor not found", "an anchor (&)", "put a value that begins with & in quotes"},
};

// Where 'key:value' misses its space, as the byte behind the ':'; npos if nowhere. A ':' inside a quoted or
// bracketed value is not meant.
std::size_t missing_space(std::string_view line) {
  std::size_t i = line.find_first_not_of(" -");
  if (i == std::string_view::npos) return i;
  while (i < line.size() && (std::isalnum(static_cast<unsigned char>(line[i])) != 0 || line[i] == '_')) ++i;
  const bool tight = i + 1 < line.size() && line[i] == ':' && line[i + 1] != ' ';
  return tight ? i + 1 : std::string_view::npos;
}

}  // namespace

Complaint explain_syntax(std::string_view yaml_message, const YamlSource& source, Position& at) {
  // 'key:value' reads as one word, and yaml-cpp stumbles over the next line's ':'.
  for (std::uint32_t line = at.line; line > 0 && line + 1 >= at.line; --line) {
    const std::size_t byte = missing_space(source.line(line));
    if (byte == std::string_view::npos) continue;
    at = source.position(line, byte);
    return {"a space is missing behind ':'", "write 'key: value'"};
  }
  const std::string_view before = source.line(at.line).substr(0, source.byte_of(at));
  const auto last = before.find_last_not_of(' ');
  if (last != std::string_view::npos && (before[last] == '"' || before[last] == '\'')) {
    return {"text behind the closing quote", "put the whole value in one pair of quotes"};
  }
  for (const auto& e : kExplanations) {
    if (yaml_message.starts_with(e.yaml)) return {std::string(e.message), std::string(e.help)};
  }
  return {"not YAML here: " + std::string(yaml_message), "compare with conf/demo.yaml"};
}

}  // namespace tally
