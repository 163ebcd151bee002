#include "text_checks.h"

#include <optional>
#include <string_view>

#include "printable.h"

namespace tally {
namespace {

constexpr std::string_view kNoBreakSpace = "\xC2\xA0";

// The first control character or broken byte of a line.
std::optional<Complaint> bad_character(std::string_view line, std::size_t& at) {
  for (at = 0; at < line.size(); at += utf8_length(line, at)) {
    const std::size_t length = utf8_length(line, at);
    const std::string seen = printable(line.substr(at, character_length(line, at)));
    if (length == 0) {
      return Complaint{"byte " + seen + " is not UTF-8", "save the file as UTF-8"};
    }
    if (line[at] == '\0') {
      return Complaint{"a NUL byte: this is not a text in UTF-8", "save the file as UTF-8, not as UTF-16"};
    }
    if (line[at] == '\r') {
      return Complaint{"a carriage return inside a line", "end lines with LF (or CR LF)"};
    }
    if (seen.size() > 1 && seen[0] == '\\' && line[at] != '\t') {
      return Complaint{"a control character (" + seen + ")", "remove it"};
    }
  }
  return std::nullopt;
}

// A tab or a no-break space that indents something.
std::optional<Complaint> bad_indentation(std::string_view line, std::size_t& at) {
  at = line.find_first_not_of(' ');
  if (at == std::string_view::npos) return std::nullopt;
  const auto text = line.find_first_not_of(" \t");
  if (text == std::string_view::npos || line[text] == '#') return std::nullopt;
  if (line[at] == '\t') return Complaint{"a tab indents this line", "YAML is indented with spaces; use two"};
  if (line.substr(at).starts_with(kNoBreakSpace)) {
    return Complaint{"a no-break space (U+00A0) indents this line",
                     "it looks like a space and often comes from a web page; replace it by a space"};
  }
  return std::nullopt;
}

}  // namespace

void check_text(const YamlSource& source, Report& report) {
  if (source.text().starts_with("\xFF\xFE") || source.text().starts_with("\xFE\xFF")) {
    report.error({1, 1}, "", {"the file is UTF-16", "save it as UTF-8"});
    return;
  }
  for (std::uint32_t number = 1; number <= source.lines(); ++number) {
    const std::string_view line = source.line(number);
    std::size_t at = 0;
    if (auto wrong = bad_character(line, at)) {
      report.error(source.position(number, at), "", *wrong);
      return;  // the rest is likely to be of the same kind
    }
    if (auto wrong = bad_indentation(line, at)) report.error(source.position(number, at), "", *wrong);
    if (line.starts_with('%')) {
      report.error({number, 1}, "", {"a YAML directive", "directives are not used here; remove the line"});
    }
  }
}

}  // namespace tally
