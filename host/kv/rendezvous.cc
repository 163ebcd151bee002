#include "kv/rendezvous.h"

#include <algorithm>
#include <utility>

namespace tally::kv {
namespace {

Frame refusal_frame(const std::string& why) {
  Frame frame;
  frame.type = FrameType::kGone;
  frame.failed = true;
  frame.text = why;
  return frame;
}

}  // namespace

std::string name_of(Role role, int rank) {
  if (role == Role::kSchedules) return "the scheduler";
  return (role == Role::kServes ? "server " : "worker ") + std::to_string(rank);
}

int group_of(Role role) noexcept {
  return role == Role::kSchedules ? kScheduler : role == Role::kServes ? kServerGroup : kWorkerGroup;
}

Rendezvous::Rendezvous(int workers, int servers) : workers_(workers), servers_(servers) {
  members_[kSelf] = {.role = Role::kSchedules, .rank = 0, .ready = true};
}

Rendezvous::Says Rendezvous::take(Id from, Role role, const std::string& host, const Frame& frame) {
  const auto known = members_.find(from);
  if (frame.type == FrameType::kRegister && known == members_.end()) return enlist(from, role, host, frame);
  if (known == members_.end() || known->second.rank < 0)
    return {{from, refusal_frame("it has not registered"), true}};
  if (frame.type == FrameType::kReady && role == Role::kServes && !workers_told_) {
    known->second.ready = true;
    const auto waits = [](const auto& one) { return one.second.role == Role::kServes && !one.second.ready; };
    if (std::any_of(members_.begin(), members_.end(), waits)) return {};
    workers_told_ = true;
    return rosters(Role::kWorks);
  }
  if (frame.type == FrameType::kBarrier && frame.data.keys.size() == 2)
    return arrive(from, frame.customer, static_cast<int>(frame.data.keys[0]), frame.data.keys[1] != 0);
  return {{from, refusal_frame("it says what a scheduler does not hear"), true}};
}

Rendezvous::Says Rendezvous::enlist(Id from, Role role, const std::string& host, const Frame& frame) {
  const auto refuse = [from](const std::string& why) { return Says{{from, refusal_frame(why), true}}; };
  if (frame.data.keys.size() != 4 || frame.data.keys[0] > 1U << 16 || frame.data.keys[1] > 0xFFFF ||
      role == Role::kSchedules)
    return refuse("its registration cannot be read");
  if (frame.data.keys[2] != static_cast<Key>(workers_) || frame.data.keys[3] != static_cast<Key>(servers_))
    return refuse("it expects " + std::to_string(frame.data.keys[2]) + " workers and " +
                  std::to_string(frame.data.keys[3]) + " servers, and the scheduler " +
                  std::to_string(workers_) + " and " + std::to_string(servers_) +
                  " (DMLC_NUM_WORKER, DMLC_NUM_SERVER)");
  const int most = role == Role::kServes ? servers_ : workers_;
  if (complete_ || count(role) == most)
    return refuse("all " + std::to_string(most) + (role == Role::kServes ? " servers" : " workers") +
                  " are there already");
  Member member{.role = role,
                .wish = static_cast<int>(frame.data.keys[0]) - 1,
                .host = frame.text.empty() ? host : frame.text,
                .port = static_cast<std::uint16_t>(frame.data.keys[1]),
                .ready = role == Role::kWorks};
  if (member.wish >= most)
    return refuse("it asks for rank " + std::to_string(member.wish) + " of " + std::to_string(most) +
                  " (DMLC_RANK)");
  for (const auto& [id, other] : members_) {
    if (member.wish >= 0 && other.role == role && other.wish == member.wish)
      return refuse("rank " + std::to_string(member.wish) + " is taken by another (DMLC_RANK)");
  }
  members_[from] = std::move(member);
  if (count(Role::kWorks) < workers_ || count(Role::kServes) < servers_) return {};
  complete_ = true;
  rank_all(Role::kServes, servers_);
  rank_all(Role::kWorks, workers_);
  if (servers_ != 0) return rosters(Role::kServes);
  workers_told_ = true;
  return rosters(Role::kWorks);
}

// Wishes first; the others take what is left in the order in which they came.
void Rendezvous::rank_all(Role role, int count) {
  std::vector<bool> taken(static_cast<std::size_t>(count), false);
  for (auto& [id, member] : members_) {
    if (member.role != role || member.wish < 0) continue;
    member.rank = member.wish;
    taken[static_cast<std::size_t>(member.wish)] = true;
  }
  std::size_t next = 0;
  for (auto& [id, member] : members_) {
    if (member.role != role || member.rank >= 0) continue;
    while (taken[next]) ++next;
    taken[next] = true;
    member.rank = static_cast<int>(next);
  }
}

Frame Rendezvous::roster(const Member& member) const {
  std::vector<const Member*> servers(static_cast<std::size_t>(servers_));
  for (const auto& [id, one] : members_) {
    if (one.role == Role::kServes) servers[static_cast<std::size_t>(one.rank)] = &one;
  }
  Frame frame;
  frame.type = FrameType::kRoster;
  frame.data.keys.push_back(static_cast<Key>(member.rank));
  for (const Member* server : servers) {
    frame.data.keys.push_back(server->port);
    frame.text += server->host + "\n";
  }
  return frame;
}

Rendezvous::Says Rendezvous::rosters(Role role) const {
  Says says;
  for (const auto& [id, member] : members_) {
    if (member.role == role) says.push_back({id, roster(member)});
  }
  return says;
}

Rendezvous::Says Rendezvous::arrive(Id from, int customer, int groups, bool exit) {
  if (!exit && !in_group(from, groups))
    return {{from, refusal_frame("it waits at a barrier of others"), true}};
  Says says;
  // A server waits there all the time that workers need it.
  if (exit && members_[from].role == Role::kWorks) members_[from].leaving = true;
  const Place place{customer, groups, exit};
  waiting_[place].insert(from);
  settle(says);
  return says;
}

bool Rendezvous::in_group(Id id, int groups) const {
  const auto at = members_.find(id);
  return at != members_.end() && (group_of(at->second.role) & groups) != 0;
}

std::string Rendezvous::lost_of(int groups) const {
  for (const auto& [id, member] : members_) {
    if (member.gone && (group_of(member.role) & groups) != 0) return name_of(member.role, member.rank);
  }
  return {};
}

void Rendezvous::release(const Place& place, const std::string& failure, Says& says) {
  Frame frame;
  frame.type = FrameType::kRelease;
  frame.customer = std::get<0>(place);
  frame.data.keys = {static_cast<Key>(std::get<1>(place)), Key{std::get<2>(place) ? 1U : 0U}};
  frame.failed = !failure.empty();
  frame.text = failure;
  for (const Id id : waiting_[place]) {
    if (!members_[id].gone) says.push_back({id, frame});
  }
  waiting_.erase(place);
}

// Barriers at which everybody is, or will never be. At the exit those who are lost are not waited for.
void Rendezvous::settle(Says& says) {
  std::vector<Place> places;
  for (const auto& [place, who] : waiting_) places.push_back(place);
  for (const Place& place : places) {
    const auto [customer, groups, exit] = place;
    if (const std::string lost = exit ? std::string() : lost_of(groups); !lost.empty()) {
      release(place, lost + " is lost, so not everybody comes to this barrier", says);
      continue;
    }
    const std::set<Id>& here = waiting_[place];
    bool all = complete_;
    for (const auto& [id, member] : members_)
      all &= member.gone || !in_group(id, groups) || here.contains(id);
    if (all) release(place, {}, says);
  }
}

Rendezvous::Says Rendezvous::lost(Id id, const std::string& why) {
  const auto at = members_.find(id);
  if (at == members_.end() || at->second.gone) return {};
  if (!complete_) {  // somebody else may come in its place
    members_.erase(at);
    return {};
  }
  Member& member = at->second;
  member.gone = true;
  Says says;
  if (!member.leaving) {
    Frame frame;
    frame.type = FrameType::kGone;
    frame.data.keys = {static_cast<Key>(member.role), static_cast<Key>(member.rank)};
    frame.text = name_of(member.role, member.rank) + " at " + member.host + " is lost: " + why;
    for (const auto& [other, one] : members_) {
      if (!one.gone) says.push_back({other, frame});
    }
  }
  settle(says);
  return says;
}

Rendezvous::Says Rendezvous::give_up() {
  Says says;
  for (const auto& [id, member] : members_)
    says.push_back({id, refusal_frame("not everybody came: " + missing()), true});
  return says;
}

std::string Rendezvous::missing() const {
  return std::to_string(count(Role::kWorks)) + " of " + std::to_string(workers_) + " workers and " +
         std::to_string(count(Role::kServes)) + " of " + std::to_string(servers_) + " servers are there";
}

int Rendezvous::count(Role role) const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(),
                                        [role](const auto& one) { return one.second.role == role; }));
}

}  // namespace tally::kv
