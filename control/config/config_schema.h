#pragma once
// The schema: each section of the YAML is a table of keys, written once in *_section.cc. Reading with checks,
// defaults, --dump-config, the reference and comparing all walk these tables.

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/value_types.h"

namespace tally::config {

template <class S>
struct SchemaKey {
  std::string name;
  bool required = false;
  std::string refused = {};  // why it is in no configuration; all but the name is empty then
  std::function<void(const Written&, S&)> read = {};
  std::function<void(const S&, const std::string& indent, std::string& out)> dump = {};
  std::function<void(const std::string& prefix, std::vector<ReferenceRow>&)> describe =
      {};  // rows of the reference
  // Paths of what is not the same in both; empty: nothing can differ.
  std::function<void(const S&, const S&, const std::string& path, std::vector<std::string>& out)> compare =
      {};
  Applies applies = Applies::kRestart;  // of a section: of all its keys
};

template <class S>
SchemaKey<S> at_once(SchemaKey<S> key) {
  key.applies = Applies::kAtOnce;
  return key;
}
template <class S>
SchemaKey<S> next_generation(SchemaKey<S> key) {
  key.applies = Applies::kNextGeneration;
  return key;
}

template <class S>
using Schema = std::vector<SchemaKey<S>>;

// The keys that do something in this version.
template <class S>
std::vector<std::string> key_names(const Schema<S>& schema) {
  std::vector<std::string> out;
  for (const auto& key : schema) {
    if (key.refused.empty()) out.push_back(key.name);
  }
  return out;
}

// Reads what is there into `out` and reports what is wrong; what is absent keeps its default.
template <class S>
void read_section(const Written& map, const Schema<S>& schema, S& out) {
  if (!expect_map(map, key_names(schema))) return;
  for (const auto& entry : map.node.entries) {
    const auto key = std::ranges::find(schema, entry.key, &SchemaKey<S>::name);
    if (key == schema.end()) {
      report_unknown_key(map, entry, key_names(schema));
    } else if (!key->refused.empty()) {
      report_refused_key(map, entry, key->refused);
    } else {
      key->read({entry.value, member_path(map.path, key->name), map.reading}, out);
    }
  }
  for (const auto& key : schema) {
    if (key.required && !has_key(map.node, key.name)) report_missing(map, key.name);
  }
}

template <class S>
void dump_section(const Schema<S>& schema, const S& section, const std::string& indent, std::string& out) {
  for (const auto& key : schema) {
    if (key.dump) key.dump(section, indent, out);
  }
}

template <class S>
void compare_sections(const Schema<S>& schema, const S& a, const S& b, const std::string& prefix,
                      std::vector<std::string>& out) {
  for (const auto& key : schema) {
    if (key.compare) key.compare(a, b, member_path(prefix, key.name), out);
  }
}

template <class S>
void describe_section(const Schema<S>& schema, const std::string& prefix, std::vector<ReferenceRow>& rows) {
  for (const auto& key : schema) {
    const std::size_t first = rows.size();
    if (key.describe) key.describe(prefix, rows);
    for (std::size_t i = first; i < rows.size(); ++i)
      rows[i].applies = std::max(rows[i].applies, key.applies);
  }
}

// A single value or a list of them. Its default is the member's initialiser; fallback: how the reference
// shows it, where that is not the value itself.
template <class S, class T>
SchemaKey<S> value_key(std::string name, T S::*member, ValueType<T> type, std::string doc,
                       std::string fallback = {}) {
  if (fallback.empty()) fallback = type.print(S{}.*member);
  SchemaKey<S> key{std::move(name)};
  key.describe = [row = ReferenceRow{key.name, type.form, std::move(fallback), std::move(doc)}](
                     const std::string& prefix, std::vector<ReferenceRow>& rows) {
    rows.push_back(row);
    rows.back().path = member_path(prefix, row.path);
  };
  key.dump = [name = key.name, member, print = type.print](const S& s, const std::string& indent,
                                                           std::string& out) {
    out += indent + name + ": " + print(s.*member) + "\n";
  };
  key.compare = [member](const S& a, const S& b, const std::string& path, std::vector<std::string>& out) {
    if (!(a.*member == b.*member)) out.push_back(path);
  };
  key.read = [member, read = std::move(type.read)](const Written& w, S& out) {
    w.reading.places.put(w.path, w.node.at);
    if (auto value = read(w))
      out.*member = std::move(*value);
    else
      w.reading.places.mark_broken(w.path);
  };
  return key;
}

template <class S, class T>
SchemaKey<S> required_key(std::string name, T S::*member, ValueType<T> type, std::string doc) {
  SchemaKey<S> key = value_key(std::move(name), member, std::move(type), std::move(doc), "(required)");
  key.required = true;
  return key;
}

// Of a function that is not built, which `why` names: refused wherever it stands, and in no reference.
template <class S>
SchemaKey<S> refused_key(std::string name, const std::string& why) {
  SchemaKey<S> key{std::move(name)};
  key.refused = why;
  return key;
}

// A section inside a section.
template <class S, class T>
SchemaKey<S> section_key(std::string name, T S::*member, const Schema<T>& schema) {
  SchemaKey<S> key{std::move(name)};
  key.describe = [name = key.name, &schema](const std::string& prefix, std::vector<ReferenceRow>& rows) {
    describe_section(schema, member_path(prefix, name), rows);
  };
  key.dump = [name = key.name, member, &schema](const S& s, const std::string& indent, std::string& out) {
    out += indent + name + ":\n";
    dump_section(schema, s.*member, indent + "  ", out);
  };
  key.compare = [member, &schema](const S& a, const S& b, const std::string& path,
                                  std::vector<std::string>& out) {
    compare_sections(schema, a.*member, b.*member, path, out);
  };
  key.read = [member, &schema](const Written& w, S& out) {
    w.reading.places.put(w.path, w.node.at);
    read_section(w, schema, out.*member);
  };
  return key;
}

// A list of sections. read_item: how one is read, if it takes more than its schema.
template <class T>
using ReadItem = void (*)(const Written&, const Schema<T>&, T&);
template <class S, class T>
SchemaKey<S> list_key(std::string name, std::vector<T> S::*member, const Schema<T>& schema,
                      ReadItem<T> read_item = read_section<T>) {
  SchemaKey<S> key{std::move(name)};
  key.describe = [name = key.name, &schema](const std::string& prefix, std::vector<ReferenceRow>& rows) {
    describe_section(schema, member_path(prefix, name) + "[]", rows);
  };
  key.dump = [name = key.name, member, &schema](const S& s, const std::string& indent, std::string& out) {
    out += indent + name + ((s.*member).empty() ? ": []\n" : ":\n");
    for (const T& item : s.*member) {
      std::string lines;
      dump_section(schema, item, indent + "    ", lines);
      lines[indent.size() + 2] = '-';
      out += lines;
    }
  };
  key.compare = [member, &schema](const S& a, const S& b, const std::string& path,
                                  std::vector<std::string>& out) {
    if ((a.*member).size() != (b.*member).size()) return out.push_back(path);
    for (std::size_t i = 0; i < (a.*member).size(); ++i)
      compare_sections(schema, (a.*member)[i], (b.*member)[i], path + "[" + std::to_string(i) + "]", out);
  };
  key.read = [member, &schema, read_item](const Written& w, S& out) {
    w.reading.places.put(w.path, w.node.at);
    if (!expect_list(w)) return;
    for (std::size_t i = 0; i < w.node.items.size(); ++i) {
      const Written item{w.node.items[i], w.path + "[" + std::to_string(i) + "]", w.reading};
      w.reading.places.put(item.path, item.node.at);
      read_item(item, schema, (out.*member).emplace_back());
    }
  };
  return key;
}

template <class Dialect, class Job>
auto* part_of(Job& job) noexcept {  // nullptr: the job is of another
  if constexpr (std::is_same_v<Dialect, CommonConfig>)
    return &members::common_of(job);
  else
    return std::get_if<Dialect>(&job);
}

// Reported where the key stands, unless it is not clear what the job speaks.
void report_other_dialect(const Written& written, const std::string& key, const std::string& dialect,
                          const std::string& why);

// A key of one dialect, or of all (CommonConfig), in the table of jobs. why: it has no meaning in another
// one.
template <class Dialect>
SchemaKey<JobConfig> job_key(SchemaKey<Dialect> key, const std::string& why = {}) {
  SchemaKey<JobConfig> out{key.name, key.required};
  out.applies = key.applies;
  out.describe = std::move(key.describe);
  out.dump = [dump = std::move(key.dump)](const JobConfig& job, const std::string& indent,
                                          std::string& text) {
    if (const auto* part = part_of<Dialect>(job); part != nullptr) dump(*part, indent, text);
  };
  out.compare = [compare = std::move(key.compare)](const JobConfig& a, const JobConfig& b,
                                                   const std::string& path, std::vector<std::string>& paths) {
    const auto* one = part_of<Dialect>(a);
    const auto* other = part_of<Dialect>(b);
    if (one != nullptr && other != nullptr) compare(*one, *other, path, paths);
  };
  out.read = [read = std::move(key.read), name = key.name, why](const Written& w, JobConfig& job) {
    if (auto* const part = part_of<Dialect>(job); part != nullptr) return read(w, *part);
    if constexpr (!std::is_same_v<Dialect, CommonConfig>) {
      Dialect unused;  // its value may be wrong too
      read(w, unused);
      report_other_dialect(w, name, Dialect::kDialect, why);
    }
  };
  return out;
}

// The tables of keys, one file each: dataplane_section.cc, checks.cc, ports_section.cc, impair_section.cc,
// control_section.cc, fleet_section.cc, jobs_section.cc, sessions_section.cc, slots_section.cc, and checks.cc for the rest.

inline constexpr std::size_t kMaxInstanceBytes = 32;
inline constexpr std::size_t kMaxPortNameBytes = 32;

[[nodiscard]] const Schema<Config>& config_schema();
[[nodiscard]] const Schema<DataplaneSection>& dataplane_schema();
[[nodiscard]] const Schema<SharedSection>& shared_schema();
[[nodiscard]] const Schema<BoxSection>& box_schema();
[[nodiscard]] const Schema<ControlSection>& control_schema();
[[nodiscard]] const Schema<FleetSection>& fleet_schema();
[[nodiscard]] const Schema<PlannerSection>& planner_schema();
// An absolute path of a file, or none.
[[nodiscard]] ValueType<std::optional<std::string>> file_or_none();
[[nodiscard]] const Schema<PortSection>& port_schema();
[[nodiscard]] const Schema<ImpairSection>& impair_schema();
[[nodiscard]] const Schema<JobConfig>& job_schema();
// Of a job, which is to be of the dialect that it says.
void read_job(const Written& written, const Schema<JobConfig>& schema, JobConfig& job);

}  // namespace tally::config
