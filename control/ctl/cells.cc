#include "ctl/cells.h"

#include <cstdint>

#include "text/text.h"

namespace tally::ctl {
namespace {

constexpr double kNsPerSecond = 1e9;

}  // namespace

const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool is_true(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::string seconds_text(double ns) { return text::fixed(ns / kNsPerSecond, 1) + " s"; }

const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json& list = member(object, key);
  return list.is_array() ? list : none;
}

double number_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string cell(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_number_unsigned()) return text::with_commas(value.get<std::uint64_t>());
  if (value.is_number()) return value.dump();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) return "-";
  return text::cleaned(value.get_ref<const std::string&>());
}

std::string ago_text(const Json& nanoseconds) {
  return nanoseconds.is_number() ? seconds_text(nanoseconds.get<double>()) + " ago" : "never";
}

}  // namespace tally::ctl
