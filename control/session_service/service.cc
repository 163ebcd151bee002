// What the clients ask, and when their groups are over.

#include "session_service/service.h"

#include <algorithm>
#include <utility>

#include "text/text.h"

namespace tally::session_service {
namespace {

using Level = config::LogSection::Level;

constexpr TimeNs kLookWhenAwaited = 100 * kMillisecond;

}  // namespace

Service::Service(Settings settings) : settings_(std::move(settings)) {
  for (const Settings::Port& port : settings_.listen)
    desks_.push_back({.job = settings_.prefix + port.name, .port = port.port});
}

void Service::log(Level level, std::string text) { work_.lines.push_back({level, std::move(text)}); }

Service::Desk* Service::desk_of(const std::string& job) {
  const auto desk = std::ranges::find(desks_, job, &Desk::job);
  return desk == desks_.end() ? nullptr : &*desk;
}

// Of the group that forms before that of the session: who begins anew has left the old one.
Service::Place Service::place_of(ConnectionId connection) {
  Desk& desk = desks_.at(connections_.at(connection).desk);
  if (desk.group) {
    if (const auto rank = desk.group->rank_of(connection)) return {&*desk.group, *rank, true};
  }
  if (desk.session && desk.session->group() != nullptr && desk.session->has(connection)) {
    if (const auto rank = desk.session->group()->rank_of(connection))
      return {desk.session->group(), *rank, false};
  }
  return {};
}

void Service::opened(ConnectionId connection, std::size_t port, std::string where) {
  connections_.emplace(connection, Connection{port, std::move(where)});
}

void Service::closed(ConnectionId connection, TimeNs now) {
  if (!connections_.contains(connection)) return;
  const Place place = place_of(connection);
  Desk& desk = desks_.at(connections_.at(connection).desk);
  const std::string name = place.group == nullptr ? "" : place.group->name_of(place.rank);
  connections_.erase(connection);
  if (place.group == nullptr) return;
  if (place.forms) return dissolve(desk, {Code::kAborted, name + " has left before the session began"});
  desk.session->leave(connection, now);
  log(Level::kInfo, named(desk.job) + ": the connection of " + name + " is closed, " +
                        std::to_string(desk.session->connections()) + " are open");
  place.group->forget_wait(place.rank);
  place.group->release({Code::kAborted, name + " has left the session"}, work_.answers);
}

void Service::asked(CallId call, ConnectionId connection, const Request& request, TimeNs now) {
  if (!connections_.contains(connection)) return answer(call, {Code::kAborted, "the connection is closed"});
  std::visit([&](const auto& one) { on(call, connection, one, now); }, request);
}

void Service::on(CallId call, ConnectionId /*connection*/, const RdmaSession& /*request*/, TimeNs /*now*/) {
  answer(call, {Code::kUnimplemented,
                "this box has no RDMA: build the clients with their DPDK backend (backend = dpdk)"});
}

void Service::on(CallId call, ConnectionId connection, const Broadcast& request, TimeNs now) {
  Connection& mine = connections_.at(connection);
  Desk& desk = desks_.at(mine.desk);
  if (Status no = objection_to(request, settings_); !no.ok()) return answer(call, std::move(no));
  mine.over = {};
  if (desk.session && desk.session->has(connection)) {
    const Place place = place_of(connection);
    if (!place.forms) {
      const std::string name = place.group->name_of(place.rank);
      place.group->forget_wait(place.rank);
      place.group->release({Code::kAborted, name + " begins a session anew"}, work_.answers);
      desk.session->leave(connection, now);
      log(Level::kInfo, named(desk.job) + ": " + name + " begins anew");
    }
  }
  const bool begins = !desk.group;
  if (begins) {
    desk.group.emplace(request, "rank " + std::to_string(request.rank) + " (" + mine.where + ")", now);
    log(Level::kInfo, named(desk.job) + ": " + text::counted(request.workers, "worker") +
                          " begin to meet on port " + std::to_string(desk.port));
  }
  if (Status no = desk.group->join(call, connection, mine.where, request, now, work_.answers); !no.ok()) {
    log(Level::kWarning, named(desk.job) + ": " + mine.where + " was refused: " + no.text);
    answer(call, std::move(no));
  }
}

void Service::on(CallId call, ConnectionId connection, const UdpSession& request, TimeNs now) {
  const Place place = place_of(connection);
  Connection& mine = connections_.at(connection);
  if (place.group == nullptr)
    return answer(call, mine.over.ok()
                            ? Status{Code::kFailedPrecondition,
                                     "this client is in no group: Broadcast comes before UdpSession"}
                            : mine.over);
  Desk& desk = desks_.at(mine.desk);
  if (!place.forms)
    return answer(call,
                  {Code::kFailedPrecondition, place.group->name_of(place.rank) +
                                                  " has its session; whoever wants another begins with a "
                                                  "Broadcast"});
  Status no = objection_to(request, settings_);
  if (no.ok()) no = place.group->ask_session(place.rank, call, request, now);
  if (!no.ok()) return refuse(desk, place.rank, call, no);
  if (box_) return admit_waiting(desk, now);
  next_look_ = std::min(next_look_, now);
}

void Service::on(CallId call, ConnectionId connection, const Barrier& request, TimeNs now) {
  const Place place = place_of(connection);
  Connection& mine = connections_.at(connection);
  if (place.group == nullptr)
    return answer(call, mine.over.ok() ? Status{Code::kFailedPrecondition,
                                                "this client is in no group: Broadcast comes before Barrier"}
                                       : mine.over);
  Desk& desk = desks_.at(mine.desk);
  Status no = objection_to(request, settings_);
  if (no.ok() && !place.forms && desk.session->connections() < place.group->workers())
    no = {Code::kAborted, "a client of " + named(desk.job) + " has left it"};
  if (no.ok()) no = place.group->meet(place.rank, call, request, now);
  if (!no.ok()) return place.forms ? refuse(desk, place.rank, call, no) : answer(call, std::move(no));
  if (!place.group->all_meet()) return;
  if (!place.forms || !place.group->all_admitted()) return place.group->open_barrier(now, work_.answers);
  declare(desk, now);
}

void Service::cancelled(CallId call) {
  for (Desk& desk : desks_) {
    if (desk.group) {
      if (const auto rank = desk.group->rank_of_call(call)) {
        const std::string name = desk.group->name_of(*rank);
        desk.group->forget_wait(*rank);
        return dissolve(desk, {Code::kAborted, name + " has given up its call"});
      }
    }
    Group* const group = desk.session ? desk.session->group() : nullptr;
    if (group == nullptr) continue;
    if (const auto rank = group->rank_of_call(call)) {
      group->forget_wait(*rank);
      return group->release({Code::kAborted, group->name_of(*rank) + " has given up its call"},
                            work_.answers);
    }
  }
}

void Service::tell_all(Group& group, const Status& status) {
  group.release(status, work_.answers);
  for (const auto& [rank, peer] : group.peers()) {
    if (const auto mine = connections_.find(peer.connection); mine != connections_.end())
      mine->second.over = status;
  }
}

void Service::dissolve(Desk& desk, const Status& status) {
  log(Level::kWarning, named(desk.job) + " does not begin: " + status.text);
  tell_all(*desk.group, status);
  desk.group.reset();
  desk.complete_at.reset();
  if (!desk.declaration) return;
  const auto step = std::exchange(desk.declaration, {})->step;
  // What was ordered meanwhile is done by the box all the same.
  if (step == Declaration::Step::kAdding || step == Declaration::Step::kAwaiting) order_remove(desk);
}

void Service::refuse(Desk& desk, std::uint32_t rank, CallId call, const Status& status) {
  const ConnectionId connection = desk.group->peers().at(rank).connection;
  const std::string name = desk.group->name_of(rank);
  answer(call, status);
  // Its call has its answer, unless it is another one that waits.
  if (desk.group->rank_of_call(call)) desk.group->forget_wait(rank);
  dissolve(desk, {Code::kAborted, name + " was refused: " + status.text});
  connections_.at(connection).over = status;
}

// Of the ranks, in their order, until one is refused.
void Service::admit_waiting(Desk& desk, TimeNs now) {
  for (std::uint32_t rank = 0; desk.group && rank < desk.group->workers(); ++rank) {
    const auto peer = desk.group->peers().find(rank);
    if (peer == desk.group->peers().end() || peer->second.wait != Peer::Wait::kSession) continue;
    if (const Status no = objection_to_claim(desk, rank, now); !no.ok())
      refuse(desk, rank, peer->second.call, no);
    else
      desk.group->admit(rank, *box_, now, work_.answers);
  }
}

Status Service::objection_to_claim(const Desk& desk, std::uint32_t rank, TimeNs now) const {
  const UdpSession& asked = desk.group->peers().at(rank).asked;
  const Claim claim{mac_of(asked.mac), ipv4_of(asked.ipv4)};
  if (Status no = objection_to(claim, *box_, settings_); !no.ok()) return no;
  if (Status no = desk.group->objection_to_claim(rank); !no.ok()) return no;
  const auto holds = [&](const std::vector<Claim>& members) {
    return std::ranges::find(members, claim) != members.end();
  };
  for (const Desk& other : desks_) {
    if (&other == &desk) continue;
    const bool forming = other.group && std::ranges::any_of(other.group->peers(), [&](const auto& one) {
                           return one.second.claim == claim;
                         });
    if (forming || (other.session && holds(other.session->members())))
      return {Code::kAlreadyExists, to_text(claim) + " is a member of " + named(other.job) +
                                        (other.port == 0 ? "" : " on port " + std::to_string(other.port)) +
                                        ": a packet could be of either"};
  }
  // All of its clients may begin anew: as many, each of whom was one. Some of them may not, nor one who says it is one.
  const bool all = desk.session && desk.group->workers() == desk.session->members().size();
  if (!desk.session || (all && holds(desk.session->members())) || !desk.session->at_work(now)) return {};
  const std::string port = "port " + std::to_string(desk.port) + " serves one session at a time, and '" +
                           desk.job + "' with other clients ";
  if (desk.session->left_behind())
    return {
        Code::kFailedPrecondition,
        port +
            "runs since before this service was started: use another port, or end it (tallyctl job remove " +
            desk.job + " --abort)"};
  return {Code::kFailedPrecondition, port + "is at work, " + std::to_string(desk.session->connections()) +
                                         " of " + std::to_string(desk.session->members().size()) +
                                         " connected: use another port, or end them first"};
}

bool Service::busy() const noexcept {
  return std::ranges::any_of(desks_, [](const Desk& desk) { return desk.group || desk.session; });
}

void Service::tick(TimeNs now) {
  bool awaited = false;
  for (Desk& desk : desks_) {
    if (desk.complete_at) {
      awaited = true;
      declare(desk, now);
    } else if (desk.group && !desk.declaration) {
      if (const auto who = desk.group->overdue(now, settings_.wait))
        dissolve(desk, {Code::kDeadlineExceeded, *who});
    }
    if (desk.group) {
      for (const auto& [rank, peer] : desk.group->peers()) {
        if (peer.wait != Peer::Wait::kSession) continue;
        awaited = true;
        if (now < peer.since + kBoxPatience) continue;
        refuse(desk, rank, peer.call, {Code::kUnavailable, "tallyd is away: " + away_});
        break;
      }
    }
    advance(desk, now);
    awaited = awaited || desk.declaration.has_value();
    if (!desk.session) continue;
    if (Group* const group = desk.session->group(); group != nullptr && group->anybody_waits()) {
      if (const auto who = group->overdue(now, settings_.wait))
        group->release({Code::kDeadlineExceeded, *who}, work_.answers);
    }
    if (const auto why = desk.session->over(now, settings_.idle)) end_session(desk, *why, true);
  }
  std::erase_if(desks_, [](const Desk& desk) {
    return desk.port == 0 && !desk.session && !desk.removing && desk.adds_out == 0;
  });
  if (awaited) next_look_ = std::min(next_look_, now + kLookWhenAwaited);
  if (looking_ || now < next_look_) return;
  looking_ = true;
  work_.orders.emplace_back(Look{});
}

void Service::stop() {
  const Status status{Code::kUnavailable,
                      "the session service is stopping: start the clients again when it is back"};
  for (Desk& desk : desks_) {
    if (desk.group) dissolve(desk, status);
    if (desk.session && desk.session->group() != nullptr)
      desk.session->group()->release(status, work_.answers);
  }
}

std::optional<ConnectionId> Service::dispensable() const {
  for (const auto& [id, connection] : connections_) {
    const Desk& desk = desks_.at(connection.desk);
    if (desk.group && desk.group->rank_of(id)) continue;
    if (!desk.session || !desk.session->has(id)) return id;
  }
  return std::nullopt;
}

std::size_t Service::sessions() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(desks_, [](const Desk& desk) { return desk.session.has_value(); }));
}

}  // namespace tally::session_service
