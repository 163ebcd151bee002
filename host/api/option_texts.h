#pragma once
// Settings as people write them: TALLY_RANK in the environment is `rank` in the file. Texts first, then
// values, so that every error can say where the text stands.

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

inline constexpr std::array<std::string_view, 14> kSettings{
    "job",   "token",    "token_file", "switch", "transport",    "address",  "rank",
    "world", "elements", "mtu",        "idle",   "join_timeout", "priority", "debug"};

struct OptionText {
  std::string value{};
  std::string where{};  // TALLY_RANK, RANK, or file:line
};

// By setting.
using OptionTexts = std::map<std::string, OptionText, std::less<>>;

// A file of `key = value` lines. `#` at the beginning of a line or after white space begins a comment.
// Errors: kSystem (cannot be read), kInvalidArgument with file:line.
[[nodiscard]] Result<OptionTexts> read_option_file(const std::string& path);

// Rank and world as the launcher of this process says. A launcher is believed as a whole: the first that
// tells both, or else the first that tells one of them. Variables that are set to nothing do not count.
[[nodiscard]] OptionTexts read_launcher();

// The value of a variable of the environment; empty if it is not set.
[[nodiscard]] std::string environment_value(const std::string& name);
// 'rank' -> 'TALLY_RANK'.
[[nodiscard]] std::string variable_of(std::string_view setting);
// 'TALLY_RANK' -> 'rank'; other words only become lower case.
[[nodiscard]] std::string setting_of(std::string_view name);

}  // namespace tally
