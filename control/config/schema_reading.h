#pragma once
// The parts of reading a section that do not depend on what the section is.

#include <string>
#include <vector>

#include "places.h"
#include "report.h"
#include "yaml_node.h"

namespace tally {

struct Reading {
  Report& report;
  Places& places;
};

// path.name; just name at the top.
[[nodiscard]] std::string member_path(const std::string& path, const std::string& name);
[[nodiscard]] bool has_key(const YamlNode& map, const std::string& name);

// False if the node is something else; that is reported then and the path marked broken.
bool expect_map(const YamlNode& node, const std::string& path, const std::vector<std::string>& keys,
                Reading& reading);
bool expect_list(const YamlNode& node, const std::string& path, Reading& reading);
// form: what may be written instead.
bool expect_scalar(const YamlNode& node, const std::string& path, const std::string& form, Reading& reading);

void report_unknown_key(const YamlEntry& entry, const std::string& path,
                        const std::vector<std::string>& known, Reading& reading);
void report_missing(const YamlNode& map, const std::string& path, const std::string& key, Reading& reading);
// '<value> is not in this version'. An empty value: the key itself. only: what works; empty: nothing.
void report_not_here(const YamlNode& node, const std::string& path, const std::string& value,
                     const std::string& only, Reading& reading);

}  // namespace tally
