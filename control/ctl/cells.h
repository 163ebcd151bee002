#pragma once
// What stands in an answer of the daemon, and as text fit for a terminal. What it lacks, because the daemon is another
// version, is null. Pure.

#include <string>

#include "ctl/command.h"

namespace tally::ctl {

[[nodiscard]] const Json& member(const Json& object, const char* key);   // null: it is none
[[nodiscard]] const Json& list_of(const Json& object, const char* key);  // empty: it is none
[[nodiscard]] double number_of(const Json& object, const char* key);     // 0: it is none
[[nodiscard]] bool is_true(const Json& object, const char* key);

// Cleaned text; numbers with commas; "-" for null and what is not there.
[[nodiscard]] std::string cell(const Json& object, const char* key);
[[nodiscard]] std::string seconds_text(double ns);            // "3.2 s"
[[nodiscard]] std::string ago_text(const Json& nanoseconds);  // "3.2 s ago", "never" for null

}  // namespace tally::ctl
