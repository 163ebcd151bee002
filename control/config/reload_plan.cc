#include "config/reload_plan.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/to_members.h"
#include "jobs/layout.h"
#include "members/texts.h"

namespace tally::config {
namespace {

const JobSection* find_job(const Config& config, const std::string& name) {
  const auto job = std::find_if(config.jobs.begin(), config.jobs.end(),
                                [&](const JobSection& j) { return j.name == name; });
  return job == config.jobs.end() ? nullptr : &*job;
}

// What a session has: defaults of other keys follow from elsewhere in the file. The order in which members
// stand says nothing.
members::SessionConfig by_rank(const JobSection& job) {
  members::SessionConfig session = member_session(job);
  std::ranges::sort(session.members, {}, &members::ConfiguredMember::rank);
  return session;
}

bool is_native(std::string_view key) {
  return std::ranges::find(kNativeKeys, key, &DialectKey::key) != kNativeKeys.end();
}

// Nothing else of a session can change while it runs, and nobody has joined it: it begins again.
void compare_sessions(const JobSection& is, const JobSection& wanted, const std::string& path,
                      ReloadPlan& plan) {
  if (by_rank(is) == by_rank(wanted)) {
    if (is.run != wanted.run) plan.reset.push_back({wanted.name, wanted.run});
    return;
  }
  ReloadPlan::Again& again = plan.again.emplace_back(ReloadPlan::Again{wanted});
  for (const auto& key : job_schema()) {
    if (!key.compare || is_native(key.name)) continue;
    key.compare(is, wanted, member_path(path, key.name), again.keys);
  }
}

void compare_jobs(const JobSection& is, const JobSection& wanted, const std::string& path, ReloadPlan& plan) {
  if (is.dialect != wanted.dialect) return plan.restart.push_back(member_path(path, "dialect"));
  if (is_session(is)) return compare_sessions(is, wanted, path, plan);
  const bool pool = is.discipline == Discipline::kPool && wanted.discipline == Discipline::kPool;
  for (const auto& key : job_schema()) {
    if (!key.compare || (pool && key.name == "window")) continue;
    key.compare(is, wanted, member_path(path, key.name), plan.restart);
  }
  // No key, so that it is never printed.
  if (is.token_file == wanted.token_file && is.token != wanted.token)
    plan.restart.push_back(member_path(path, "token_file") + " (what it holds)");
  if (pool && is.window != wanted.window) plan.resize.push_back({wanted.name, wanted.window});
}

}  // namespace

ReloadPlan plan_reload(const Config& running, const Config& wanted) {
  ReloadPlan plan;
  for (const auto& key : config_schema()) {
    if (key.compare && key.name != "jobs") key.compare(running, wanted, key.name, plan.restart);
  }
  for (const JobSection& is : running.jobs) {
    if (find_job(wanted, is.name) == nullptr) plan.withdraw.push_back(is.name);
  }
  for (std::size_t i = 0; i < wanted.jobs.size(); ++i) {
    const JobSection& job = wanted.jobs[i];
    if (const JobSection* const is = find_job(running, job.name); is != nullptr) {
      compare_jobs(*is, job, "jobs[" + std::to_string(i) + "]", plan);
    } else {
      plan.declare.push_back(job);
    }
  }
  return plan;
}

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
         jobs::shared_lines(shared_entries_per_core(dataplane), dataplane.shared.elements);
}

Result<void> apart(const JobSection& session, const JobSection& stays) {
  for (const members::ConfiguredMember& theirs : stays.members) {
    const auto same =
        std::ranges::find_if(session.members, [&](const auto& m) { return members::same_sender(m, theirs); });
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
  for (const members::ConfiguredMember& m : session.members) {
    if (m.ipv4 != running.box.ipv4->address) continue;
    return no(session, "rank " + std::to_string(m.rank) + " has the box's address, " + to_text(m.ipv4) +
                           ", until tallyd is restarted");
  }
  for (const PortSection& port : running.ports) {
    if (port.mtu < session_packet_bytes(session.payload)) return no(session, packets_text(session, port));
  }
  const members::SessionConfig config = member_session(session);
  const std::uint64_t there = own_lines_of(running.dataplane);
  if (members::lines_of(config) > there) {
    return no(session, "it takes " + members::kib_text(members::lines_of(config)) +
                           " of slot memory per core, and there are " + members::kib_text(there) +
                           " until tallyd is restarted");
  }
  return members::validate(config, member_options(running));
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

}  // namespace tally::config
