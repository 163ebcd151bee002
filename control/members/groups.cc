#include "members/groups.h"

#include <algorithm>
#include <utility>

#include "members/native_life.h"
#include "text/text.h"

namespace tally::members {

std::string_view parent_name(std::string_view name) noexcept {
  const auto end = name.find('/');
  if (end == std::string_view::npos) return {};
  for (std::size_t at = end; at != std::string_view::npos;) {
    const auto next = name.find('/', at + 1);
    if (!text::is_name(name.substr(at + 1, next - at - 1))) return {};
    at = next;
  }
  return name.substr(0, end);
}

// What is guaranteed is its job's and cannot be given again; the share that a group may hold at most, and its
// weight, it has beside its job.
NativeConfig group_config(const NativeConfig& parent, std::string_view name, std::uint16_t world) {
  NativeConfig group = parent;
  group.name = name;
  group.workers = world;
  group.quota.reserved_ppm = 0;
  if (group.stragglers) group.stragglers->least = std::min(group.stragglers->least, world);
  group.admit.reset();
  return group;
}

std::optional<Objection> Groups::objection_to(const NativeConfig& parent, JobId parent_id,
                                              const JoinRequest& join, const jobs::Binding& source,
                                              TimeNs now) {
  const std::string who = "a group of job '" + text::cleaned(parent.name) + "'";
  const std::uint16_t world = join.fixed.world.host();
  if (is_server(join.rank)) return Objection{MembershipDrop::kUnknownJob, who + " has no servers of its own"};
  if (world > parent.workers) {
    return Objection{MembershipDrop::kWorld, who + " has at most its " + std::to_string(parent.workers) +
                                                 " workers, this worker expects " + std::to_string(world)};
  }
  if (raw(join.rank) >= world) {
    return Objection{MembershipDrop::kRank, "rank " + std::to_string(raw(join.rank)) +
                                                " is none of a group of " + std::to_string(world) +
                                                " workers"};
  }
  const std::size_t most = parent.admit->groups;
  if (of(parent_id).size() >= most) {
    return Objection{MembershipDrop::kGroups, "job '" + text::cleaned(parent.name) + "' has " +
                                                  std::to_string(most) +
                                                  " groups already, as many as it may have (admit.groups)"};
  }
  if (!rate_.take(jobs::host_of(source), now)) return Objection{MembershipDrop::kRate, {}};
  return std::nullopt;
}

void Groups::add(JobId group, JobId parent_id, const NativeConfig& parent) {
  groups_[group] = {parent_id, parent.name, parent.admit->idle};
  moved_.insert(group);
}

void Groups::remove(JobId group) {
  groups_.erase(group);
  moved_.erase(group);
  leaving_.set(group, kNever);
}

std::string Groups::parent_of(JobId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::string() : found->second.parent_name;
}

std::vector<JobId> Groups::of(JobId parent) const {
  std::vector<JobId> all;
  for (const auto& [id, group] : groups_) {
    if (group.parent == parent) all.push_back(id);
  }
  return all;
}

std::set<JobId> Groups::take_moved() { return std::exchange(moved_, {}); }

void Groups::idle(JobId group, bool idle, TimeNs now) {
  leaving_.set(group, idle ? now + groups_.at(group).idle : kNever);
}

}  // namespace tally::members
