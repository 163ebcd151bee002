#pragma once
// Answers of the daemon as text for people. Pure. What an answer lacks, because the daemon is another
// version, is shown as '-'.

#include <string>

#include "ctl/command.h"

namespace tally::ctl {

// page: any but kTop, kTrace, kEvents and kHelp.
[[nodiscard]] std::string page_text(Page page, const Json& answer);
// The "diagnostics" of an answer or an error, as tallyd --check prints them.
[[nodiscard]] std::string diagnostics_text(const Json& answer);
// A line for an event, the parameters of a notification.
[[nodiscard]] std::string event_text(const Json& event);
// Names of the jobs of a job.list, one a line.
[[nodiscard]] std::string names_text(const Json& answer);

// Parts that top uses too.

// A text of the answer that is fit for a terminal; numbers with commas; "-" for null and what is not there.
[[nodiscard]] std::string cell(const Json& object, const char* key);
[[nodiscard]] double number_of(const Json& object, const char* key);     // 0: it is none
[[nodiscard]] std::string ago_text(const Json& nanoseconds);             // "3.2 s ago", "never" for null
[[nodiscard]] const Json& list_of(const Json& object, const char* key);  // empty: it is none

}  // namespace tally::ctl
