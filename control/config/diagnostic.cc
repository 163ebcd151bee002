#include "diagnostic.h"

#include <algorithm>

namespace tally {
namespace {

std::string counted(std::ptrdiff_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string to_text(const Diagnostic& d) {
  std::string out = d.file;
  std::string gutter(4, ' ');
  if (d.at.line > 0) {
    out.append(":").append(std::to_string(d.at.line)).append(":").append(std::to_string(d.at.column));
  }
  out += d.severity == Severity::kError ? ": error: " : ": warning: ";
  if (!d.path.empty()) out += d.path + ": ";
  out += d.message + "\n";
  if (d.at.line > 0) {
    const std::string number = std::to_string(d.at.line);
    gutter.resize(std::max(gutter.size(), number.size()), ' ');
    out.append(gutter.size() - number.size(), ' ')
        .append(number)
        .append(" | ")
        .append(d.excerpt)
        .append("\n");
    out.append(gutter).append(" | ").append(d.caret, ' ').append("^\n");
  }
  if (!d.help.empty()) out += gutter + " = " + d.help + "\n";
  return out;
}

std::string one_line(const Diagnostic& d) {
  std::string line = d.file;
  if (d.at.line > 0) {
    line.append(":").append(std::to_string(d.at.line)).append(":").append(std::to_string(d.at.column));
  }
  if (!d.path.empty()) line.append(": ").append(d.path);
  line.append(": ").append(d.message);
  if (!d.help.empty()) line.append("; ").append(d.help);
  return line;
}

std::string to_text(const Diagnostics& diagnostics) {
  std::string out;
  for (const auto& d : diagnostics) out += to_text(d);
  const auto errors = std::count_if(diagnostics.begin(), diagnostics.end(),
                                    [](const Diagnostic& d) { return d.severity == Severity::kError; });
  const auto warnings = static_cast<std::ptrdiff_t>(diagnostics.size()) - errors;
  if (errors > 0) out += counted(errors, "error");
  if (errors > 0 && warnings > 0) out += ", ";
  if (warnings > 0) out += counted(warnings, "warning");
  if (!diagnostics.empty()) out += "\n";
  return out;
}

}  // namespace tally
