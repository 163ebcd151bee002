#pragma once
// Sessions of SwitchML's clients in the log and in the counters.

#include <optional>
#include <string>

#include "counters_snapshot.h"
#include "log.h"
#include "membership_status.h"

namespace tally {

struct SessionNews {
  LogLevel level = LogLevel::kInfo;
  std::string text{};
};

// What is worth a line of the log between two looks. `was`: a default JobStatus if it is new.
[[nodiscard]] std::optional<SessionNews> session_news(const JobStatus& was, const JobStatus& is);
// It is gone since the last look.
[[nodiscard]] SessionNews session_gone();

// A row for each member, with how long ago it was last seen; empty if there is no session.
[[nodiscard]] std::string sessions_text(const CountersSnapshot& all);

}  // namespace tally
