#include "device_words.h"

#include <algorithm>
#include <charconv>

namespace tally {
namespace {

constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ with its NUL byte

}  // namespace

DeviceWords::DeviceWords(std::string_view text) {
  const std::size_t comma = std::min(text.find(','), text.size());
  name_ = text.substr(0, comma);
  for (std::string_view rest = text.substr(comma); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    const std::size_t equals = std::min(word.find('='), word.size());
    words_.push_back(
        {std::string(word.substr(0, equals)), std::string(word.substr(std::min(equals + 1, word.size())))});
  }
}

const std::string* DeviceWords::find(std::string_view key) const noexcept {
  const auto at = std::ranges::find(words_, key, &Word::key);
  return at == words_.end() ? nullptr : &at->value;
}

std::optional<std::uint32_t> DeviceWords::number(std::string_view key, std::uint32_t lowest,
                                                 std::uint32_t highest, std::uint32_t otherwise,
                                                 std::vector<DeviceComplaint>& complaints) const {
  const std::string* const value = find(key);
  if (value == nullptr) return otherwise;
  std::uint32_t n = 0;
  const char* const last = value->data() + value->size();
  const auto [end, error] = std::from_chars(value->data(), last, n);
  if (error == std::errc{} && end == last && n >= lowest && n <= highest) return n;
  const std::string range =
      lowest == highest ? "write " + std::to_string(lowest) + ", or leave it out"
      : lowest == 0 && highest == 1
          ? "write 0 or 1"
          : "write a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  complaints.push_back({std::string(key), std::string(key) + " is '" + *value + "'", range});
  return std::nullopt;
}

std::string DeviceWords::interface(std::string_view key, std::vector<DeviceComplaint>& complaints) const {
  const std::string* const name = find(key);
  if (name == nullptr) return {};
  if (name->empty() || name->size() > kLongestInterface || name->find_first_of("/ :") != std::string::npos ||
      *name == "." || *name == "..") {
    complaints.push_back({std::string(key), "'" + *name + "' cannot be the name of a network interface",
                          "a name has 1 to 15 bytes, without space, / and :; `ip link` lists those here"});
    return {};
  }
  return *name;
}

void DeviceWords::add(std::string_view key, std::string_view value) {
  words_.push_back({std::string(key), std::string(value)});
}

std::string DeviceWords::text() const {
  std::string text = name_;
  for (const Word& word : words_) text.append(",").append(word.key).append("=").append(word.value);
  return text;
}

}  // namespace tally
