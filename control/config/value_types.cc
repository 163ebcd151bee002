#include "config/value_types.h"

#include <cctype>

#include "config/units.h"
#include "members/job_config.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::config {
namespace {

using Kind = YamlNode::Kind;

// Reports that a node has the wrong shape. False, for the caller to return.
bool wrong_shape(const Written& w, const std::string& wanted, const std::string& help) {
  w.reading.places.mark_broken(w.path);
  const Kind kind = w.node.kind;
  const bool top = w.path.empty();
  const std::string seen = kind == Kind::kScalar ? shown(w.node.text) : kind_name(kind);
  if (kind == Kind::kEmpty)
    w.error({top ? "there is no configuration here" : "this key has no value", help});
  else if (kind != Kind::kBroken)
    w.error({top ? "a configuration is " + wanted + ", not " + seen : "this is " + seen + ", not " + wanted,
             help});
  return false;
}

// An escape such as "\x07" can bring in what the text of the file cannot contain.
bool is_printable(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); at += text::character_length(text, at)) {
    const auto character = std::string_view(text).substr(at, text::character_length(text, at));
    if (const std::string seen = text::printable(character); seen != character && !seen.starts_with("\\u"))
      return false;
  }
  return true;
}

// The other sections that know this key.
std::string homes_of(const std::string& key, const std::vector<ReferenceRow>& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows) {
    const auto end = row.path.rfind('.');
    if (row.path.substr(end == std::string::npos ? 0 : end + 1) != key) continue;
    out.push_back(end == std::string::npos ? "the top level" : row.path.substr(0, end));
  }
  return text::listed(out);
}

std::string help_for_unknown(const std::string& key, const std::vector<std::string>& known,
                             std::vector<ReferenceRow> (*reference)()) {
  std::string keys = "keys here: " + text::listed(known);
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
  if (const std::string homes = homes_of(key, reference()); !homes.empty())
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

bool expect_map(const Written& w, const std::vector<std::string>& keys) {
  if (w.node.kind == Kind::kMap) return true;
  const std::string help = w.node.kind == Kind::kEmpty && !w.path.empty()
                               ? "give it some of its keys, or remove it: " + text::listed(keys)
                               : "write its keys, each as 'key: value': " + text::listed(keys);
  return wrong_shape(w, "a map of keys", help);
}

bool expect_list(const Written& w) {
  if (w.node.kind == Kind::kList) return true;
  const bool tight =
      w.node.kind == Kind::kMap && !w.node.entries.empty() && w.node.entries[0].key.starts_with('-');
  return wrong_shape(w, "a list",
                     tight ? "put a space behind the '-' of each entry"
                           : "begin each entry with '- ', or write [] for none");
}

bool expect_scalar(const Written& w, const std::string& form) {
  if (w.node.kind != Kind::kScalar) return wrong_shape(w, "a single value", "write " + form);
  if (is_printable(w.node.text)) return true;
  w.reading.places.mark_broken(w.path);
  w.error({shown(w.node.text) + " contains a control character", "write " + form});
  return false;
}

void report_unknown_key(const Written& map, const YamlEntry& entry, const std::vector<std::string>& known) {
  Report& report = map.reading.report;
  const std::string help = report.is_full() ? "" : help_for_unknown(entry.key, known, map.reading.reference);
  report.error(entry.at, map.path, {"unknown key " + shown(entry.key), help});
}

void report_missing(const Written& map, const std::string& key) {
  map.reading.places.mark_broken(member_path(map.path, key));
  map.reading.report.error(map.path.empty() ? Position{1, 1} : map.node.at, map.path,
                           {"the key " + key + " is missing", "add it: it has no default"});
}

void report_refused_key(const Written& map, const YamlEntry& entry, const std::string& why) {
  map.reading.report.error(entry.at, member_path(map.path, entry.key),
                           {"not in this version: " + why, "remove it"});
}

namespace {

std::string joined_by_or(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

// A value that a range of some unit excludes.
Parsed<std::uint64_t> in_range(Parsed<std::uint64_t> value, std::uint64_t lowest, std::uint64_t highest,
                               std::string (*print)(std::uint64_t)) {
  if (!value) return value;
  if (*value < lowest) return complain(print(*value) + " is below " + print(lowest));
  if (*value > highest) return complain(print(*value) + " is above " + print(highest));
  return value;
}

std::string number_text(std::uint64_t number) { return std::to_string(number); }

// 'off' and 'on' are words here; somebody who writes true, no, ... means one of them.
std::string switched(const std::string& text, const std::vector<std::string>& words) {
  std::string word = text;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "true" || word == "yes") word = "on";
  if (word == "false" || word == "no" || word == "none") word = "off";
  if (word == "off" && std::find(words.begin(), words.end(), word) == words.end()) word = "none";
  return std::find(words.begin(), words.end(), word) != words.end() ? word : std::string();
}

Complaint not_one_of(const std::string& text, const std::vector<std::string>& words) {
  const std::string write = "write " + joined_by_or(words);
  std::string near = switched(text, words);
  if (near.empty()) near = nearest(text, words);
  return {shown(text) + " is not a value of this key",
          near.empty() || words.size() == 1 ? write : "did you mean " + near + "? " + write};
}

}  // namespace

std::string yaml_text(const std::string& text) {
  const bool plain = !text.empty() && text != "null" && text != "Null" && text != "NULL" &&
                     (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/') &&
                     text.back() != ':' && std::all_of(text.begin(), text.end(), [](char c) {
                       return text::is_name_character(c) || c == '/' || c == ':';
                     });
  if (plain) return text;
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = text::character_length(text, at);
    const std::string_view character = std::string_view(text).substr(at, length);
    if (character == "\"" || character == "\\") out += '\\';
    out += text::printable(character);
    at += length;
  }
  return out + "\"";
}

void report_value(const Written& w, Complaint complaint, const std::string& form) {
  if (complaint.help.empty()) complaint.help = "write " + form;
  Position at = w.node.at;
  if (complaint.offset > 0) at.column += complaint.offset + (w.node.quoted ? 1 : 0);
  w.reading.report.error(at, w.path, std::move(complaint));
}

std::string applies_text(Applies applies) {
  constexpr std::array<const char*, 3> kTexts{"restart", "next generation", "at once"};
  return kTexts.at(static_cast<std::size_t>(applies));
}

ValueType<std::uint64_t> whole_number(std::uint64_t lowest, std::uint64_t highest) {
  const std::string form = "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  return scalar_type<std::uint64_t>(
      form,
      [lowest, highest](const std::string& text) {
        return in_range(parse_unsigned(text), lowest, highest, number_text);
      },
      [](const std::uint64_t& value) { return number_text(value); }, Quotes::kRefused);
}

ValueType<std::uint16_t> element_count() {
  constexpr std::uint32_t kStep = kElementGranule;
  ValueType<std::uint16_t> type =
      whole_number_in<std::uint16_t>(members::kMinElements, static_cast<std::uint16_t>(kMaxElements));
  type.form = "a multiple of 16 from 16 to " + std::to_string(kMaxElements);
  return but_not(type, [](std::uint32_t value, const std::string& text) -> std::optional<Complaint> {
    if (value % kStep == 0) return std::nullopt;
    const std::uint32_t below = value / kStep * kStep;
    return Complaint{text + " is not a multiple of 16",
                     "write " + std::to_string(below) + " or " + std::to_string(below + kStep)};
  });
}

ValueType<bool> true_or_false() {
  return scalar_type<bool>(
      "true or false",
      [](const std::string& text) -> Parsed<bool> {
        if (text == "true") return true;
        if (text == "false") return false;
        return complain(shown(text) + " is neither true nor false");
      },
      [](const bool& value) { return std::string(value ? "true" : "false"); }, Quotes::kRefused);
}

ValueType<std::uint64_t> size_between(std::uint64_t lowest, std::uint64_t highest) {
  return scalar_type<std::uint64_t>(
      "a size from " + size_text(lowest) + " to " + size_text(highest),
      [lowest, highest](const std::string& text) {
        return in_range(parse_size(text), lowest, highest, size_text);
      },
      size_text);
}

ValueType<TimeNs> time_between(TimeNs lowest, TimeNs highest) {
  return scalar_type<TimeNs>(
      "a time from " + duration_text(lowest) + " to " + duration_text(highest),
      [lowest, highest](const std::string& text) {
        return in_range(parse_duration(text), lowest, highest, duration_text);
      },
      duration_text);
}

ValueType<std::uint32_t> percentage() {
  return scalar_type<std::uint32_t>("a percentage from 0% to 100%", parse_percent, text::percent_text);
}

ValueType<std::uint64_t> rate_between(std::uint64_t lowest, std::uint64_t highest) {
  return scalar_type<std::uint64_t>(
      "a rate from " + rate_text(lowest) + " to " + rate_text(highest) + " (bits per second)",
      [lowest, highest](const std::string& text) {
        return in_range(parse_rate(text), lowest, highest, rate_text);
      },
      rate_text);
}

ValueType<std::string> name_up_to(std::size_t longest) {
  const std::string help = "write 1 to " + std::to_string(longest) +
                           " letters (a-z), digits, '_', '-' and '.', beginning with a letter or a digit";
  return scalar_type<std::string>(
      "a name of at most " + std::to_string(longest) + " letters, digits, '_', '-' and '.'",
      [longest, help](const std::string& text) -> Parsed<std::string> {
        if (text.empty()) return complain("the name is empty", help);
        if (text.size() > longest)
          return complain("the name has " + std::to_string(text.size()) + " bytes", help);
        if (!text::is_name(text)) return complain(shown(text) + " is not a name", help);
        return text;
      },
      yaml_text);
}

ValueType<std::size_t> one_of_words(const std::vector<std::string>& words) {
  const auto read = [words](const Written& w) -> std::optional<std::size_t> {
    if (!expect_scalar(w, joined_by_or(words))) return std::nullopt;
    const auto word = std::ranges::find(words, w.node.text);
    if (word != words.end()) return static_cast<std::size_t>(word - words.begin());
    w.error(not_one_of(w.node.text, words));
    return std::nullopt;
  };
  return {joined_by_or(words), read, [words](const std::size_t& index) { return words.at(index); }};
}

}  // namespace tally::config
