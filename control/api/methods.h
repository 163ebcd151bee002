#pragma once
// The methods of the control interface as one table: what is served, read, documented (`api.schema`,
// docs/tallyctl.md) and completed is this table. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "api/request.h"

namespace tally::api {

enum class MethodId : std::uint8_t {
  kVersion,
  kSchema,
  kHealth,
  kJobList,
  kJobShow,
  kJobAdd,
  kJobSet,
  kJobRemove,
  kJobAbort,
  kJobReplan,
  kPortList,
  kCoreList,
  kSlotShow,
  kDropList,
  kStats,
  kConfigShow,
  kConfigCheck,
  kConfigDiff,
  kConfigReload,
  kRestart,
  kLogSet,
  kSubscribe,
  kDoctor,
  kFleetShow,
  kPlanShow,
  kPlanRate,
  kTraceStart,
  kTraceRead,
  kTraceStop,
  kTraceList,
};

struct Parameter {
  enum class Type : std::uint8_t {
    kText,   // low..high bytes
    kWhole,  // low..high
    kWord,   // one of `words`
    kFlag,
    kObject,
  };
  std::string_view name;
  Type type = Type::kText;
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::vector<std::string> words{};
  std::string_view help{};
  bool required = true;
};

struct Method {
  MethodId id{};
  std::string_view name;
  bool restricted = false;  // changes the box, or costs it time: for those of Caller::may_change
  std::string_view help{};
  std::vector<Parameter> parameters{};
  std::vector<std::string> keys{};  // further ones, each a key of a job as in the configuration
};

[[nodiscard]] std::span<const Method> methods();
// Not those that are restricted for what they cost, or show.
[[nodiscard]] constexpr bool changes(const Method& method) noexcept {
  return method.restricted && method.id != MethodId::kConfigCheck && method.id != MethodId::kConfigDiff &&
         method.id != MethodId::kDoctor && method.id != MethodId::kTraceRead;
}

// What may be written for it, for people: "a whole number from 16 to 16384".
[[nodiscard]] std::string form_of(const Parameter& parameter);

// Values of the parameters of one request, those that are required there, all of the type and range of the
// table. A parameter that may be missing and is: an empty text, nothing, false.
class Arguments {
 public:
  [[nodiscard]] const std::string& text(std::string_view name) const { return texts_.find(name)->second; }
  [[nodiscard]] std::uint64_t whole(std::string_view name) const { return wholes_.find(name)->second; }
  [[nodiscard]] std::optional<std::uint64_t> whole_if_given(std::string_view name) const {
    const auto found = wholes_.find(name);
    return found == wholes_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool flag(std::string_view name) const { return flags_.contains(name); }
  [[nodiscard]] const Json& object(std::string_view name) const { return objects_.find(name)->second; }
  [[nodiscard]] bool has(std::string_view name) const {
    return texts_.contains(name) || wholes_.contains(name) || flags_.contains(name) ||
           objects_.contains(name);
  }
  // Those of Method::keys that are given, as they came.
  [[nodiscard]] const Json& keys() const noexcept { return keys_; }

 private:
  friend tl::expected<Arguments, Failure> read_arguments(const Method& method, const Json& given);
  std::map<std::string, std::string, std::less<>> texts_{};
  std::map<std::string, std::uint64_t, std::less<>> wholes_{};
  std::set<std::string, std::less<>> flags_{};  // those that are true
  std::map<std::string, Json, std::less<>> objects_{};
  Json keys_ = Json::object();
};

// given: an object, or a list: an empty one is as good as no parameters.
[[nodiscard]] tl::expected<Arguments, Failure> read_arguments(const Method& method, const Json& given);

[[nodiscard]] tl::expected<const Method*, Failure> find_method(std::string_view name);

// The table as JSON: the result of api.schema.
[[nodiscard]] Json schema();
// ... and as a table in Markdown.
[[nodiscard]] std::string schema_markdown();

}  // namespace tally::api
