#pragma once
// Text -> tree, by yaml-cpp's events. Everything that YAML allows and a configuration does not need is
// refused here, because each makes a file mean something else than it seems to: duplicate keys, anchors and
// aliases, tags, several documents, values that go on in the next line, keys that are not plain words.

#include <optional>

#include "report.h"
#include "yaml_node.h"

namespace tally {

// The root node. Empty after a syntax error; other errors leave a tree that can still be checked.
[[nodiscard]] std::optional<YamlNode> parse_yaml(const YamlSource& source, Report& report);

}  // namespace tally
