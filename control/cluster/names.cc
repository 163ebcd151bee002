#include "cluster/names.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "config/units.h"
#include "text/text.h"

namespace tally::cluster {
namespace {

using config::complain;
using config::Complaint;
using config::Parsed;
using config::shown;
using config::Written;

constexpr const char* kForm = "a name such as rack1, or a range of them such as rack[1-16]";
constexpr std::uint64_t kMaxNumber = 999'999;

std::string in_brackets(const std::string& text) { return std::string("[").append(text).append("]"); }

// The text of one [...], without its brackets, as the texts that stand in its place. at: bytes in front of it.
Parsed<Names> numbers_of(const std::string& inside, std::uint32_t at) {
  const auto wrong = [&](const std::string& what, const std::string& help) {
    return tl::unexpected<Complaint>(Complaint{what, help, at});
  };
  Names out;
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', begin), inside.size());
    const std::string part = inside.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dash = std::min(part.find('-'), part.size());
    const std::string first = part.substr(0, dash);
    const std::string last = dash < part.size() ? part.substr(dash + 1) : first;
    const auto low = text::whole_number(first, 0, kMaxNumber);
    const auto high = text::whole_number(last, 0, kMaxNumber);
    if (!low || !high)
      return wrong(shown(in_brackets(inside)) + " is no range of numbers",
                   "write [1-16], [001-128] or [1-4,7]");
    if (*high < *low)
      return wrong(shown(in_brackets(part)) + " counts down",
                   "write [" + std::string(last).append("-").append(first) + "]");
    if (out.size() + (*high - *low) >= kMaxNames)
      return wrong(shown(in_brackets(inside)) + " are more than " + std::to_string(kMaxNames) + " names",
                   "is one of its numbers too long?");
    const std::size_t digits = first.size() > 1 && first[0] == '0' ? first.size() : 0;
    for (std::uint64_t number = *low; number <= *high; ++number) {
      std::string word = std::to_string(number);
      if (word.size() < digits) word.insert(0, digits - word.size(), '0');
      out.push_back(std::move(word));
    }
  }
  return out;
}

// Of a name without brackets.
std::optional<Complaint> objection_to_name(const std::string& name, const std::string& text) {
  if (name.size() > kMaxNameBytes)
    return Complaint{shown(text) + " stands for a name of " + std::to_string(name.size()) + " bytes",
                     "write at most " + std::to_string(kMaxNameBytes)};
  if (text::is_name(name)) return std::nullopt;
  return Complaint{
      shown(text) + " is not a name",
      "write letters (a-z), digits, '_', '-' and '.', beginning with a letter or a digit; a range as "
      "rack[1-16]"};
}

}  // namespace

Parsed<Names> expanded(const std::string& text) {
  Names out{""};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('[', at), text.size());
    for (std::string& name : out) name.append(text, at, open - at);
    if (open == text.size()) break;
    const std::size_t close = text.find(']', open);
    if (close == std::string::npos)
      return tl::unexpected<Complaint>(Complaint{shown(text) + " has a '[' that is not closed",
                                                 "write ranges such as [1-16]",
                                                 static_cast<std::uint32_t>(open)});
    const auto numbers =
        numbers_of(text.substr(open + 1, close - open - 1), static_cast<std::uint32_t>(open));
    if (!numbers) return tl::unexpected<Complaint>(numbers.error());
    if (out.size() * numbers->size() > kMaxNames)
      return complain(shown(text) + " are more than " + std::to_string(kMaxNames) + " names", "write fewer");
    Names longer;
    longer.reserve(out.size() * numbers->size());
    for (const std::string& name : out) {
      for (const std::string& number : *numbers) longer.push_back(name + number);
    }
    out = std::move(longer);
    at = close + 1;
  }
  return out;
}

Parsed<Names> parse_names(const std::string& text) {
  if (text.empty()) return complain("the name is empty", std::string("write ") + kForm);
  auto names = expanded(text);
  if (!names) return names;
  for (const std::string& name : *names) {
    if (auto objection = objection_to_name(name, text))
      return tl::unexpected<Complaint>(std::move(*objection));
  }
  return names;
}

namespace {

Parsed<Counted> parse_counted(const std::string& text) {
  const std::size_t x = text.rfind(" x ");
  auto names = parse_names(text.substr(0, std::min(x, text.size())));
  if (!names) return tl::unexpected<Complaint>(std::move(names.error()));
  if (x == std::string::npos) return Counted{std::move(*names)};
  const auto count = text::whole_number(text.substr(x + 3), 1, kMaxNames);
  if (count) return Counted{std::move(*names), static_cast<std::size_t>(*count)};
  return tl::unexpected<Complaint>(Complaint{shown(text.substr(x + 3)) + " is no number of workers",
                                             "write how many behind the x, such as rack[1-4] x 8",
                                             static_cast<std::uint32_t>(x + 3)});
}

bool stands_twice(const Written& at, const std::string& name) {
  at.error({shown(name) + " stands twice here", "remove one"});
  return false;
}

}  // namespace

config::ValueType<Names> names_type() {
  const std::string form = kForm;
  return {form + ", or a list of such",
          [form](const Written& w) -> std::optional<Names> {
            Names all;
            std::unordered_set<std::string> seen;
            const bool good = read_scalars<Names>(w, parse_names, form, [&](const Written& at, Names names) {
              for (std::string& name : names) {
                if (!seen.insert(name).second) return stands_twice(at, name);
                all.push_back(std::move(name));
              }
              return true;
            });
            return good ? std::optional(std::move(all)) : std::nullopt;
          },
          [](const Names& names) { return in_brackets(text::listed(names)); }};
}

config::ValueType<std::vector<Counted>> counted_names_type() {
  const std::string form = std::string(kForm) + ", with 'x 8' behind it for 8 of each";
  return {form + ", or a list of such",
          [form](const Written& w) -> std::optional<std::vector<Counted>> {
            std::vector<Counted> all;
            const bool good = read_scalars<Counted>(w, parse_counted, form, [&](const Written&, Counted one) {
              all.push_back(std::move(one));
              return true;
            });
            return good ? std::optional(std::move(all)) : std::nullopt;
          },
          [](const std::vector<Counted>& all) {
            return in_brackets(text::listed(all, ", ", [](const Counted& one) {
              return text::listed(one.names) + (one.count > 0 ? " x " + std::to_string(one.count) : "");
            }));
          }};
}

namespace {

// Of a name that ends in a number without a leading zero: that number, and what stands before it.
struct Numbered {
  std::string before{};
  std::uint64_t number = 0;
};
std::optional<Numbered> numbered(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || (name[digits] == '0' && digits + 1 < name.size())) return std::nullopt;
  const auto number = text::whole_number(name.substr(digits), 0, kMaxNumber);
  if (!number) return std::nullopt;
  return Numbered{name.substr(0, digits), *number};
}

}  // namespace

std::string as_ranges(Names names) {
  const auto key = [](const std::string& name) {
    const auto one = numbered(name);
    return one ? std::tuple(one->before, one->number, std::string())
               : std::tuple(name, std::uint64_t{0}, name);
  };
  std::ranges::sort(names, {}, key);
  Names out;
  for (std::size_t first = 0, last = 0; first < names.size(); first = ++last) {
    const auto from = numbered(names[first]);
    while (from && last + 1 < names.size()) {
      const auto next = numbered(names[last + 1]);
      if (!next || next->before != from->before || next->number != from->number + (last + 1 - first)) break;
      ++last;
    }
    if (last == first)
      out.push_back(names[first]);
    else
      out.push_back(from->before + in_brackets(std::to_string(from->number) + "-" +
                                               std::to_string(from->number + last - first)));
  }
  return text::listed(out);
}

std::string some_of(const Names& names) {
  constexpr std::size_t kMost = 6;
  if (names.size() <= kMost) return text::listed(names);
  return names[0] + ", " + names[1] + " ... " + names.back() + " (" + std::to_string(names.size()) + ")";
}

}  // namespace tally::cluster
