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
#include "config/yaml_node.h"
#include "tally/time.h"

namespace tally::config {

// The parts of reading a section that do not depend on what the section is.

// One key in the reference of a file: below.
struct ReferenceRow;
// Every key of tallyd's file, in the order of the reference.
[[nodiscard]] std::vector<ReferenceRow> reference_rows();

struct Reading {
  Report& report;
  Places& places;
  // Every key of the file that is read: where a key belongs that stands in the wrong section.
  std::vector<ReferenceRow> (*reference)() = reference_rows;
};

// A value, or a section, as it stands in the file.
struct Written {
  const YamlNode& node;
  std::string path;  // jobs[0].window; empty: the whole file
  Reading& reading;

  void error(Complaint complaint) const { reading.report.error(node.at, path, std::move(complaint)); }
};

// path.name; just name at the top.
[[nodiscard]] std::string member_path(const std::string& path, const std::string& name);
[[nodiscard]] bool has_key(const YamlNode& map, const std::string& name);

// False if it is something else; that is reported then and the path marked broken.
bool expect_map(const Written& written, const std::vector<std::string>& keys);
bool expect_list(const Written& written);
// form: what may be written instead.
bool expect_scalar(const Written& written, const std::string& form);

// Of the section `map`.
void report_unknown_key(const Written& map, const YamlEntry& entry, const std::vector<std::string>& known);
void report_missing(const Written& map, const std::string& key);
void report_refused_key(const Written& map, const YamlEntry& entry, const std::string& why);

template <class T>
struct ValueType {
  std::string form;  // what may be written, for people: 'a whole number from 1 to 64'
  std::function<std::optional<T>(const Written&)> read;  // nothing: something is wrong and was reported
  std::function<std::string(const T&)> print;            // as YAML that reads back as the same value
};

// A string as YAML: plain where that is safe, else in double quotes.
[[nodiscard]] std::string yaml_text(const std::string& text);

// Reports a complaint about a scalar at the place in it that it names.
void report_value(const Written& written, Complaint complaint, const std::string& form);

enum class Quotes : std::uint8_t { kAllowed, kRefused };  // '4' in quotes is a text, not a number

template <class T>
ValueType<T> scalar_type(std::string form, std::function<Parsed<T>(const std::string&)> parse,
                         std::function<std::string(const T&)> print, Quotes quotes = Quotes::kAllowed) {
  const auto read = [form, parse = std::move(parse), quotes](const Written& w) -> std::optional<T> {
    if (!expect_scalar(w, form)) return std::nullopt;
    if (w.node.quoted && quotes == Quotes::kRefused) {
      report_value(w, {shown(w.node.text) + " is in quotes, which makes it a text", "remove the quotes"},
                   form);
      return std::nullopt;
    }
    Parsed<T> value = parse(w.node.text);
    if (value) return std::move(*value);
    report_value(w, std::move(value.error()), form);
    return std::nullopt;
  };
  return {std::move(form), read, std::move(print)};
}

// `type` for another T. to: T of its value; from: back.
template <class T, class U, class To, class From>
ValueType<T> converted(const ValueType<U>& type, To to, From from) {
  return {type.form,
          [read = type.read, to](const Written& w) -> std::optional<T> {
            std::optional<U> value = read(w);
            if (!value) return std::nullopt;
            return std::optional<T>(to(std::move(*value)));
          },
          [print = type.print, from](const T& value) { return print(from(value)); }};
}

// `type` without the values that `wrong` complains of. Its second argument is the value's text.
template <class T, class Wrong>
ValueType<T> but_not(ValueType<T> type, Wrong wrong) {
  type.read = [read = type.read, wrong](const Written& w) -> std::optional<T> {
    std::optional<T> value = read(w);
    if (!value) return value;
    std::optional<Complaint> complaint = wrong(*value, w.node.text);
    if (!complaint) return value;
    w.error(std::move(*complaint));
    return std::nullopt;
  };
  return type;
}

[[nodiscard]] ValueType<std::uint64_t> whole_number(std::uint64_t lowest, std::uint64_t highest);

// whole_number for a narrower type that holds the range.
template <class T>
ValueType<T> whole_number_in(T lowest, T highest) {
  return converted<T>(
      whole_number(lowest, highest), [](std::uint64_t wide) { return static_cast<T>(wide); },
      [](T value) { return std::uint64_t{value}; });
}

// Values in a packet or a slot: a multiple of 16.
[[nodiscard]] ValueType<std::uint16_t> element_count();
[[nodiscard]] ValueType<bool> true_or_false();
[[nodiscard]] ValueType<std::uint64_t> size_between(std::uint64_t lowest, std::uint64_t highest);
[[nodiscard]] ValueType<TimeNs> time_between(TimeNs lowest, TimeNs highest);
[[nodiscard]] ValueType<std::uint32_t> percentage();
// Kilobits per second.
[[nodiscard]] ValueType<std::uint64_t> rate_between(std::uint64_t lowest, std::uint64_t highest);
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
  return converted<E>(
      one_of_words(words), [choices](std::size_t at) { return choices[at].value; },
      [choices](const E& value) {
        const auto same = [&](const Choice<E>& choice) { return choice.value == value; };
        return static_cast<std::size_t>(std::ranges::find_if(choices, same) - choices.begin());
      });
}

// `word` for nothing.
template <class T>
ValueType<std::optional<T>> or_word(const std::string& word, const ValueType<T>& type) {
  using Maybe = std::optional<T>;
  return {type.form + ", or " + word,
          [word, read = type.read](const Written& w) -> std::optional<Maybe> {
            if (w.node.kind == YamlNode::Kind::kScalar && w.node.text == word) return Maybe();
            Maybe value = read(w);
            return value ? std::optional<Maybe>(std::move(value)) : std::nullopt;
          },
          [word, print = type.print](const Maybe& value) { return value ? print(*value) : word; }};
}

// [a, b, c]. distinct: a value that stands twice is an error.
template <class T>
ValueType<std::vector<T>> list_of(ValueType<T> item, std::size_t fewest, std::size_t most, bool distinct) {
  const auto read = [item, fewest, most, distinct](const Written& w) -> std::optional<std::vector<T>> {
    const auto& items = w.node.items;
    if (!expect_list(w)) return std::nullopt;
    if (items.size() < fewest || items.size() > most) {
      w.error({"this list has " + std::to_string(items.size()) + " values",
               "write " + std::to_string(fewest) + " to " + std::to_string(most)});
      return std::nullopt;
    }
    bool good = true;
    std::vector<T> values;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Written at{items[i], w.path + "[" + std::to_string(i) + "]", w.reading};
      w.reading.places.put(at.path, at.node.at);
      std::optional<T> value = item.read(at);
      good = good && value.has_value();
      if (!value) continue;
      if (distinct && std::find(values.begin(), values.end(), *value) != values.end()) {
        at.error({item.print(*value) + " stands twice in this list", "remove one"});
        good = false;
      }
      values.push_back(std::move(*value));
    }
    return good ? std::optional(std::move(values)) : std::nullopt;
  };
  return {"a list in [...], each " + item.form, read, [print = item.print](const std::vector<T>& values) {
            std::string out;
            for (const T& value : values) out += (out.empty() ? "" : ", ") + print(value);
            return "[" + out + "]";
          }};
}

// One key in the reference of the configuration.

// When another value takes effect, once the file was read again or job.set has said it.
enum class Applies : std::uint8_t {
  kRestart,
  kNextGeneration,  // of the job: when nobody is in it any more
  kAtOnce,
};
// "at once", ...
[[nodiscard]] std::string applies_text(Applies applies);

struct ReferenceRow {
  std::string path;      // jobs[].window
  std::string form;      // what may be written
  std::string fallback;  // the default; empty: none
  std::string doc;       // what it means
  Applies applies = Applies::kRestart;
};

}  // namespace tally::config
