#pragma once
// Sessions of SwitchML's clients. A session is a job that runs from its declaration until it is withdrawn:
// its members are configured, so there is no JOIN, no lease and no LEAVE, and its clients are never told
// anything. Job ids, names and the slot allocator are those of native jobs.
//
//   declared (no room: `reason`) -> forming (the cores do not know the row yet) -> running -> gone
//
// A session takes slot memory only while no native job waits for some, and all that it asks for: it neither
// gives to jobs of higher priority nor has them called back for it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "members/job_config.h"
#include "members/job_membership.h"
#include "members/membership_status.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::members {

struct BoxState;

// Why a session with such members cannot be declared beside the others.
[[nodiscard]] Result<void> objection_to(const SessionConfig& config, const BoxState& box);
// The session is known; it runs as soon as there is room.
void declare_session(JobId id, SessionConfig config, BoxState& box);
// The row is cleared and its lines are freed; false: no session has that id. Forgets it.
bool end_session(JobId id, BoxState& box);
void end_all_sessions(BoxState& box);

// Tries those that are not admitted, in the order of their ids.
void admit_sessions(BoxState& box);
// Every core uses publication `version`.
void sessions_in_force(BoxState& box, std::uint64_t version, TimeNs now);
// The data plane lost slots and table: each goes on with a new epoch.
void restart_sessions(BoxState& box);
void note_seen(SessionMembership& session, Rank rank, TimeNs last_seen) noexcept;

[[nodiscard]] JobStatus status_of(const SessionMembership& session, const BoxState& box);
// For a JOIN that names a session.
[[nodiscard]] std::string nobody_joins_text(const std::string& name);

}  // namespace tally::members
