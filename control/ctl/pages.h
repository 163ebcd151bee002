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

}  // namespace tally::ctl
