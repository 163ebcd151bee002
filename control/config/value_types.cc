#include "config/value_types.h"

#include <algorithm>
#include <cctype>

#include "config/diagnostic.h"
#include "config/units.h"
#include "members/job_config.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::config {
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
    if (const std::string seen = printable(character); seen != character && !seen.starts_with("\\u"))
      return false;
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

void report_refused_key(const YamlEntry& entry, const std::string& path, const std::string& why,
                        Reading& reading) {
  reading.report.error(entry.at, member_path(path, entry.key), {"not in this version: " + why, "remove it"});
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

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
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
                       return is_name_character(c) || c == '/' || c == ':';
                     });
  if (plain) return text;
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const std::string_view character = std::string_view(text).substr(at, length);
    if (character == "\"" || character == "\\") out += '\\';
    out += printable(character);
    at += length;
  }
  return out + "\"";
}

void report_value(const YamlNode& node, const std::string& path, Complaint complaint, const std::string& form,
                  Reading& reading) {
  if (complaint.help.empty()) complaint.help = "write " + form;
  Position at = node.at;
  if (complaint.offset > 0) at.column += complaint.offset + (node.quoted ? 1 : 0);
  reading.report.error(at, path, std::move(complaint));
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
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::uint16_t& out,
                                 Reading& reading) {
    std::uint16_t value = 0;
    if (!read(node, path, value, reading)) return false;
    if (value % kStep != 0) {
      const std::uint32_t below = value / kStep * kStep;
      reading.report.error(node.at, path,
                           {node.text + " is not a multiple of 16",
                            "write " + std::to_string(below) + " or " + std::to_string(below + kStep)});
      return false;
    }
    out = value;
    return true;
  };
  return type;
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

ValueType<std::string> name_up_to(std::size_t longest) {
  const std::string help = "write 1 to " + std::to_string(longest) +
                           " letters (a-z), digits, '_', '-' and '.', beginning with a letter or a digit";
  return scalar_type<std::string>(
      "a name of at most " + std::to_string(longest) + " letters, digits, '_', '-' and '.'",
      [longest, help](const std::string& text) -> Parsed<std::string> {
        if (text.empty()) return complain("the name is empty", help);
        if (text.size() > longest)
          return complain("the name has " + std::to_string(text.size()) + " bytes", help);
        const bool good = std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
                          std::all_of(text.begin(), text.end(), is_name_character);
        if (!good) return complain(shown(text) + " is not a name", help);
        return text;
      },
      yaml_text);
}

ValueType<std::size_t> one_of_words(const std::vector<std::string>& words) {
  const auto read = [words](const YamlNode& node, const std::string& path, std::size_t& out,
                            Reading& reading) {
    if (!expect_scalar(node, path, joined_by_or(words), reading)) return false;
    const auto word = std::find(words.begin(), words.end(), node.text);
    if (word == words.end()) {
      reading.report.error(node.at, path, not_one_of(node.text, words));
      return false;
    }
    out = static_cast<std::size_t>(word - words.begin());
    return true;
  };
  return {joined_by_or(words), read, [words](const std::size_t& index) { return words.at(index); }};
}

}  // namespace tally::config
