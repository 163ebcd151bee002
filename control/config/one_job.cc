#include "config/one_job.h"

#include <algorithm>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/yaml.h"

namespace tally::config {
namespace {

void forget_places(YamlNode& node) {
  node.at = {};
  for (YamlNode& item : node.items) forget_places(item);
  for (YamlEntry& entry : node.entries) {
    entry.at = {};
    forget_places(entry.value);
  }
}

// False: it is about another job, which runs as it is.
bool concerns(Diagnostic& d, const std::string& place) {
  if (!d.path.starts_with("jobs[")) {
    d.file = kTheBox;
    return true;
  }
  if (!d.path.starts_with(place)) return false;
  d.path.erase(0, place.size());
  if (d.path.starts_with('.')) d.path.erase(0, 1);
  return true;
}

}  // namespace

tl::expected<OneJob, Diagnostics> read_one_job(const YamlNode& node, const Config& running,
                                               const std::string& directory, TokenFiles token_files) {
  Config all = running;
  const std::size_t index = all.jobs.size();
  const std::string place = "jobs[" + std::to_string(index) + "]";
  const YamlSource source(kOneJob, "");
  Report report(source);
  Places places(Position{});
  Reading reading{report, places};
  all.jobs.emplace_back();
  read_job({node, place, reading}, job_schema(), all.jobs.back());
  if (node.kind == YamlNode::Kind::kMap) {
    Checking checking{all, places, report, index};
    complete_defaults(checking);
    check_config(checking);
    read_tokens(checking, directory, token_files);
  }
  Diagnostics found = report.take();
  // Warnings of the box are known since its start.
  std::erase_if(found, [&](Diagnostic& d) {
    return !concerns(d, place) || (d.file == kTheBox && d.severity == Severity::kWarning);
  });
  if (std::ranges::find(found, Severity::kError, &Diagnostic::severity) != found.end())
    return tl::unexpected<Diagnostics>(std::move(found));
  return OneJob{std::move(all.jobs.back()), std::move(found)};
}

YamlNode node_of(const JobConfig& job) {
  std::string text;
  dump_section(job_schema(), job, "", text);
  const YamlSource source(kOneJob, std::move(text));
  Report report(source);
  YamlNode node = parse_yaml(source, report).value_or(YamlNode{});
  forget_places(node);
  return node;
}

YamlNode overlaid(YamlNode job, const YamlNode& keys) {
  if (job.kind != YamlNode::Kind::kMap || keys.kind != YamlNode::Kind::kMap) return keys;
  for (const YamlEntry& entry : keys.entries) {
    const auto there = std::ranges::find(job.entries, entry.key, &YamlEntry::key);
    if (there == job.entries.end())
      job.entries.push_back(entry);
    else
      there->value = overlaid(std::move(there->value), entry.value);
  }
  return job;
}

}  // namespace tally::config
