#include <algorithm>

#include "load_config.h"
#include "reference_row.h"

namespace tally {
namespace {

std::string section_of(const std::string& path) {
  const auto end = path.rfind('.');
  return end == std::string::npos ? std::string() : path.substr(0, end);
}

// What would end a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text.empty() ? "-" : text;
}

std::string row_text(const ReferenceRow& row) {
  const std::string section = section_of(row.path);
  const std::string key = row.path.substr(section.empty() ? 0 : section.size() + 1);
  const bool is_value = !row.fallback.empty() && row.fallback[0] != '(';
  return "| `" + key + "` | " + cell(row.form) + " | " +
         (is_value ? "`" + row.fallback + "`" : cell(row.fallback)) + " | " + cell(row.doc) + " |\n";
}

}  // namespace

std::string reference_markdown() {
  const auto rows = reference_rows();
  // Sections in the order of their first key; a section's keys need not be side by side.
  std::vector<std::string> sections;
  for (const auto& row : rows) {
    const std::string section = section_of(row.path);
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
  }
  std::string out;
  for (const auto& section : sections) {
    out += (out.empty() ? "" : "\n");
    out += section.empty() ? "## Top level\n\n" : "## `" + section + "`\n\n";
    out += "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const auto& row : rows) {
      if (section_of(row.path) == section) out += row_text(row);
    }
  }
  return out;
}

}  // namespace tally
