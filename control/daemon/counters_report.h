#pragma once
// The counters as text for people: on SIGUSR1 and at the end, to stdout. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "daemon/log.h"
#include "daemon/plane.h"
#include "members/membership_status.h"

namespace tally::daemon {

// What the ports, the cores and the jobs count, which is most of a snapshot. jobs: of interest; cpus: of each
// core. Whether a job is declared, and how long a core is silent, the caller knows.
[[nodiscard]] api::Snapshot take_snapshot(const Plane& plane, std::vector<members::JobStatus> jobs,
                                          const std::vector<std::uint16_t>& cpus);

[[nodiscard]] std::string counters_text(const api::Snapshot& snapshot);

// Sessions in the log and in the counters.

struct SessionNews {
  LogLevel level = LogLevel::kInfo;
  std::string text{};
};

// What is worth a line of the log between two looks. `was`: a default JobStatus if it is new.
[[nodiscard]] std::optional<SessionNews> session_news(const members::JobStatus& was,
                                                      const members::JobStatus& is);
// It is gone since the last look.
[[nodiscard]] SessionNews session_gone(const members::SessionStatus& was);

// A row for each member, with how long ago it was last seen; empty if there is no session.
[[nodiscard]] std::string sessions_text(const api::Snapshot& all);

}  // namespace tally::daemon
