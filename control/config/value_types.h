#pragma once
// What may stand behind a key: how it is read, checked and printed again.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/diagnostic.h"
#include "config/yaml.h"
#include "tally/time.h"

namespace tally::config {

// The parts of reading a section that do not depend on what the section is.

struct Reading {
  Report& report;
  Places& places;
};

// path.name; just name at the top.
[[nodiscard]] std::string member_path(const std::string& path, const std::string& name);
[[nodiscard]] bool has_key(const YamlNode& map, const std::string& name);

// False if the node is something else; that is reported then and the path marked broken.
bool expect_map(const YamlNode& node, const std::string& path, const std::vector<std::string>& keys,
                Reading& reading);
bool expect_list(const YamlNode& node, const std::string& path, Reading& reading);
// form: what may be written instead.
bool expect_scalar(const YamlNode& node, const std::string& path, const std::string& form, Reading& reading);

void report_unknown_key(const YamlEntry& entry, const std::string& path,
                        const std::vector<std::string>& known, Reading& reading);
void report_missing(const YamlNode& map, const std::string& path, const std::string& key, Reading& reading);
void report_refused_key(const YamlEntry& entry, const std::string& path, const std::string& why,
                        Reading& reading);

template <class T>
struct ValueType {
  std::string form;  // what may be written, for people: 'a whole number from 1 to 64'
  // False: something is wrong and was reported; `out` is as before then.
  std::function<bool(const YamlNode&, const std::string& path, T& out, Reading&)> read;
  std::function<std::string(const T&)> print;  // as YAML that reads back as the same value
};

// A string as YAML: plain where that is safe, else in double quotes.
[[nodiscard]] std::string yaml_text(const std::string& text);

// Reports a complaint about a scalar at the place in it that it names.
void report_value(const YamlNode& node, const std::string& path, Complaint complaint, const std::string& form,
                  Reading& reading);

enum class Quotes : std::uint8_t { kAllowed, kRefused };  // '4' in quotes is a text, not a number

template <class T>
ValueType<T> scalar_type(std::string form, std::function<Parsed<T>(const std::string&)> parse,
                         std::function<std::string(const T&)> print, Quotes quotes = Quotes::kAllowed) {
  const auto read = [form, parse = std::move(parse), quotes](const YamlNode& node, const std::string& path,
                                                             T& out, Reading& reading) {
    if (!expect_scalar(node, path, form, reading)) return false;
    if (node.quoted && quotes == Quotes::kRefused) {
      report_value(node, path,
                   {shown(node.text) + " is in quotes, which makes it a text", "remove the quotes"}, form,
                   reading);
      return false;
    }
    Parsed<T> value = parse(node.text);
    if (!value) {
      report_value(node, path, std::move(value.error()), form, reading);
      return false;
    }
    out = std::move(*value);
    return true;
  };
  return {std::move(form), read, std::move(print)};
}

[[nodiscard]] ValueType<std::uint64_t> whole_number(std::uint64_t lowest, std::uint64_t highest);

// whole_number for a narrower type that holds the range.
template <class T>
ValueType<T> whole_number_in(T lowest, T highest) {
  const ValueType<std::uint64_t> wide = whole_number(lowest, highest);
  return {wide.form,
          [read = wide.read](const YamlNode& node, const std::string& path, T& out, Reading& reading) {
            std::uint64_t value = 0;
            if (!read(node, path, value, reading)) return false;
            out = static_cast<T>(value);
            return true;
          },
          [](const T& value) { return std::to_string(value); }};
}

// Values in a packet or a slot: a multiple of 16.
[[nodiscard]] ValueType<std::uint16_t> element_count();
[[nodiscard]] ValueType<bool> true_or_false();
[[nodiscard]] ValueType<std::uint64_t> size_between(std::uint64_t lowest, std::uint64_t highest);
[[nodiscard]] ValueType<TimeNs> time_between(TimeNs lowest, TimeNs highest);
[[nodiscard]] ValueType<std::uint32_t> percentage();
// Letters, digits, '_', '-' and '.', beginning with a letter or a digit.
[[nodiscard]] ValueType<std::string> name_up_to(std::size_t longest);

// The index of one of the words.
[[nodiscard]] ValueType<std::size_t> one_of_words(const std::vector<std::string>& words);

template <class E>
struct Choice {
  const char* word;
  E value;
};

template <class E, std::size_t N>
ValueType<E> one_of(const std::array<Choice<E>, N>& choices) {
  std::vector<std::string> words;
  words.reserve(N);
  for (const auto& choice : choices) words.emplace_back(choice.word);
  const ValueType<std::size_t> index = one_of_words(words);
  return {
      index.form,
      [choices, read = index.read](const YamlNode& node, const std::string& path, E& out, Reading& reading) {
        std::size_t at = 0;
        if (!read(node, path, at, reading)) return false;
        out = choices[at].value;
        return true;
      },
      [choices](const E& value) {
        for (const auto& choice : choices) {
          if (choice.value == value) return std::string(choice.word);
        }
        return std::string();
      }};
}

// `word` for nothing.
template <class T>
ValueType<std::optional<T>> or_word(const std::string& word, ValueType<T> type) {
  return {type.form + ", or " + word,
          [word, read = type.read](const YamlNode& node, const std::string& path, std::optional<T>& out,
                                   Reading& reading) {
            if (node.kind == YamlNode::Kind::kScalar && node.text == word) {
              out.reset();
              return true;
            }
            T value{};
            if (!read(node, path, value, reading)) return false;
            out = value;
            return true;
          },
          [word, print = type.print](const std::optional<T>& value) { return value ? print(*value) : word; }};
}

// [a, b, c]. distinct: a value that stands twice is an error.
template <class T>
ValueType<std::vector<T>> list_of(ValueType<T> item, std::size_t fewest, std::size_t most, bool distinct) {
  const auto read = [item, fewest, most, distinct](const YamlNode& node, const std::string& path,
                                                   std::vector<T>& out, Reading& reading) {
    if (!expect_list(node, path, reading)) return false;
    bool good = true;
    if (node.items.size() < fewest || node.items.size() > most) {
      reading.report.error(node.at, path,
                           {"this list has " + std::to_string(node.items.size()) + " values",
                            "write " + std::to_string(fewest) + " to " + std::to_string(most)});
      return false;
    }
    std::vector<T> values;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_path = path + "[" + std::to_string(i) + "]";
      T value{};
      if (!item.read(node.items[i], item_path, value, reading)) {
        good = false;
        continue;
      }
      if (distinct && std::find(values.begin(), values.end(), value) != values.end()) {
        reading.report.error(node.items[i].at, item_path,
                             {item.print(value) + " stands twice in this list", "remove one"});
        good = false;
      }
      values.push_back(std::move(value));
    }
    if (good) out = std::move(values);
    return good;
  };
  return {"a list in [...], each " + item.form, read, [print = item.print](const std::vector<T>& values) {
            std::string out;
            for (const T& value : values) out += (out.empty() ? "" : ", ") + print(value);
            return "[" + out + "]";
          }};
}

// One key in the reference of the configuration.

struct ReferenceRow {
  std::string path;      // jobs[].window
  std::string form;      // what may be written
  std::string fallback;  // the default; empty: none
  std::string doc;       // what it means
};

// Every key, in the order of the reference.
[[nodiscard]] std::vector<ReferenceRow> reference_rows();

}  // namespace tally::config
