#pragma once
// Names of racks, hosts and their like as clusters are written of: one, or a range as in Slurm's files.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "config/diagnostic.h"
#include "config/value_types.h"

namespace tally::cluster {

inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxNames = 65'536;  // that one range may stand for

using Names = std::vector<std::string>;

// rack[1-16], gpu[001-128], rack[1-4,7], pod[1-2]-rack[1-8]: in the order of the numbers, the last range fastest. A
// number that begins with 0 says how many digits all have.
[[nodiscard]] config::Parsed<Names> parse_names(const std::string& text);
// The same of any text.
[[nodiscard]] config::Parsed<Names> expanded(const std::string& text);

// One scalar, or a list of scalars: each is read by `parse` and given to `take`. False: something is wrong, and was
// reported.
template <class T, class Take>
bool read_scalars(const config::Written& w, config::Parsed<T> (*parse)(const std::string&),
                  const std::string& form, Take take) {
  using Kind = config::YamlNode::Kind;
  const auto one = [&](const config::Written& at) {
    if (!config::expect_scalar(at, form)) return false;
    config::Parsed<T> value = parse(at.node.text);
    if (value) return take(at, std::move(*value));
    config::report_value(at, std::move(value.error()), form);
    return false;
  };
  if (w.node.kind != Kind::kList) return one(w);
  bool good = true;
  for (std::size_t i = 0; i < w.node.items.size(); ++i) {
    const config::Written at{w.node.items[i], w.path + "[" + std::to_string(i) + "]", w.reading};
    w.reading.places.put(at.path, at.node.at);
    good = one(at) && good;
  }
  return good;
}

// One such text, or a list of them. Names are distinct.
[[nodiscard]] config::ValueType<Names> names_type();

// "rack3 x 4": so many of it, for what takes numbers.
struct Counted {
  Names names{};
  std::size_t count = 0;  // 0: it is not said
  bool operator==(const Counted&) const = default;
};
[[nodiscard]] config::ValueType<std::vector<Counted>> counted_names_type();

// The other way round: "rack[1-3], spine1", of names in any order.
[[nodiscard]] std::string as_ranges(Names names);

// How people would say it: "rack1, rack2 and 14 more".
[[nodiscard]] std::string some_of(const Names& names);

}  // namespace tally::cluster
