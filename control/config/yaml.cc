#include "config/yaml.h"

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <utility>

#include "text/text.h"

namespace tally::config {
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

namespace {

struct Explanation {
  std::string_view yaml;  // how yaml-cpp's message begins
  std::string_view message;
  std::string_view help;
};

constexpr std::string_view kIndent =
    "indent keys of one map alike, list entries with '- ', and end every key with ': '";

constexpr std::array kExplanations{
    Explanation{"end of map flow", "this {...} is not closed", "write '}' behind its last key"},
    Explanation{"end of sequence flow", "this [...] is not closed", "write ']' behind its last value"},
    Explanation{"end of map", "this does not fit what stands above it", kIndent},
    Explanation{"end of sequence", "this does not fit the list above it", kIndent},
    Explanation{"illegal map value", "a ':' where no key can end",
                "put a value that contains ': ' in quotes; indent keys of one map alike"},
    Explanation{"illegal map key", "a '?' where no key can begin", "put the value in quotes"},
    Explanation{"illegal block entry", "a '- ' where no list can begin",
                "begin the list in the next line, or write it as [a, b]"},
    Explanation{"illegal flow end", "a bracket that closes nothing",
                "remove it, or add what is missing in front of the one that opens"},
    Explanation{"illegal EOF", "the quote that opens here is never closed", "close it in the same line"},
    Explanation{"unknown escape", "an unknown escape behind '\\'",
                "write \\\\ for a backslash, or use '...'"},
    Explanation{"bad file", "nested too deep", "a configuration needs four levels; is this the right file?"},
    Explanation{"unknown token", "no value begins with this character", "put the value in quotes"},
    Explanation{"the referenced anchor", "an alias (*)", "aliases are not allowed: write the value itself"},
    Explanation{"alias not found", "an alias (*)", "put a value that begins with * in quotes"},
    Explanation{"anchor not found", "an anchor (&)", "put a value that begins with & in quotes"},
};

// Where 'key:value' misses its space, as the byte behind the ':'; npos if nowhere. A ':' inside a quoted or
// bracketed value is not meant.
std::size_t missing_space(std::string_view line) {
  std::size_t i = line.find_first_not_of(" -");
  if (i == std::string_view::npos) return i;
  while (i < line.size() && (std::isalnum(static_cast<unsigned char>(line[i])) != 0 || line[i] == '_')) ++i;
  const bool tight = i + 1 < line.size() && line[i] == ':' && line[i + 1] != ' ';
  return tight ? i + 1 : std::string_view::npos;
}

}  // namespace

Complaint explain_syntax(std::string_view yaml_message, const YamlSource& source, Position& at) {
  // 'key:value' reads as one word, and yaml-cpp stumbles over the next line's ':'.
  for (std::uint32_t line = at.line; line > 0 && line + 1 >= at.line; --line) {
    const std::size_t byte = missing_space(source.line(line));
    if (byte == std::string_view::npos) continue;
    at = source.position(line, byte);
    return {"a space is missing behind ':'", "write 'key: value'"};
  }
  const std::string_view before = source.line(at.line).substr(0, source.byte_of(at));
  const auto last = before.find_last_not_of(' ');
  if (last != std::string_view::npos && (before[last] == '"' || before[last] == '\'')) {
    return {"text behind the closing quote", "put the whole value in one pair of quotes"};
  }
  // rack[1-16] is a word of its own only outside of {...} and [...].
  const std::string_view behind = source.line(at.line).substr(before.size());
  if (behind.starts_with('[') && !before.empty() && text::is_name_character(before.back()))
    return {"a '[' inside a value, between brackets", "put the whole value in quotes"};
  for (const auto& e : kExplanations) {
    if (yaml_message.starts_with(e.yaml)) return {std::string(e.message), std::string(e.help)};
  }
  return {"not YAML here: " + std::string(yaml_message), "compare with conf/demo.yaml"};
}

namespace {

using Kind = YamlNode::Kind;

// Whether the quote that opens at text[0] is closed in this line.
bool closes(std::string_view text) {
  const char quote = text[0];
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return true;  // '' inside '...' opens again at once: the next one closes
    }
  }
  return false;
}

bool has_typographic_quote(std::string_view text) {
  return text.starts_with("\xE2\x80\x9C") || text.starts_with("\xE2\x80\x9D") ||
         text.starts_with("\xE2\x80\x98") || text.starts_with("\xE2\x80\x99");
}

}  // namespace

Position TreeBuilder::position(const YAML::Mark& mark) const {
  const auto line = static_cast<std::uint32_t>(std::max(mark.line, 0)) + 1;
  return source_.position(std::min(line, source_.lines()),
                          static_cast<std::size_t>(std::max(mark.column, 0)));
}

void TreeBuilder::OnDocumentStart(const YAML::Mark& mark) {
  if (root_.kind == Kind::kEmpty && root_.at == Position{}) return;
  report_.error(position(mark), "",
                {"a second YAML document", "one file is one configuration; remove '---'"});
}

bool TreeBuilder::decorated(Position at, std::string_view tag, YAML::anchor_t anchor) {
  if (anchor != 0) {
    report_.error(at, "", {"an anchor (&)", "anchors are not allowed: write the value itself everywhere"});
  } else if (!tag.empty() && tag != "?" && tag != "!") {
    report_.error(at, "", {"a tag (!)", "the type of every key is known; remove the tag"});
  } else {
    return false;
  }
  return true;
}

void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const Position at = position(mark);
  place(YamlNode{decorated(at, "", anchor) ? Kind::kBroken : Kind::kEmpty, at});
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) {
  YamlNode node{Kind::kBroken, position(mark)};
  report_.error(node.at, "", {"an alias (*)", "aliases are not allowed: write the value itself"});
  place(std::move(node));
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  YamlNode node{Kind::kScalar, position(mark), value, tag == "!"};
  ran_on_ = false;
  if (decorated(node.at, tag, anchor)) {
    node.kind = Kind::kBroken;
  } else {
    check_one_line(node);
  }
  place(std::move(node));
}

void TreeBuilder::check_one_line(YamlNode& scalar) {
  const std::string_view behind = source_.line(scalar.at.line).substr(source_.byte_of(scalar.at));
  if (!scalar.quoted) return check_plain(scalar, behind);
  if (behind.starts_with('|') || behind.starts_with('>')) {
    report_.error(scalar.at, "", {"a text block", "write the value in one line, in quotes if need be"});
  } else if (!behind.empty() && !closes(behind)) {
    report_.error(scalar.at, "",
                  {"the quote that opens here is not closed in this line", "close it in the same line"});
    ran_on_ = swallowed_ = true;
  } else {
    return;
  }
  scalar.kind = Kind::kBroken;
}

void TreeBuilder::check_plain(YamlNode& scalar, std::string_view behind) {
  if (has_typographic_quote(scalar.text)) {
    report_.error(scalar.at, "", {"a typographic quote", "write \" or ' instead"});
  } else if (!behind.starts_with(scalar.text)) {
    std::uint32_t next = scalar.at.line + 1;
    while (next < source_.lines() && source_.line(next).find_first_not_of(' ') == std::string_view::npos)
      ++next;
    const auto column = std::min(source_.line(next).find_first_not_of(' '), source_.line(next).size());
    const std::string line = std::to_string(scalar.at.line);
    const bool flow = !open_.empty() && open_.back().flow;
    report_.error(source_.position(next, column), "",
                  {"read as the rest of the value in line " + line,
                   flow ? "end the value in line " + line + " with ',' or close its bracket there"
                        : "indent it like the key it belongs beside, and write it as 'key: value'"});
    ran_on_ = true;
  } else {
    return;
  }
  scalar.kind = Kind::kBroken;
}

void TreeBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                                  YAML::EmitterStyle::value style) {
  const Position at = position(mark);
  decorated(at, tag, anchor);  // what is in it can still be checked
  open_.push_back({YamlNode{Kind::kList, at}, style == YAML::EmitterStyle::Flow});
}

void TreeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value style) {
  const Position at = position(mark);
  decorated(at, tag, anchor);
  open_.push_back({YamlNode{Kind::kMap, at}, style == YAML::EmitterStyle::Flow});
}

void TreeBuilder::place_key(Open& map, YamlNode node) {
  map.has_key = true;
  map.ignore = true;
  map.entry = YamlEntry{std::move(node.text), node.at};
  if (node.kind == Kind::kBroken) return;
  if (node.kind != Kind::kScalar) {
    report_.error(node.at, "",
                  {std::string("a key that is ") + kind_name(node.kind), "a key is a single word"});
    return;
  }
  const auto [first, is_new] = map.lines.emplace(map.entry.key, node.at.line);
  map.ignore = !is_new;
  if (is_new) return;
  const std::string line = std::to_string(first->second);
  const bool same = first->second == node.at.line;
  report_.error(node.at, "",
                {"duplicate key " + shown(map.entry.key) + ": " + (same ? "this line" : "line " + line) +
                     " has it already",
                 same ? "remove one of the two"
                      : "remove one of lines " + line + " and " + std::to_string(node.at.line)});
}

void TreeBuilder::place(YamlNode node) {
  if (open_.empty()) {
    if (root_.at == Position{}) root_ = std::move(node);
    return;
  }
  Open& parent = open_.back();
  if (parent.node.kind != Kind::kMap) {
    parent.node.items.push_back(std::move(node));
    return;
  }
  if (!parent.has_key) return place_key(parent, std::move(node));
  parent.has_key = false;
  if (parent.ignore) return;
  // yaml-cpp places an empty value at whatever comes next.
  if (node.kind == Kind::kEmpty) node.at = parent.entry.at;
  parent.entry.value = std::move(node);
  parent.node.entries.push_back(std::move(parent.entry));
}

void TreeBuilder::close() {
  YamlNode node = std::move(open_.back().node);
  open_.pop_back();
  place(std::move(node));
}

namespace {

constexpr std::string_view kNoBreakSpace = "\xC2\xA0";

// The first control character or broken byte of a line.
std::optional<Complaint> bad_character(std::string_view line, std::size_t& at) {
  for (at = 0; at < line.size(); at += text::utf8_length(line, at)) {
    const std::size_t length = text::utf8_length(line, at);
    const std::string seen = text::printable(line.substr(at, text::character_length(line, at)));
    if (length == 0) {
      return Complaint{"byte " + seen + " is not UTF-8", "save the file as UTF-8"};
    }
    if (line[at] == '\0') {
      return Complaint{"a NUL byte: this is not a text in UTF-8", "save the file as UTF-8, not as UTF-16"};
    }
    if (line[at] == '\r') {
      return Complaint{"a carriage return inside a line", "end lines with LF (or CR LF)"};
    }
    if (seen.starts_with("\\x")) {
      return Complaint{"a control character (" + seen + ")", "remove it"};
    }
  }
  return std::nullopt;
}

// A tab or a no-break space that indents something.
std::optional<Complaint> bad_indentation(std::string_view line, std::size_t& at) {
  at = line.find_first_not_of(' ');
  if (at == std::string_view::npos) return std::nullopt;
  const auto text = line.find_first_not_of(" \t");
  if (text == std::string_view::npos || line[text] == '#') return std::nullopt;
  if (line[at] == '\t') return Complaint{"a tab indents this line", "YAML is indented with spaces; use two"};
  if (line.substr(at).starts_with(kNoBreakSpace)) {
    return Complaint{"a no-break space (U+00A0) indents this line",
                     "it looks like a space and often comes from a web page; replace it by a space"};
  }
  return std::nullopt;
}

}  // namespace

void check_text(const YamlSource& source, Report& report) {
  if (source.text().starts_with("\xFF\xFE") || source.text().starts_with("\xFE\xFF")) {
    report.error({1, 1}, "", {"the file is UTF-16", "save it as UTF-8"});
    return;
  }
  for (std::uint32_t number = 1; number <= source.lines(); ++number) {
    const std::string_view line = source.line(number);
    std::size_t at = 0;
    if (auto wrong = bad_character(line, at)) {
      report.error(source.position(number, at), "", *wrong);
      return;  // the rest is likely to be of the same kind
    }
    if (auto wrong = bad_indentation(line, at)) report.error(source.position(number, at), "", *wrong);
    if (line.starts_with('%')) {
      report.error({number, 1}, "", {"a YAML directive", "directives are not used here; remove the line"});
    }
  }
}

}  // namespace tally::config
