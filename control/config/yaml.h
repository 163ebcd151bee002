#pragma once
// Text -> tree, by yaml-cpp's events. Everything that YAML allows and a configuration does not need is
// refused here, because each makes a file mean something else than it seems to: duplicate keys, anchors and
// aliases, tags, several documents, values that go on in the next line, keys that are not plain words.

#include <yaml-cpp/eventhandler.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/diagnostic.h"
#include "config/yaml_node.h"

namespace tally::config {

// The root node. Empty after a syntax error; other errors leave a tree that can still be checked.
[[nodiscard]] std::optional<YamlNode> parse_yaml(const YamlSource& source, Report& report);

// yaml-cpp names the rule of its scanner that failed; a person wants to know what to type.

// at: where yaml-cpp stopped. May be moved to the line that is to blame.
[[nodiscard]] Complaint explain_syntax(std::string_view yaml_message, const YamlSource& source, Position& at);

// Receives yaml-cpp's events and builds the tree.

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const YamlSource& source, Report& report) : source_(source), report_(report) {}

  [[nodiscard]] YamlNode& root() noexcept { return root_; }
  // The newest scalar went on in another line: a syntax error behind it is only its consequence.
  [[nodiscard]] bool ran_on() const noexcept { return ran_on_; }
  // A quote swallowed what follows: the tree says nothing about the file.
  [[nodiscard]] bool swallowed() const noexcept { return swallowed_; }

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool flow = false;     // {...} or [...]
    bool has_key = false;  // of a map: the key is known, its value comes next
    bool ignore = false;   // that value belongs to a key that was refused
    YamlEntry entry{};
    std::unordered_map<std::string, std::uint32_t> lines{};  // of the keys so far
  };

  [[nodiscard]] Position position(const YAML::Mark& mark) const;
  // Reports an anchor or a tag in front of a node.
  bool decorated(Position at, std::string_view tag, YAML::anchor_t anchor);
  // Reports a scalar that does not end in the line where it begins.
  void check_one_line(YamlNode& scalar);
  void check_plain(YamlNode& scalar, std::string_view behind);
  void place(YamlNode node);
  void place_key(Open& map, YamlNode node);
  void close();

  const YamlSource& source_;
  Report& report_;
  std::vector<Open> open_;
  YamlNode root_;
  bool ran_on_ = false;
  bool swallowed_ = false;
};

// What can be wrong with the text of a file before it is read as YAML.

// Encoding, control characters, tabs in the indentation, directives. Nothing is read of a text with errors.
void check_text(const YamlSource& source, Report& report);

}  // namespace tally::config
