#include "tree_builder.h"

#include <algorithm>
#include <utility>

#include <yaml-cpp/mark.h>

namespace tally {
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
  report_.error(node.at, "",
                {"duplicate key " + shown(map.entry.key) + ": line " + line + " has it already",
                 "remove one of lines " + line + " and " + std::to_string(node.at.line)});
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

}  // namespace tally
