// The box of a rack, and the parent of its job (docs/protocol_racks.md, 18.2): when all workers of the rack are there it
// joins for them; the epoch that the parent tells is what they are offered, and how it ends there is how it ends here.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "members/box_state.h"
#include "members/native_life.h"
#include "members/rack_seat.h"
#include "members/room.h"
#include "members/texts.h"

namespace tally::members {

// Its silence has consequences. Workers that only begin wait for it; but an epoch of which they were not told yet does not
// last longer than others.
bool NativeLife::needs_parent() const noexcept {
  return alive() || returning_since_ != kNever || seat_->has_epoch();
}

bool NativeLife::parent_answered() const noexcept {
  return !config_.has_parent() || (seat_ && seat_->confirmed() && seat_->answers(claim()));
}

Chunk NativeLife::newest_next() const noexcept {
  Chunk newest = members_.front().next;
  for (const MemberState& m : workers())
    if (serial_difference(m.next, newest) > 0) newest = m.next;
  return newest;
}

RackClaim NativeLife::claim() const {
  RackClaim claim;
  claim.last = workers().front().reported;
  claim.lowest = workers().front().lowest;
  claim.next = newest_next();
  claim.elements = config_.elements;
  std::vector<std::uint64_t> instances;
  for (const MemberState& m : workers()) {
    instances.push_back(m.instance);
    claim.elements = std::min(claim.elements, m.elements);
    if (serial_difference(m.lowest, claim.lowest) < 0) claim.lowest = m.lowest;
    if (m.reported != claim.last) claim.last = {};
  }
  if (!is_zero(claim.last)) claim.elements = claim.last.elements.host();
  claim.instance = auth::rack_instance(key_, instances);
  return claim;
}

// All workers of the rack are there. The parent is asked for an epoch; when it has told one, that is offered to them,
// with what this box has of slot memory.
void NativeLife::offer_of_parent(TimeNs now) {
  const RackClaim wanted = claim();
  if (!seat_ || !seat_->serves(config_))
    seat_ = std::make_unique<RackSeat>(config_, box_.source.word(), box_.options.calendar);
  if (!seat_->answers(wanted)) {
    seat_->ask(wanted, now);
    say_to_parent(now);
    return;
  }
  if (!seat_->confirmed()) return;
  const ParentTerm& told = seat_->term();
  const auto give_up_with = [this](const std::string& text) {
    reforming() ? abort(text) : refuse_waiting(everyone(), text);
  };
  if (box_.in_use_beside(id_, told.epoch))
    return give_up_with("another job of this box has an epoch of the parent's number");
  const bool gives = reforming() && outranked(*this, box_);
  const std::uint32_t most = std::min({config_.window, limit_, gives ? term_.window : limit_, told.window});
  const Wish wish{.elements = told.record.elements.host(),
                  .window = most,
                  .largest_window = told.record.largest_window.host(),
                  .grows = reforming() && limit_ != kNoLimit && most > term_.window,
                  .moves = gives};
  if (must_wait(*this, box_, wish, now)) return;
  const auto window = admit(wish);
  if (!window) return give_up_with(window.error());
  Term term;
  term.key = key_;
  term.record = told.record;
  term.epoch = told.epoch;
  term.window = *window;
  if (wanted.last == told.record) term.most_advanced = most_advanced();
  term.base = newest_next();
  term.parent = std::make_shared<const ParentTerm>(told);
  draw_secrets(term);
  offer_version_ = publish_row(term);
  offer_ = term;
  touch();
}

bool NativeLife::awaits(const engine::Datagram& datagram, const Ipv6& from) const noexcept {
  return seat_ && config_.has_parent() && config_.racks->parent == from && seat_->awaits(datagram);
}

void NativeLife::from_parent(const engine::Datagram& datagram, const jobs::Binding& source, TimeNs now) {
  tick(now);
  ParentNews news;
  touch();
  if (const auto no = seat_->receive(datagram, source, now, news)) return box_.count(*no);
  box_.accept(datagram.header.type);
  switch (news.kind) {
    case ParentNews::Kind::kNone:
      break;
    case ParentNews::Kind::kRefused:
      refused_by_parent("the parent at " + address_text(config_.racks->parent) + ": " + news.text);
      break;
    case ParentNews::Kind::kOffered:
      if (phase_ == JobPhase::kDraining) return end();
      if (phase_ == JobPhase::kRunning) begin_reforming(now);
      cancel_offer();
      break;
    case ParentNews::Kind::kConfirmed:
      if (phase_ == JobPhase::kForming && complete()) make_offer(now);
      break;
    case ParentNews::Kind::kSame:
      at_same_epoch(now);
      break;
    case ParentNews::Kind::kCalled:
      called_by_parent(now);
      break;
    case ParentNews::Kind::kAborted:
      aborted_by_parent(news.text);
      break;
  }
  if (seat_) say_to_parent(now);
}

// The generation is over there, or never begins. Workers that come later hear the same.
void NativeLife::refused_by_parent(const std::string& text) {
  if (phase_ == JobPhase::kDraining) return end();
  if (active()) return abort(text);
  if (phase_ != JobPhase::kForming) return;
  if (!reforming()) {
    cancel_offer();
    return refuse_waiting(joined(), text);
  }
  reason_ = bounded(text);
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    if (m.joined) box_.answer_refused(m.nonce, reason_, &key_, m.binding);
  }
  remember(false, reason_);
  close(JobPhase::kEnded);
}

void NativeLife::called_by_parent(TimeNs now) {
  // Who has left will not come back, and who remains lacks nothing but the result of the last barrier.
  if (phase_ == JobPhase::kDraining) return end();
  if (phase_ == JobPhase::kRunning) return begin_reforming(now);
  cancel_offer();
  if (phase_ == JobPhase::kForming && complete()) make_offer(now);
}

void NativeLife::aborted_by_parent(const std::string& text) {
  if (alive()) return abort(text);
  if (phase_ != JobPhase::kForming) return;
  cancel_offer();
  refuse_waiting(joined(), text);
}

// Its answer to a JOIN while the workers went on; or once more, before they were told.
void NativeLife::at_same_epoch(TimeNs now) {
  if (offered() && *offer_.parent != seat_->term()) return make_offer(now);
  if (!active() || term_.epoch != seat_->term().epoch || *term_.parent == seat_->term()) return;
  term_.parent = std::make_shared<const ParentTerm>(seat_->term());
  publish_row(term_);
}

void NativeLife::tick_parent(TimeNs now) {
  if (seat_->silent_at() <= now && needs_parent()) {
    const std::string text = "the parent at " + address_text(config_.racks->parent) + " was silent for " +
                             seconds_text(now - seat_->heard_at());
    if (phase_ == JobPhase::kDraining) {
      end();
    } else if (alive()) {
      abort(text);
    } else if (returning_since_ != kNever) {
      cancel_offer();
      refuse_waiting(joined(), text);
    } else {
      leave_parent(PacketType::kAbort, text);
      if (complete()) make_offer(now);
    }
  }
  say_to_parent(now);
}

void NativeLife::say_to_parent(TimeNs now) {
  while (auto said = seat_->say(newest_next(), now))
    box_.outbox.post(said->header, said->body, &said->key, said->to, said->everywhere);
}

void NativeLife::leave_parent(PacketType how, std::string_view text) {
  if (!seat_) return;
  seat_->depart(how, text);
  touch();
}

RacksStatus NativeLife::racks_status() const {
  RacksStatus s;
  s.workers = config_.racks->workers;
  s.rack = config_.racks->rack;
  if (!s.rack) return s;
  s.first = config_.racks->first_of(*s.rack);
  s.parent = config_.racks->parent;
  if (!seat_) return s;
  s.state = seat_->state();
  if (seat_->waits_for_parent()) s.heard = seat_->heard_at();
  s.missing_racks = seat_->missing_racks();
  s.told = seat_->told();
  return s;
}

}  // namespace tally::members
