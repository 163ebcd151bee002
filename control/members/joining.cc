// What becomes of a JOIN whose job, token, world and rank are right.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "members/box_state.h"
#include "members/native_life.h"
#include "members/texts.h"

namespace tally::members {
namespace {

bool same_instance(const MemberState& m, const JoinRequest& join) noexcept {
  return m.instance == join.instance;
}

void note(MemberState& m, const JoinRequest& join, TimeNs now) {
  m.note(join, now);
  m.next = Chunk{join.fixed.next.host()};
  m.lowest = Chunk{join.fixed.lowest.host()};
}

// A server has no part in the generation: what it reports decides nothing.
bool tells_the_same(const MemberState& m, const JoinRequest& join) {
  return m.joined && m.elements == join.fixed.elements.host() && m.features == join.features &&
         (is_server(join.rank) || m.reported == join.fixed.last);
}

}  // namespace

void NativeLife::join(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  // Who asked for the job as it was asks again, and is looked at with the keys that it has by now.
  const auto has_changed = [this, deferred = deferred_.has_value()] { return deferred && !deferred_; };
  tick(now);
  touch();
  if (has_changed()) return let_wait(join, source);
  if (member(join.rank).had(join)) return box_.count(MembershipDrop::kOldAttempt);
  if (asks_others_first(join, now)) {
    box_.accept(PacketType::kJoin);
    return answer_elsewhere(join.nonce, sent_to_, source);
  }
  if (is_server(join.rank)) return join_as_server(join, source, now);
  if (answer_gone(join, source, now)) return;
  if (active()) {
    if (answer_active(join, source, now)) return;
    if (active()) return let_wait(join, source);  // the others drain without it
    if (answer_gone(join, source, now)) return;   // of what has ended just now
    if (has_changed()) return let_wait(join, source);
  }
  enter(JobPhase::kForming);
  join_forming(join, source, now);
}

// This box was the home when it last heard of the fleet, and may be none any more: by its own clock another box can
// have the seat. Who is not in an epoch of this box at this moment asks one of the others first, which may know; none of
// them does if the whole fleet is without its store, and then it comes back, and is taken. It asks again after the
// patience that it has with anybody: nothing here holds a member for good whose job has another home.
bool NativeLife::asks_others_first(const JoinRequest& join, TimeNs now) {
  if (now < sure_until_ || !config_.boxes || config_.boxes->addresses.size() < 2) return false;
  const bool is_here =
      alive() && same_instance(member(join.rank), join) && now < after(heard_at(join.rank), lease() / 2);
  SentOn& last = sent_on_[join.rank];
  if (is_here || (last.instance == join.instance && now < after(last.at, kJoinPatience))) return false;
  last = {join.instance, now};
  const std::size_t boxes = config_.boxes->addresses.size();
  do {
    sent_to_ = static_cast<BoxIndex>((sent_to_ + 1) % boxes);
  } while (sent_to_ == config_.boxes->here);
  return true;
}

// A worker that still believes in the term that ended last. It accepts the ABORT if it knows the term's last
// epoch; the refusal reaches it also if it knows an earlier one.
bool NativeLife::answer_gone(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  const Generation reported{join.fixed.last.generation.host()};
  if (reported == Generation{} || reported != gone_.term.generation()) return false;
  MemberState& m = member(join.rank);
  const bool known = same_instance(m, join);
  if (known) m.attempt = join.attempt;
  if (gone_.aborted) {
    box_.count(MembershipDrop::kAborted);
    // The JOIN of an unknown process may be a replay: it must not make the box flood somebody.
    if (!known && !box_.refusals.take(jobs::host_of(source), now)) return true;
    box_.outbox.send_abort(id_, gone_.term, gone_.text, gone_.term.session_key(join.rank, join.instance),
                           source);
    box_.answer_refused(join.nonce, gone_.text, &key_, source);
  } else {
    box_.refuse(join, source, now, MembershipDrop::kEnded, gone_.text);
  }
  return true;
}

void NativeLife::join_forming(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  const MemberState& m = member(join.rank);
  if (m.left) {
    let_wait(join, source);
  } else if ((m.joined || reforming()) && !same_instance(m, join)) {
    if ((m.repeated || reforming()) && !config_.ranks_are_racks()) {
      refuse_held(join, source, now);
    } else {
      let_wait(join, source);
    }
  } else {
    take_place(join, source, now);
  }
}

// A place that nobody waits behind is free at once, and not after a silence. That the epoch began meanwhile it has
// not heard, so it says no ABORT: the others hear the same.
void NativeLife::give_up(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  tick(now);
  touch();
  if (!has_rank(join.rank)) return box_.count(MembershipDrop::kRank);
  MemberState& m = member(join.rank);
  const bool in_epoch = alive() && !m.left;
  if (!same_instance(m, join) || !(m.joined || in_epoch)) return box_.count(MembershipDrop::kEpoch);
  if (m.binding != source) return box_.count(MembershipDrop::kSource);
  if (m.had(join)) return box_.count(MembershipDrop::kOldAttempt);
  box_.accept(PacketType::kJoin);
  m.attempt = join.attempt;
  if (in_epoch) return lose_member(join.rank, " gave up joining");
  free_places({join.rank}, rank_text(join.rank, names()) + " gave up joining");
  tick_fresh(now);
}

// The process is alive but has given up its membership, so its values of this generation are gone. The others
// cannot go on without it, unless it had nothing more to give.
void NativeLife::lose_member(Rank rank, std::string_view how) {
  if (phase_ == JobPhase::kDraining) {
    member(rank).left = true;
    if (left() == everyone()) end();
    return;
  }
  abort(rank_text(rank, names()) + std::string(how), rank);
}

// False: the rank has no part in the epoch any more, or all are called back for a new one.
bool NativeLife::answer_active(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  const MemberState& m = member(join.rank);
  if (m.left) {
    let_wait(join, source);
    return true;
  }
  if (!same_instance(m, join)) {
    // The box of a rack is asked by workers that live, and goes on asking until the lease of the former has ended.
    config_.ranks_are_racks() ? let_wait(join, source) : refuse_held(join, source, now);
    return true;
  }
  // Whoever has not shown that it knows the epoch and reports what it did when the epoch formed has not got
  // the JOINED.
  const bool unheard = !m.confirmed && join.fixed.last == m.reported;
  // It was an old copy of its JOIN that formed the epoch, and the fence lies before chunks that it holds.
  const Chunk next{join.fixed.next.host()};
  if (config_.stragglers && unheard && phase_ == JobPhase::kRunning &&
      serial_difference(next, term_.base) > 0) {
    begin_reforming(now);
    return false;
  }
  // A rack's box that was started again, or its data plane, or that called its workers back: sums that were ready there
  // are lost, and so is the count of what it has sent.
  const bool forgot = config_.ranks_are_racks() && m.confirmed && join.epoch != term_.epoch;
  if (forgot && join.fixed.last == term_.record && phase_ == JobPhase::kRunning) {
    begin_reforming(now);
    return false;
  }
  if ((join.fixed.last == term_.record && !forgot) || unheard) {
    answer_member(join, source, now);
    return true;
  }
  lose_member(join.rank, " lost its membership and joined anew");
  return false;
}

// The place may become free, or be proven taken, within a lease: the sender keeps asking, nothing is noted.
void NativeLife::let_wait(const JoinRequest& join, const jobs::Binding& source) {
  box_.count(MembershipDrop::kWait);
  std::uint64_t awaited = phase_ == JobPhase::kForming ? missing() : everyone();
  if (!is_server(join.rank)) awaited |= bit_of(join.rank);
  answer_forming(join.nonce, awaited, source);
}

// Forming: the rank joins, or is still there. With nobody missing an offer is made.
void NativeLife::take_place(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  MemberState& m = member(join.rank);
  bool changed = !tells_the_same(m, join);
  const bool moved = m.binding != source;
  box_.accept(PacketType::kJoin);
  m.repeated = m.joined && same_instance(m, join);
  note(m, join, now);
  // The first JOINs after a loss of all state may be old copies; the fence rests on what is offered now.
  changed |= offered() && serial_difference(m.next, offer_.base) > 0;
  m.joined = true;
  m.confirmed = false;
  m.reported = join.fixed.last;
  m.elements = join.fixed.elements.host();
  m.features = join.features;
  m.binding = source;
  if (returning_ranks() == 0) returning_since_ = kNever;  // who did has given its generation up
  const bool returns = !is_server(join.rank) && !is_zero(m.reported);
  if (!reforming() && returns && returning_since_ == kNever) returning_since_ = now;
  if (complete()) {
    if (!offered() || changed) {
      make_offer(now);  // a changed report replaces an offer that rested on the old one
    } else if (moved) {
      offer_version_ = publish_row(offer_);
    }
    if (phase_ != JobPhase::kForming || !m.joined) return;  // it has been told why
  }
  answer_forming(m.nonce, missing(), source);
}

// The newest JOIN gets the term's JOINED; if the member moved, when the cores know where it is.
void NativeLife::answer_member(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  MemberState& m = member(join.rank);
  box_.accept(PacketType::kJoin);
  if (join.fixed.last != m.reported) confirm(join.rank);
  note(m, join, now);
  if (m.binding != source) {
    m.binding = source;
    m.answer_at = publish_row(term_);
  }
  if (m.answer_at == 0) answer_running(join.rank);
}

// The rank has shown that it knows the epoch: the JOIN that formed it was its newest, or said no less. With
// that of all workers the fence of stragglers is right.
void NativeLife::confirm(Rank rank) {
  member(rank).confirmed = true;
  if (!term_.held || phase_ != JobPhase::kRunning) return;
  if (!std::ranges::all_of(workers(), &MemberState::confirmed)) return;
  term_.held = false;
  publish_row(term_);
}

// A server has nothing that its job cannot go on without: the workers offer again what it forgets. So another
// process takes its place at once where the same binding shows that the former one is gone, in the present
// epoch. (The replayed JOIN of a process that nobody here remembers does so too, and changes nothing but the
// instance that is noted: the answer goes to the binding of the one that lives, which does not know the nonce
// and whose next JOIN is as good.) From elsewhere it waits: two processes must not both hold sums of a chunk.
void NativeLife::join_as_server(const JoinRequest& join, const jobs::Binding& source, TimeNs now) {
  const MemberState& m = member(join.rank);
  const bool held = m.joined || reforming();
  if (held && !same_instance(m, join) && m.binding != source) return let_wait(join, source);
  // The living generation's elements do not change. Nothing is noted, so a server that is called back and has
  // become too narrow is silent to the job, whose members wait for it no longer than its lease.
  const std::uint16_t carries = join.fixed.elements.host();
  const std::uint16_t elements = term_.record.elements.host();
  if (alive() && carries < elements) {
    return box_.refuse(join, source, now, MembershipDrop::kField,
                       too_narrow_text(join.rank, carries, elements));
  }
  if (active()) return answer_member(join, source, now);
  enter(JobPhase::kForming);
  take_place(join, source, now);
}

}  // namespace tally::members
