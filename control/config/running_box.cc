#include "running_box.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checks.h"
#include "shared_region.h"
#include "texts.h"
#include "to_members.h"

namespace tally {
namespace {

tl::unexpected<Error> no(const JobSection& session, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, "job '" + session.name + "'");
}

std::string packets_text(const JobSection& session, const PortSection& port) {
  return "its payload of " + std::to_string(session.payload) + " bytes makes IP packets of " +
         std::to_string(session_packet_bytes(session.payload)) + ", and port " + port.name + " carries " +
         std::to_string(port.mtu) + " until tallyd is restarted";
}

// Of each core, the shared slots left out.
std::uint64_t own_lines_of(const DataplaneSection& dataplane) {
  return slot_lines_per_core(dataplane) -
         shared_lines(shared_entries_per_core(dataplane), dataplane.shared.elements);
}

Result<void> apart(const JobSection& session, const JobSection& stays) {
  for (const ConfiguredMember& theirs : stays.members) {
    const auto same =
        std::ranges::find_if(session.members, [&](const auto& m) { return same_sender(m, theirs); });
    if (same == session.members.end()) continue;
    return no(session, "rank " + std::to_string(same->rank) + " has the addresses of rank " +
                           std::to_string(theirs.rank) + " of job '" + stays.name + "', which runs on");
  }
  return {};
}

// `replaced`: those that would be gone.
Result<void> fits(const Config& running, const JobSection& session,
                  const std::vector<ReloadPlan::Again>& replaced) {
  if (auto good = serves(running, session); !good) return good;
  for (const JobSection& other : running.jobs) {
    const bool gone = std::ranges::any_of(
        replaced, [&](const ReloadPlan::Again& again) { return again.session.name == other.name; });
    if (!is_session(other) || gone) continue;
    if (auto good = apart(session, other); !good) return good;
  }
  return {};
}

}  // namespace

Result<void> serves(const Config& running, const JobSection& session) {
  if (!running.box.ipv4)
    return no(session,
              "SwitchML's clients know only IPv4, and the box has no such address until tallyd is restarted");
  for (const ConfiguredMember& m : session.members) {
    if (m.ipv4 != running.box.ipv4->address) continue;
    return no(session, "rank " + std::to_string(m.rank) + " has the box's address, " + to_text(m.ipv4) +
                           ", until tallyd is restarted");
  }
  for (const PortSection& port : running.ports) {
    if (port.mtu < session_packet_bytes(session.payload)) return no(session, packets_text(session, port));
  }
  const SessionConfig config = member_session(session);
  const std::uint64_t there = own_lines_of(running.dataplane);
  if (lines_of(config) > there) {
    return no(session, "it takes " + kib_text(lines_of(config)) + " of slot memory per core, and there are " +
                           kib_text(there) + " until tallyd is restarted");
  }
  return validate(config, member_options(running));
}

Replacements replacements(const Config& running, std::vector<ReloadPlan::Again> wanted) {
  Replacements all{.good = std::move(wanted)};
  for (auto next = all.good.begin(); next != all.good.end();) {
    auto good = fits(running, next->session, all.good);
    if (good) {
      ++next;
      continue;
    }
    all.refused.push_back(std::move(good.error()));
    all.good.erase(next);
    next = all.good.begin();  // it may be in the way of those before it
  }
  return all;
}

}  // namespace tally
