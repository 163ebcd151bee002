// What the box is told, and what it says: how a complete group becomes a session, and what becomes of that.

#include <algorithm>
#include <utility>

#include "session_service/service.h"
#include "text/text.h"

namespace tally::session_service {
namespace {

using Level = config::LogSection::Level;

constexpr TimeNs kLookEvery = kSecond;
constexpr TimeNs kLookWhenIdle = 5 * kSecond;

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
