#include "load_config.h"

#include <exception>
#include <filesystem>
#include <utility>

#include "checks.h"
#include "read_file.h"
#include "schemas.h"
#include "text_checks.h"
#include "tokens.h"
#include "yaml_tree.h"

namespace tally {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20U;  // some 2,000 jobs

Diagnostics about_the_file(const std::string& name, Complaint complaint) {
  Diagnostic d{Severity::kError, name};
  d.message = std::move(complaint.message);
  d.help = std::move(complaint.help);
  return {std::move(d)};
}

// Reads and checks; what it finds is in the report.
Config read_config(const YamlSource& source, const std::string& directory, Report& report) {
  Config config;
  check_text(source, report);
  if (report.has_errors()) return config;
  const auto root = parse_yaml(source, report);
  if (!root) return config;
  Places places;
  Reading reading{report, places};
  YamlNode top = *root;
  if (top.at.line == 0) top.at = {1, 1};
  read_section(top, "", config_schema(), config, reading);
  if (top.kind == YamlNode::Kind::kMap) {
    Checking checking{config, places, report};
    complete_defaults(checking);
    check_config(checking);
    read_tokens(checking, directory);
  }
  return config;
}

}  // namespace

ConfigResult load_config_text(std::string text, const std::string& name, const std::string& directory) {
  try {
    const YamlSource source(name, std::move(text));
    Report report(source);
    Config config = read_config(source, directory, report);
    if (report.has_errors()) return tl::unexpected<Diagnostics>(report.take());
    return LoadedConfig{std::move(config), report.take()};
  } catch (const std::exception& e) {
    return tl::unexpected<Diagnostics>(about_the_file(
        name, {std::string("reading it failed: ") + e.what(), "this is a defect of tallyd; report it"}));
  }
}

ConfigResult load_config(const std::string& path) {
  auto file = read_file(path, kMaxConfigBytes);
  if (!file) return tl::unexpected<Diagnostics>(about_the_file(path, std::move(file.error())));
  return load_config_text(std::move(file->text), path, std::filesystem::path(path).parent_path().string());
}

}  // namespace tally
