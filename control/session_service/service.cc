#include "session_service/service.h"

#include <algorithm>
#include <utility>

#include "text/text.h"

namespace tally::session_service {
namespace {

using Level = config::LogSection::Level;

constexpr TimeNs kLookEvery = kSecond;
constexpr TimeNs kLookWhenIdle = 5 * kSecond;
constexpr TimeNs kLookWhenAwaited = 100 * kMillisecond;

std::string named(const std::string& job) { return "session '" + job + "'"; }

Status of_trouble(const BoxTrouble& trouble) {
  switch (trouble.kind) {
    case BoxTrouble::Kind::kAway:
      return {Code::kUnavailable, trouble.text};
    case BoxTrouble::Kind::kExists:
      return {Code::kAlreadyExists, trouble.text};
    case BoxTrouble::Kind::kUnfit:
      return {Code::kInvalidArgument, "the box refuses this session: " + trouble.text};
    case BoxTrouble::Kind::kNoRoom:
      return {Code::kResourceExhausted, "the box has no room for this session: " + trouble.text};
    case BoxTrouble::Kind::kNotPermitted:
      return {Code::kFailedPrecondition, "the session service may not change the box: " + trouble.text};
    case BoxTrouble::Kind::kUnknown:
    case BoxTrouble::Kind::kRefused:
      break;
  }
  return {Code::kFailedPrecondition, "the box refuses this session: " + trouble.text};
}

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

// The box.

void Service::order_add(Desk& desk, const Json& job) {
  ++desk.adds_out;
  work_.orders.emplace_back(Add{desk.job, job});
}

void Service::order_remove(Desk& desk) {
  desk.removing = true;
  work_.orders.emplace_back(Remove{desk.job});
}

void Service::declare(Desk& desk, TimeNs now) {
  Group& group = *desk.group;
  // They send nothing before their last Barrier: a packet of the old ones would be taken for theirs. The box is asked
  // once more, since what it said last may be of before.
  if (desk.session) {
    if (!desk.complete_at) {
      desk.complete_at = now;
      next_look_ = now;
      return;
    }
    const bool asked = desk.session->looked_at() > *desk.complete_at;
    if (!asked || desk.session->sends(now)) {
      if (now < *desk.complete_at + kBoxPatience) return;
      return dissolve(desk,
                      asked ? Status{Code::kFailedPrecondition,
                                     "processes of the session before still send with these addresses: end "
                                     "them, and start again"}
                            : Status{Code::kUnavailable, "tallyd is away: " + away_});
    }
  }
  desk.complete_at.reset();
  Declaration& declaration = desk.declaration.emplace(Declaration{
      .job = job_of(desk.job, group.members(), group.payload().value_or(0), settings_), .begun = now});
  if (desk.session) {
    declaration.step = Declaration::Step::kToRemove;
    end_session(desk, "its clients were started again", false);
  }
  advance(desk, now);
}

void Service::advance(Desk& desk, TimeNs now) {
  if (!desk.declaration) return;
  Declaration& d = *desk.declaration;
  if (now >= d.begun + kBoxPatience)
    return dissolve(desk, {Code::kUnavailable, "tallyd is away: " + (d.trouble.empty() ? away_ : d.trouble)});
  if (now < d.next_try) return;
  if (d.step == Declaration::Step::kToRemove) {
    d.step = Declaration::Step::kRemoving;
    order_remove(desk);
  } else if (d.step == Declaration::Step::kToAdd) {
    d.step = Declaration::Step::kAdding;
    order_add(desk, d.job);
  }
}

void Service::removed(const std::string& name, const BoxSays<void>& done, TimeNs now) {
  Desk* const desk = desk_of(name);
  if (desk == nullptr) return;
  desk->removing = false;
  const bool gone = done || done.error().kind == BoxTrouble::Kind::kUnknown;
  if (!desk->declaration || desk->declaration->step != Declaration::Step::kRemoving) {
    if (!gone) log(Level::kWarning, named(name) + " could not be removed now: " + done.error().text);
    return;
  }
  Declaration& d = *desk->declaration;
  d.step = Declaration::Step::kToAdd;
  d.replaced = true;
  if (gone) return advance(*desk, now);
  if (done.error().kind != BoxTrouble::Kind::kAway) return dissolve(*desk, of_trouble(done.error()));
  d.step = Declaration::Step::kToRemove;
  d.replaced = false;
  d.trouble = done.error().text;
  d.next_try = now + kRetry;
}

void Service::added(const std::string& name, const BoxSays<void>& done, TimeNs now) {
  Desk* const desk = desk_of(name);
  if (desk == nullptr) return;
  --desk->adds_out;
  if (desk->adding) return added_again(*desk, done, now);
  if (desk->adds_out != 0) return;
  if (!desk->declaration || desk->declaration->step != Declaration::Step::kAdding) return;
  Declaration& d = *desk->declaration;
  if (done) {
    d.step = Declaration::Step::kAwaiting;
    d.added = now;
    next_look_ = now;
    return;
  }
  const BoxTrouble& trouble = done.error();
  d.trouble = trouble.text;
  d.next_try = now + kRetry;
  if (trouble.kind == BoxTrouble::Kind::kAway) {
    d.step = Declaration::Step::kToAdd;
    d.replaced = false;  // what stands there next may be of this order
  } else if (trouble.kind == BoxTrouble::Kind::kExists && !d.replaced) {
    // Of an order whose answer was lost, or of a life of the service that nobody told of.
    d.step = Declaration::Step::kToRemove;
    d.next_try = now;
    advance(*desk, now);
  } else {
    d.step = Declaration::Step::kToAdd;  // nothing of it is at the box
    dissolve(*desk, of_trouble(trouble));
  }
}

void Service::declared(Desk& desk, TimeNs now) {
  Json job = std::move(desk.declaration->job);
  desk.declaration.reset();
  desk.group->open_barrier(now, work_.answers);
  desk.session.emplace(std::move(*desk.group), std::move(job), now);
  desk.group.reset();
  log(Level::kInfo, named(desk.job) + " runs: " + text::counted(desk.session->members().size(), "member") +
                        ", port " + std::to_string(desk.port));
}

void Service::await_room(Desk& desk, const BoxSession& at_box, TimeNs now) {
  if (desk.declaration->step != Declaration::Step::kAwaiting) return;
  if (at_box.phase == "running") return declared(desk, now);
  desk.declaration->trouble = named(desk.job) + " is " + at_box.phase + " at the box, and does not run";
  if (at_box.reason.empty() || now < desk.declaration->added + kRoomPatience) return;
  dissolve(desk, {Code::kResourceExhausted, "the box has no room for this session: " + at_box.reason});
}

void Service::box_away(const std::string& why) {
  away_ = why;
  box_.reset();
  if (!std::exchange(told_away_, true)) log(Level::kWarning, "tallyd is away: " + why);
}

void Service::looked(BoxSays<BoxReport> report, TimeNs now) {
  looking_ = false;
  next_look_ = now + kLookEvery;
  if (!report) return box_away(report.error().text);
  if (report->ending) return box_away("it is shutting down");
  const bool known = box_.has_value();
  box_ = report->box;
  told_away_ = false;
  if (!known)
    log(Level::kInfo, "tallyd is there: clients send to MAC " + config::to_text(box_->mac) +
                          (box_->ipv4 ? ", " + config::to_text(*box_->ipv4) : ", which has no IPv4 address"));
  for (const BoxSession& at_box : report->sessions) {
    if (at_box.name.starts_with(settings_.prefix)) found(at_box, now);
  }
  for (Desk& desk : desks_) {
    const auto here = std::ranges::find(report->sessions, desk.job, &BoxSession::name);
    if (here == report->sessions.end()) missed(desk, *report, now);
  }
  knows_box_ = true;
  for (Desk& desk : desks_) {
    if (desk.group) admit_waiting(desk, now);
  }
  if (!busy()) next_look_ = std::max(next_look_, now + kLookWhenIdle);
}

void Service::found(const BoxSession& at_box, TimeNs now) {
  Desk* desk = desk_of(at_box.name);
  if (desk == nullptr) {
    if (knows_box_) return;  // somebody else's, of a name like ours
    desk = &desks_.emplace_back(Desk{.job = at_box.name});
  }
  if (desk->declaration) return await_room(*desk, at_box, now);
  if (desk->session) {
    if (at_box.phase == "ended") return;  // with its tallyd, which does not say yet that it ends
    desk->again = false;
    return desk->session->seen(at_box, now);
  }
  if (!knows_box_) {
    desk->session.emplace(at_box, settings_, now);
    return log(Level::kInfo, named(at_box.name) + " runs since before this service was started, " +
                                 text::counted(at_box.members.size(), "member") + ": it is left as it is");
  }
  // Of an order that had no answer, or of a tallyd that kept what was removed while it was away.
  if (!desk->removing) order_remove(*desk);
}

void Service::missed(Desk& desk, const BoxReport& report, TimeNs now) {
  if (desk.declaration) {
    if (desk.declaration->step == Declaration::Step::kAwaiting) {
      desk.declaration->step = Declaration::Step::kToAdd;
      advance(desk, now);
    }
    return;
  }
  if (!desk.session) return;
  if (!report.anew && !desk.again) return end_session(desk, "it was removed at the box", false);
  if (!desk.again) log(Level::kWarning, named(desk.job) + " is gone with its tallyd: it is declared again");
  desk.again = true;
  desk.session->begins_again();
  if (!std::exchange(desk.adding, true)) order_add(desk, desk.session->job());
}

void Service::added_again(Desk& desk, const BoxSays<void>& done, TimeNs now) {
  desk.adding = false;
  if (!desk.session) {  // it is over meanwhile; a group that follows it has it removed first
    if (done && !desk.declaration) order_remove(desk);
    return;
  }
  if (done || done.error().kind == BoxTrouble::Kind::kAway ||
      done.error().kind == BoxTrouble::Kind::kExists) {
    next_look_ = std::min(next_look_, now + kRetry);
    return;
  }
  end_session(desk, "it could not be declared again: " + done.error().text, false);
}

void Service::end_session(Desk& desk, const std::string& why, bool at_box) {
  log(Level::kInfo, named(desk.job) + " is over: " + why);
  if (Group* const group = desk.session->group(); group != nullptr) {
    const Status status{Code::kAborted, named(desk.job) + " is over: " + why};
    group->release(status, work_.answers);
    for (const auto& [rank, peer] : group->peers()) {
      // Who begins anew is in another group by now.
      if (!desk.session->has(peer.connection)) continue;
      if (const auto mine = connections_.find(peer.connection); mine != connections_.end())
        mine->second.over = status;
    }
  }
  desk.session.reset();
  desk.again = false;
  if (at_box) order_remove(desk);
}

}  // namespace tally::session_service
