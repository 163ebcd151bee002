// What becomes of an ENLIST and of pages, at a box that is not the home of their job: an epoch begins as the home said,
// its row goes to the cores, and when they have it the members are told.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "members/box_state.h"
#include "members/guest_life.h"
#include "members/room.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::members {
namespace {

// What is equal in all ENLISTs of an epoch.
EnlistPayload common_part(EnlistPayload said) noexcept {
  said.instance = {};
  said.nonce = {};
  said.attempt = {};
  said.challenge = {};
  return said;
}

bool say_the_same(const EnlistPayload& a, const EnlistPayload& b) noexcept {
  return std::ranges::equal(std::as_bytes(std::span(&a, 1)), std::as_bytes(std::span(&b, 1)));
}

}  // namespace

void GuestLife::join(const JoinRequest& join, const jobs::Binding& source) {
  box_.accept(PacketType::kJoin);
  if (nobody_is_home_) return answer_forming(join.nonce, 0, source);
  answer_elsewhere(join.nonce, config_.boxes->home, source);
}

std::optional<Objection> GuestLife::objection_to_enlist(const EnlistRequest& request) const {
  const std::string name = "job '" + text::cleaned(config_.name) + "'";
  const std::uint16_t world = request.fixed.world.host();
  if (world != config_.workers) {
    return Objection{MembershipDrop::kWorld, name + " has " + std::to_string(config_.workers) +
                                                 " workers here, and " + std::to_string(world) +
                                                 " at its home"};
  }
  if (!has_rank(request.rank))
    return Objection{MembershipDrop::kRank, name + " has no " + rank_text(request.rank) + " here"};
  if (request.epoch != term_.epoch) {
    if (!box_.in_use_beside(id_, request.epoch)) return std::nullopt;
    return Objection{MembershipDrop::kEpoch, name + ": another job of this box has an epoch of that number"};
  }
  if (!say_the_same(common_part(request.fixed), said_)) {
    return Objection{MembershipDrop::kField,
                     name + ": " + rank_text(request.rank) + " says of the epoch what others do not"};
  }
  const MemberState& m = member(request.rank);
  if (m.joined && term_.contribution.at(place_of(request.rank)) != request.cookie)
    return Objection{MembershipDrop::kCookie,
                     name + ": " + rank_text(request.rank) + " enlisted with another secret"};
  return std::nullopt;
}

// A member that has not heard that the epoch ended in a disagreement.
bool GuestLife::answer_gone(const EnlistRequest& request, const jobs::Binding& source, TimeNs now) {
  if (!gone_.aborted || request.epoch != gone_.term.epoch || !has_rank(request.rank)) return false;
  box_.count(MembershipDrop::kAborted);
  if (!box_.refusals.take(jobs::host_of(source), now)) return true;
  if (gone_.term.contribution.at(place_of(request.rank)) == request.cookie) {
    box_.outbox.send_abort(id_, gone_.term, gone_.text,
                           gone_.term.session_key(request.rank, request.instance), source);
  }
  box_.answer_refused(request.nonce, gone_.text, &key_, source);
  return true;
}

bool GuestLife::fresh(const EnlistRequest& request, const jobs::Binding& source, TimeNs now) {
  tick(now);
  if (box_.fresh(request, source, now, term_.epoch)) return true;
  return request.epoch == term_.epoch && box_.fresh(request, source, now, former_);
}

void GuestLife::enlist(const EnlistRequest& request, const jobs::Binding& source, TimeNs now) {
  tick(now);
  touch();
  if (has_rank(request.rank) && member(request.rank).had(request))
    return box_.count(MembershipDrop::kOldAttempt);
  if (answer_gone(request, source, now)) return;
  if (const auto no = objection_to_enlist(request))
    return box_.refuse(request, source, now, no->drop, no->text);
  if (request.epoch != term_.epoch) {
    if (!begun_.take(kEpochs, now)) return box_.count(MembershipDrop::kRate);
    // It asks again, and is looked at with the keys that the job has by now.
    if (!begin(request)) return box_.count(MembershipDrop::kWait);
  } else if (const MemberState& m = member(request.rank);
             m.joined && m.instance != request.instance && !is_server(request.rank)) {
    return refuse_held(request, source, now);
  }
  take_place(request, source, now);
}

// Another epoch takes the place of the present one. False: instead the job is another by now, as nobody was left
// in it. What slot memory it holds it keeps for the next row.
bool GuestLife::begin(const EnlistRequest& request) {
  const bool deferred = deferred_.has_value();
  drop_epoch();
  if (phase_ == JobPhase::kDraining) enter(JobPhase::kEnded);
  if (deferred && !deferred_) {
    release_slots();
    return false;
  }
  enter(JobPhase::kForming);
  said_ = common_part(request.fixed);
  term_.epoch = request.epoch;
  term_.key = key_;
  term_.record = said_.record;
  term_.result = Cookie{said_.result_cookie.host()};
  term_.window = said_.window.host();
  term_.guest = said_.box;
  // Who has not enlisted is nobody: what its cookie will be is not known, and its binding is none.
  for (const Rank r : ranks_) term_.contribution.at(place_of(r)) = box_.source.cookie();
  pages_ = PlanPages(said_.plan, said_.plan_bytes.host());
  return true;
}

void GuestLife::take_place(const EnlistRequest& request, const jobs::Binding& source, TimeNs now) {
  MemberState& m = member(request.rank);
  box_.accept(PacketType::kEnlist);
  const bool same = m.joined && m.binding == source;
  m.note(request, now);
  m.joined = true;
  m.told = false;
  m.binding = source;
  term_.contribution.at(place_of(request.rank)) = request.cookie;
  if (pages_.missing() != 0) return answer_forming(m.nonce, pages_.missing(), source);
  if (version_ == 0)
    try_to_begin(now);
  else if (!same)
    m.answer_at = publish_row();
  if (!m.joined) return;  // it has been told why
  if (!ready(request.rank)) return answer_forming(m.nonce, 0, source);
  tell_ready(now);
}

void GuestLife::from_planned(const PlanPacket& packet, const jobs::Binding& source, TimeNs now) {
  tick(now);
  touch();
  if (!has_rank(packet.rank)) return box_.count(MembershipDrop::kRank);
  if (packet.page.empty() || !pages_.awaits(packet.fixed.plan, packet.fixed.bytes.host()))
    return box_.count(MembershipDrop::kPlan);
  const MemberState& m = member(packet.rank);
  if (!m.joined || m.binding != source) return box_.count(MembershipDrop::kSource);
  switch (pages_.take(packet.fixed.page, packet.page)) {
    case PlanPages::Fate::kUnfit:
      return box_.count(MembershipDrop::kLength);
    case PlanPages::Fate::kTwice:
    case PlanPages::Fate::kBroken:
      return box_.count(MembershipDrop::kPlan);
    case PlanPages::Fate::kKept:
      return box_.accept(PacketType::kPlan);
    case PlanPages::Fate::kWhole:
      break;
  }
  box_.accept(PacketType::kPlan);
  auto plan = pages_.plan();
  if (const std::string no = objection_to_plan(plan.get()); !no.empty()) return refuse_waiting(no);
  term_.take_plan(std::move(plan), said_.box);
  try_to_begin(now);
}

std::string GuestLife::objection_to_plan(const NamedPlan* plan) const {
  const std::string name = "job '" + text::cleaned(config_.name) + "': ";
  if (plan == nullptr) return name + "what its home calls a plan is none";
  const Plan& p = plan->plan;
  if (p.world() != config_.workers || p.server_count != config_.external_servers()) {
    return name + "its plan is for " + std::to_string(p.world()) + " workers and " +
           std::to_string(p.server_count) + " servers, and here it has " + std::to_string(config_.workers) +
           " and " + std::to_string(config_.external_servers());
  }
  const Ipv6& own = own_address();
  if (said_.box >= p.boxes.size() || p.boxes[said_.box] != own) {
    return name + "box " + std::to_string(said_.box) + " of its plan is not this one, whose address is " +
           address_text(own);
  }
  return {};
}

void GuestLife::try_to_begin(TimeNs now) {
  if (!waits()) return;
  const Wish wish{.elements = term_.record.elements.host(),
                  .window = term_.window,
                  .largest_window = term_.record.largest_window.host()};
  if (objection(wish).empty() && must_wait(*this, box_, wish, now)) return;
  if (const auto held = admit(wish); !held) return refuse_waiting(held.error());
  version_ = publish_row();
  for (const Rank r : ranks_) {
    if (member(r).joined) member(r).answer_at = version_;
  }
}

std::uint64_t GuestLife::publish_row() {
  auto row = row_of(term_);
  row->max_priority = said_.max_priority;
  return publish(std::move(row));
}

bool GuestLife::ready(Rank rank) const noexcept {
  const auto placed = [this](Rank r) { return member(r).joined && member(r).answer_at == 0; };
  if (!active() || !placed(rank)) return false;
  if (is_server(rank)) return true;
  // What a worker's first packet may leave behind goes to a server, and must find it.
  return std::ranges::all_of(ranks_, [&](Rank r) { return !is_server(r) || placed(r); });
}

void GuestLife::tell_ready(TimeNs now) {
  for (const Rank r : ranks_) {
    if (ready(r) && !member(r).told) answer_running(r, now);
  }
}

void GuestLife::answer_running(Rank rank, TimeNs now) {
  MemberState& m = member(rank);
  m.told = true;
  m.heard(now);  // a whole lease from now on
  JoinedPayload p = joined_part(m.nonce, JoinStatus::kRunning);
  p.cookie = Be<std::uint64_t>(raw(term_.contribution.at(place_of(rank))));
  p.record = term_.record;
  p.window = said_.window;
  p.lease_ms = said_.lease_ms;
  p.discipline = config_.discipline;
  p.shared_slots = Be<std::uint32_t>(box_.shared_slots());
  Header header;
  header.job = Be<std::uint16_t>(raw(id_));
  header.epoch = Be<std::uint32_t>(raw(term_.epoch));
  header.cookie = said_.result_cookie;
  header.priority = said_.max_priority;
  box_.outbox.send_joined(header, p, {}, &key_, m.binding);
}

bool GuestLife::in_force(std::uint64_t version, TimeNs now) {
  if (version_ != 0 && version_ <= version && phase_ == JobPhase::kForming) {
    running_since_ = now;
    reason_.clear();
    enter(JobPhase::kRunning);
  }
  bool later = version_ > version;
  for (const Rank r : ranks_) {
    MemberState& m = member(r);
    if (m.answer_at <= version) m.answer_at = 0;
    later = later || m.answer_at != 0;
  }
  tell_ready(now);
  return !later;
}

// What members were told came from the home: here only quotas, and what this box goes by itself, can be others.
Result<void> GuestLife::change(const NativeConfig& wanted, TimeNs now) {
  tick(now);
  const NativeConfig next = nobody_is_in(phase_) ? wanted : taken_at_once(config_, wanted);
  if (std::string no = objection_to_quota(next); next != config_ && !no.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(no), "job '" + config_.name + "'");
  touch();
  deferred_ = next == wanted ? std::nullopt : std::optional(wanted);
  const bool other = next != config_;
  adopt(next);
  box_.slots_changed = true;
  if (!other || version_ == 0) return {};
  hold_quota();
  publish_row();
  return {};
}

}  // namespace tally::members
