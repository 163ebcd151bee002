#include "schema_reading.h"

#include <algorithm>

#include "nearest.h"
#include "printable.h"
#include "reference_row.h"

namespace tally {
namespace {

using Kind = YamlNode::Kind;

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// Reports that a node has the wrong shape. False, for the caller to return.
bool wrong_shape(const YamlNode& node, const std::string& path, const std::string& wanted,
                 const std::string& help, Reading& reading) {
  reading.places.mark_broken(path);
  if (node.kind == Kind::kBroken) return false;
  std::string seen = kind_name(node.kind);
  if (node.kind == Kind::kScalar) seen = shown(node.text);
  const bool top = path.empty();
  if (node.kind == Kind::kEmpty) {
    reading.report.error(node.at, path,
                         {top ? "there is no configuration here" : "this key has no value", help});
  } else {
    reading.report.error(node.at, path,
                         {(top ? "a configuration is " : "this is ") + (top ? wanted : seen) + ", not " +
                              (top ? seen : wanted),
                          help});
  }
  return false;
}

// An escape such as "\x07" can bring in what the text of the file cannot contain.
bool is_printable(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); at += character_length(text, at)) {
    const auto character = std::string_view(text).substr(at, character_length(text, at));
    if (printable(character) != character) return false;
  }
  return true;
}

// The other sections that know this key.
std::string homes_of(const std::string& key) {
  std::vector<std::string> out;
  for (const auto& row : reference_rows()) {
    const auto end = row.path.rfind('.');
    if (row.path.substr(end == std::string::npos ? 0 : end + 1) != key) continue;
    out.push_back(end == std::string::npos ? "the top level" : row.path.substr(0, end));
  }
  return joined(out);
}

std::string help_for_unknown(const std::string& key, const std::vector<std::string>& known) {
  std::string keys = "keys here: " + joined(known);
  if (key.starts_with('-')) return "a list entry begins with '- ': put a space behind the '-'";
  if (const auto colon = key.find(':'); colon != std::string::npos) {
    return "put a space behind the ':'; " + keys;
  }
  if (key.find('=') != std::string::npos) {
    return "inside {...} a comma ends a value: put a value with commas in quotes; " + keys;
  }
  if (key.find(' ') != std::string::npos) return "is a ':' missing? " + keys;
  if (const std::string near = nearest(key, known); !near.empty())
    return "did you mean " + near + "? " + keys;
  if (const std::string homes = homes_of(key); !homes.empty())
    return key + " belongs in " + homes + "; " + keys;
  return keys;
}

}  // namespace

std::string member_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

bool has_key(const YamlNode& map, const std::string& name) {
  return std::any_of(map.entries.begin(), map.entries.end(),
                     [&](const YamlEntry& e) { return e.key == name; });
}

bool expect_map(const YamlNode& node, const std::string& path, const std::vector<std::string>& keys,
                Reading& reading) {
  if (node.kind == Kind::kMap) return true;
  const std::string help = node.kind == Kind::kEmpty && !path.empty()
                               ? "give it some of its keys, or remove it: " + joined(keys)
                               : "write its keys, each as 'key: value': " + joined(keys);
  return wrong_shape(node, path, "a map of keys", help, reading);
}

bool expect_list(const YamlNode& node, const std::string& path, Reading& reading) {
  if (node.kind == Kind::kList) return true;
  if (node.kind == Kind::kMap && !node.entries.empty() && node.entries[0].key.starts_with('-')) {
    return wrong_shape(node, path, "a list", "put a space behind the '-' of each entry", reading);
  }
  return wrong_shape(node, path, "a list", "begin each entry with '- ', or write [] for none", reading);
}

bool expect_scalar(const YamlNode& node, const std::string& path, const std::string& form, Reading& reading) {
  if (node.kind == Kind::kScalar && is_printable(node.text)) return true;
  if (node.kind == Kind::kScalar) {
    reading.places.mark_broken(path);
    reading.report.error(node.at, path,
                         {shown(node.text) + " contains a control character", "write " + form});
    return false;
  }
  return wrong_shape(node, path, "a single value", "write " + form, reading);
}

void report_unknown_key(const YamlEntry& entry, const std::string& path,
                        const std::vector<std::string>& known, Reading& reading) {
  const std::string help = reading.report.is_full() ? "" : help_for_unknown(entry.key, known);
  reading.report.error(entry.at, path, {"unknown key " + shown(entry.key), help});
}

void report_missing(const YamlNode& map, const std::string& path, const std::string& key, Reading& reading) {
  const Position at = path.empty() ? Position{1, 1} : map.at;
  reading.places.mark_broken(member_path(path, key));
  reading.report.error(at, path, {"the key " + key + " is missing", "add it: it has no default"});
}

void report_not_here(const YamlNode& node, const std::string& path, const std::string& value,
                     const std::string& only, Reading& reading) {
  reading.places.mark_broken(path);
  if (node.kind == Kind::kBroken) return;
  reading.report.error(node.at, path,
                       {(value.empty() ? "this key" : value) + " is not in this version",
                        only.empty() ? "remove it" : "write " + only + ", or leave the key out"});
}

}  // namespace tally
