#pragma once
// A YAML document as a tree that remembers where everything stands.

#include <cstdint>
#include <string>
#include <vector>

#include "config/diagnostic.h"

namespace tally::config {

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t {
    kEmpty,  // nothing written, or null, or ~
    kScalar,
    kList,
    kMap,
    kBroken,  // an error was reported; whoever reads it stays silent
  };
  Kind kind = Kind::kEmpty;
  Position at{};        // of a map, a list or nothing: as well as it is known
  std::string text{};   // of a scalar, without quotes
  bool quoted = false;  // a scalar in quotes
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;  // keys are distinct
};

struct YamlEntry {
  std::string key;
  Position at{};  // of the key
  YamlNode value{};
};

// 'a map', 'a list', ... for messages.
[[nodiscard]] inline const char* kind_name(YamlNode::Kind kind) noexcept {
  switch (kind) {
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kScalar:
      return "a single value";
    default:
      return "nothing";
  }
}

}  // namespace tally::config
