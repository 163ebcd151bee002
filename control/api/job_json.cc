#include "api/job_json.h"

#include <utility>

#include "api/results.h"
#include "config/one_job.h"

namespace tally::api {
namespace {

using Kind = config::YamlNode::Kind;

// quota.cap, members[0].mac -> /quota/cap, /members/0/mac. No key has a '/' or a '~'.
std::string pointer_of(const std::string& path) {
  std::string out = path.empty() ? "" : "/";
  for (const char c : path) {
    if (c != ']') out += c == '.' || c == '[' ? '/' : c;
  }
  return out;
}

}  // namespace

config::YamlNode node_of(const Json& value) {
  config::YamlNode node;
  if (value.is_object()) {
    node.kind = Kind::kMap;
    for (const auto& [key, item] : value.items()) node.entries.push_back({key, {}, node_of(item)});
  } else if (value.is_array()) {
    node.kind = Kind::kList;
    for (const Json& item : value) node.items.push_back(node_of(item));
  } else if (!value.is_null()) {
    node.kind = Kind::kScalar;
    node.quoted = value.is_string();
    node.text = value.is_string() ? value.get<std::string>() : dumped(value);
  }
  return node;
}

Json overlaid(Json job, const Json& keys) {
  if (!job.is_object() || !keys.is_object()) return keys;
  for (const auto& [key, value] : keys.items()) {
    Json& there = job[key];
    there = overlaid(std::move(there), value);
  }
  return job;
}

config::Diagnostics with_pointers(config::Diagnostics diagnostics) {
  for (config::Diagnostic& d : diagnostics) {
    if (d.file == config::kOneJob) d.path = pointer_of(d.path);
  }
  return diagnostics;
}

Failure job_failure(config::Diagnostics diagnostics) {
  return {Code::kConfiguration, "the job has errors; nothing was changed",
          Json{{"diagnostics", diagnostics_json(with_pointers(std::move(diagnostics)))}}};
}

}  // namespace tally::api
