#pragma once
// Whether options make sense, before anything is opened.

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tally/error.h"
#include "tally/worker.h"

namespace tally {

// Settings as people write them: TALLY_RANK in the environment is `rank` in the file. Texts first, then
// values, so that every error can say where the text stands.

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

inline constexpr std::chrono::milliseconds kGreatestJoinTimeout = std::chrono::hours(24);

// The first rule broken, as a sentence with the value and what would be right. `texts`: where the settings
// come from; what is not there came from the program. `complete`: job and box must be set.
[[nodiscard]] Result<void> check_options(const WorkerOptions& options, const OptionTexts& texts,
                                         bool complete);

// Why a text is no job or token; empty if it is fine.
[[nodiscard]] std::string objection_to_text(std::string_view text, std::size_t most_bytes);

// What a person wrote, in a message to that person. (std::quoted would be found for strings by
// argument-dependent lookup.)

[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

// What somebody who mistyped a setting may have meant.

// The candidate fewest typing errors away from `word` (one letter wrong, missing, too many, or two swapped);
// empty if none is within a third of its length.
[[nodiscard]] std::string_view near_key(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tally
