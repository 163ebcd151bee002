#include "config/reload_plan.h"

#include <algorithm>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "jobs/layout.h"
#include "members/texts.h"

namespace tally::config {
namespace {

const JobConfig* find_job(const Config& config, const std::string& name) {
  const auto job = std::ranges::find_if(
      config.jobs, [&](const JobConfig& j) { return members::common_of(j).name == name; });
  return job == config.jobs.end() ? nullptr : &*job;
}

// What a session is, whatever clients run it. The order in which members stand says nothing.
SessionConfig by_rank(SessionConfig session) {
  session.run = 0;
  std::ranges::sort(session.members, {}, &members::ConfiguredMember::rank);
  return session;
}

// Nothing else of a session can change while it runs, and nobody has joined it: it begins again.
void compare_sessions(const JobConfig& is, const JobConfig& wanted, const std::string& path,
                      ReloadPlan& plan) {
  const auto& before = std::get<SessionConfig>(is);
  const auto& session = std::get<SessionConfig>(wanted);
  if (by_rank(before) == by_rank(session)) {
    if (before.run != session.run) plan.reset.push_back({session.name, session.run});
    return;
  }
  ReloadPlan::Again& again = plan.again.emplace_back(ReloadPlan::Again{session});
  compare_sections(job_schema(), is, wanted, path, again.keys);
}

void compare_jobs(const JobConfig& is, const JobConfig& wanted, const std::string& path, ReloadPlan& plan) {
  if (is.index() != wanted.index()) return plan.restart.push_back(member_path(path, "dialect"));
  const auto* const before = std::get_if<NativeConfig>(&is);
  if (before == nullptr) return compare_sessions(is, wanted, path, plan);
  const auto& after = std::get<NativeConfig>(wanted);
  const bool pool = before->discipline == Discipline::kPool && after.discipline == Discipline::kPool;
  for (const auto& key : job_schema()) {
    if (!key.compare || (pool && key.name == "window")) continue;
    key.compare(is, wanted, member_path(path, key.name), plan.restart);
  }
  // No key, so that it is never printed.
  if (before->token_file == after.token_file && before->token != after.token)
    plan.restart.push_back(member_path(path, "token_file") + " (what it holds)");
  if (pool && before->window != after.window) plan.resize.push_back({after.name, after.window});
}

}  // namespace

ReloadPlan plan_reload(const Config& running, const Config& wanted) {
  ReloadPlan plan;
  for (const auto& key : config_schema()) {
    if (key.compare && key.name != "jobs") key.compare(running, wanted, key.name, plan.restart);
  }
  for (const JobConfig& is : running.jobs) {
    const std::string& name = members::common_of(is).name;
    if (find_job(wanted, name) == nullptr) plan.withdraw.push_back(name);
  }
  for (std::size_t i = 0; i < wanted.jobs.size(); ++i) {
    const JobConfig& job = wanted.jobs[i];
    if (const JobConfig* const is = find_job(running, members::common_of(job).name); is != nullptr) {
      compare_jobs(*is, job, "jobs[" + std::to_string(i) + "]", plan);
    } else {
      plan.declare.push_back(job);
    }
  }
  return plan;
}

namespace {

tl::unexpected<Error> no(const CommonConfig& job, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, "job '" + job.name + "'");
}

std::string packets_text(const SessionConfig& session, const PortSection& port) {
  return "its payload of " + std::to_string(session.payload) + " bytes makes IP packets of " +
         std::to_string(session_packet_bytes(session.payload)) + ", and port " + port.name + " carries " +
         std::to_string(port.mtu) + " until tallyd is restarted";
}

Result<void> serves_one(const Config& running, const NativeConfig& job) {
  if (!shares_slots(job.discipline)) return {};
  const SharedSection& shared = running.dataplane.shared;
  if (shared.slots == 0) return no(job, kNoSharedSlots);
  if (job.elements > shared.elements) return no(job, larger_than_shared(job, shared));
  return {};
}

Result<void> serves_one(const Config& running, const SessionConfig& session) {
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
  const std::uint64_t there = own_lines_per_core(running.dataplane);
  if (members::lines_of(session) > there) {
    return no(session, "it takes " + members::kib_text(members::lines_of(session)) +
                           " of slot memory per core, and there are " + members::kib_text(there) +
                           " until tallyd is restarted");
  }
  for (const members::ConfiguredMember& m : session.members) {
    if (m.mac == box_mac(running))
      return no(session, "rank " + std::to_string(m.rank) + " has the box's MAC");
  }
  return {};
}

// `replaced`: those that would be gone.
Result<void> fits(const Config& running, const SessionConfig& session,
                  const std::vector<ReloadPlan::Again>& replaced) {
  if (auto good = serves_one(running, session); !good) return good;
  for (const auto& [i, other] : jobs_of<SessionConfig>(running)) {
    const bool gone = std::ranges::any_of(
        replaced, [name = other->name](const auto& again) { return again.session.name == name; });
    const std::string clash = gone ? std::string() : members::clash_text(session, *other);
    if (!clash.empty()) return no(session, clash + ", which runs on");
  }
  return {};
}

}  // namespace

Result<void> serves(const Config& running, const JobConfig& job) {
  return std::visit([&](const auto& one) { return serves_one(running, one); }, job);
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
