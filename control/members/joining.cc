#include "joining.h"

#include <optional>
#include <string>

#include "answers.h"
#include "ending.h"
#include "offer.h"
#include "texts.h"

namespace tally {
namespace {

bool same_instance(const MemberState& m, const JoinRequest& join) noexcept {
  return m.instance == join.fixed.instance.host();
}

// Whether this JOIN, or a later one of its process, was taken before. Attempts count up from any start and
// may wrap.
bool outdated(const JoinRequest& join, const MemberState& m) noexcept {
  const std::uint64_t instance = join.fixed.instance.host();
  const auto newest = instance == m.instance ? std::optional(m.attempt) : m.former.attempt_of(instance);
  return newest && static_cast<std::int32_t>(join.fixed.attempt.host() - *newest) <= 0;
}

void note(MemberState& m, const JoinRequest& join, TimeNs now) {
  m.attempt = join.fixed.attempt.host();
  m.nonce = join.fixed.nonce.host();
  m.next = Chunk{join.fixed.next.host()};
  m.lowest = Chunk{join.fixed.lowest.host()};
  m.heard(now);
}

void refuse(BoxState& box, const JoinRequest& join, const Binding& source, TimeNs now, MembershipDrop why,
            const std::string& text) {
  box.count(why);
  if (box.refusals.take(source.address, now)) answer_refused(box, join.fixed.nonce.host(), text, source);
}

void refuse_held(const JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now) {
  refuse(box, join, source, now, MembershipDrop::kHeld,
         "rank " + std::to_string(raw(join.rank)) + " is held by a live process at " +
             address_text(job.member(join.rank).binding.address));
}

// The place may become free, or be proven taken, within a lease: the worker keeps asking, nothing is noted.
void let_wait(const JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source) {
  box.count(MembershipDrop::kWait);
  const std::uint64_t missing = job.phase == JobPhase::kForming ? job.missing() : job.everyone();
  answer_forming(job, box, join.fixed.nonce.host(), missing | bit_of(join.rank), source);
}

// A worker that still believes in the term that ended last. It accepts the ABORT if it knows the term's last
// epoch; the refusal reaches it also if it knows an earlier one.
bool answer_gone(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now) {
  const Generation reported{join.fixed.last.generation.host()};
  if (reported == Generation{} || reported != job.gone.term.generation()) return false;
  MemberState& m = job.member(join.rank);
  const bool known = same_instance(m, join);
  if (known) m.attempt = join.fixed.attempt.host();
  if (job.gone.aborted) {
    box.count(MembershipDrop::kAborted);
    // The JOIN of an unknown process may be a replay: it must not make the box flood somebody.
    if (!known && !box.refusals.take(source.address, now)) return true;
    box.outbox.send_abort(job.id, job.gone.term, job.gone.text, source);
    answer_refused(box, join.fixed.nonce.host(), job.gone.text, source);
  } else {
    refuse(box, join, source, now, MembershipDrop::kEnded, job.gone.text);
  }
  return true;
}

void take_place(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                TimeNs now) {
  MemberState& m = job.member(join.rank);
  const std::uint16_t wish = join.fixed.elements.host();
  const bool changed = !m.joined || m.reported != join.fixed.last || m.elements != wish;
  const bool moved = m.binding != source;
  box.accept(PacketType::kJoin);
  m.repeated = m.joined && same_instance(m, join);
  if (m.instance != 0 && !same_instance(m, join)) m.former.add(m.instance, m.attempt);
  m.joined = true;
  m.confirmed = false;
  m.instance = join.fixed.instance.host();
  m.reported = join.fixed.last;
  m.elements = wish;
  m.binding = source;
  note(m, join, now);
  if (!job.reforming() && !is_zero(m.reported) && job.returning_since == kNever) job.returning_since = now;
  if (job.missing() == 0) {
    if (!job.offered() || changed) {
      make_offer(job, box, now);  // a changed report replaces an offer that rested on the old one
    } else if (moved) {
      job.offer_version = publish_row(job, box, job.offer);
    }
    if (job.phase != JobPhase::kForming) return;  // everyone has been told why
  }
  answer_forming(job, box, m.nonce, job.missing(), source);
}

void join_forming(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                  TimeNs now) {
  const MemberState& m = job.member(join.rank);
  if (m.left) {
    let_wait(job, box, join, source);
  } else if ((m.joined || job.reforming()) && !same_instance(m, join)) {
    if (m.repeated || job.reforming()) {
      refuse_held(job, box, join, source, now);
    } else {
      let_wait(job, box, join, source);
    }
  } else {
    take_place(job, box, join, source, now);
  }
}

// The newest JOIN gets the term's JOINED; if the member moved, when the cores know where it is.
void answer_member(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                   TimeNs now) {
  MemberState& m = job.member(join.rank);
  box.accept(PacketType::kJoin);
  m.confirmed = m.confirmed || join.fixed.last != m.reported;
  note(m, join, now);
  if (m.binding != source) {
    m.binding = source;
    m.answer_at = publish_row(job, box, job.term);
  }
  if (m.answer_at == 0) answer_running(job, box, join.rank);
}

// The process is alive but has given up its membership, so its values of this generation are gone. The others
// cannot go on without it, unless it had nothing more to give.
void lose_member(JobMembership& job, BoxState& box, Rank rank) {
  if (job.phase == JobPhase::kDraining) {
    job.member(rank).left = true;
    if (job.left() == job.everyone()) end_job(job, box);
    return;
  }
  abort_job(job, box, "rank " + std::to_string(raw(rank)) + " lost its membership and joined anew", rank);
}

void join_active(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now) {
  const MemberState& m = job.member(join.rank);
  if (m.left) {
    let_wait(job, box, join, source);
    return;
  }
  if (!same_instance(m, join)) {
    refuse_held(job, box, join, source, now);
    return;
  }
  // Whoever has not shown that it knows the epoch and reports what it did when the epoch formed has not got
  // the JOINED.
  const bool unheard = !m.confirmed && join.fixed.last == m.reported;
  if (join.fixed.last == job.term.record || unheard) {
    answer_member(job, box, join, source, now);
    return;
  }
  lose_member(job, box, join.rank);
  handle_join(job, box, join, source, now);  // at most once: the rank has no place any more
}

}  // namespace

void handle_join(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now) {
  if (outdated(join, job.member(join.rank))) {
    box.count(MembershipDrop::kOldAttempt);
    return;
  }
  if (answer_gone(job, box, join, source, now)) return;
  if (job.active()) {
    join_active(job, box, join, source, now);
  } else {
    job.phase = JobPhase::kForming;
    join_forming(job, box, join, source, now);
  }
}

}  // namespace tally
