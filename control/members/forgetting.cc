// How members, and with them the epoch, go from a box that is not the home of their job: by LEAVE, by silence, because
// they disagree, or because the box itself cannot go on with them.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "members/box_state.h"
#include "members/guest_life.h"
#include "members/texts.h"

namespace tally::members {

void GuestLife::vacate(MemberState& m) noexcept {
  m.joined = m.told = false;
  m.answer_at = 0;
  m.binding = {};
}

void GuestLife::lose(Rank rank) {
  vacate(member(rank));
  term_.contribution.at(place_of(rank)) = box_.source.cookie();
}

// Who was told hears nothing here: it is enlisted.
void GuestLife::refuse_waiting(std::string_view text) {
  reason_ = bounded(text);
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    if (m.joined && !m.told) box_.answer_refused(m.nonce, reason_, &key_, m.binding);
    if (!m.told) vacate(member(r));
  }
  if (deserted()) forget();
}

void GuestLife::call_back_told() {
  for (const Rank r : ranks_) {
    if (member(r).joined && member(r).told) call_back(r);
  }
}

void GuestLife::drop_epoch() {
  box_.publisher.clear(id_);
  for (MemberState& m : members_) vacate(m);
  former_ = term_.epoch;
  term_ = {};
  said_ = {};
  pages_ = {};
  version_ = 0;
  touch();
}

void GuestLife::forget() {
  drop_epoch();
  release_slots();
  if (phase_ == JobPhase::kForming) return enter(JobPhase::kDeclared);
  if (phase_ == JobPhase::kRunning) enter(JobPhase::kDraining);
  if (phase_ == JobPhase::kDraining) enter(JobPhase::kEnded);
}

// Who was not told yet repeats its ENLIST, as one that joins does its JOIN.
TimeNs GuestLife::lease_end(Rank rank) const noexcept {
  return silence_end(rank, member(rank).told ? lease() : std::max(lease(), kJoinPatience));
}

void GuestLife::tick(TimeNs now) {
  if (now < box_.agenda.of(id_)) return;
  touch();
  std::vector<Rank> silent;
  for (const Rank r : ranks_) {
    if (member(r).joined && lease_end(r) <= now) silent.push_back(r);
  }
  if (silent.empty()) return;
  reason_ = silence_text(silent, lease(), now);
  for (const Rank r : silent) lose(r);
  if (deserted()) return forget();
  if (version_ != 0) publish_row();
}

TimeNs GuestLife::deadline() const noexcept {
  TimeNs next = kNever;
  for (const Rank r : ranks_) {
    if (member(r).joined) next = std::min(next, lease_end(r));
  }
  return next;
}

void GuestLife::from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  tick(now);
  const Header& h = packet.header;
  const Rank rank = h.rank_id();
  if (!has_rank(rank)) return box_.count(MembershipDrop::kRank);
  // These are for the home.
  if (h.type == PacketType::kAbort || h.type == PacketType::kLost) return box_.count(MembershipDrop::kType);
  MemberState& m = member(rank);
  if (h.epoch_id() != term_.epoch || term_.epoch == Epoch{} || !m.joined) {
    if (!answer_gone(packet, source, now)) box_.reject(packet, source, now, MembershipDrop::kEpoch);
    return;
  }
  if (const auto no = objection_to(packet, source)) return box_.count(*no);
  box_.accept(h.type);
  m.counter = packet.counter;
  m.heard(now);
  // Only the home knows who has left the job: here nobody is missing.
  box_.outbox.send_echo(h, term_, everyone(), session_key(rank), source);
  if (h.type != PacketType::kLeave) return;
  touch();
  lose(rank);
  if (deserted()) return forget();
  if (phase_ == JobPhase::kRunning) enter(JobPhase::kDraining);
  if (version_ != 0) publish_row();
}

void GuestLife::disagree(Epoch epoch, std::string_view text, TimeNs now) {
  tick(now);
  if (!active() || term_.epoch != epoch) return;
  const std::string why(bounded(text));
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    if (m.joined && m.told) box_.outbox.send_abort(id_, term_, why, session_key(r), m.binding);
    if (m.joined && !m.told) box_.answer_refused(m.nonce, why, &key_, m.binding);
  }
  remember(true, why);
  drop_epoch();
  release_slots();
  reason_ = why;
  enter(JobPhase::kAborted);
}

void GuestLife::restart(TimeNs /*now*/) {
  if (version_ == 0) return;  // the data plane had nothing of it
  call_back_told();
  forget();
  reason_ = "the data plane was started again";
}

void GuestLife::withdraw(std::string_view reason) {
  call_back_told();
  refuse_waiting(reason);
  drop_epoch();
  release_slots();
}

void GuestLife::hand_over() {
  call_back_told();
  drop_epoch();
  release_slots();
}

}  // namespace tally::members
