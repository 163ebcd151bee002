#include "yaml_tree.h"

#include <algorithm>
#include <sstream>

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "tree_builder.h"
#include "yaml_syntax.h"

namespace tally {
namespace {

void report_syntax(const YAML::Exception& e, const YamlSource& source, Report& report) {
  const auto line = static_cast<std::uint32_t>(std::max(e.mark.line, 0)) + 1;
  Position at =
      source.position(std::min(line, source.lines()), static_cast<std::size_t>(std::max(e.mark.column, 0)));
  Complaint complaint = explain_syntax(e.msg, source, at);
  report.error(at, "", std::move(complaint));
}

}  // namespace

std::optional<YamlNode> parse_yaml(const YamlSource& source, Report& report) {
  TreeBuilder builder(source, report);
  try {
    std::istringstream text(source.text());
    YAML::Parser parser(text);
    // A second document is an error, and the only thing that is said of it.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& e) {
    if (!builder.ran_on()) report_syntax(e, source, report);
    return std::nullopt;
  }
  if (builder.swallowed()) return std::nullopt;
  return std::move(builder.root());
}

}  // namespace tally
