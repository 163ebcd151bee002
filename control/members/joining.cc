#include "joining.h"

#include <string>

#include "answers.h"
#include "ending.h"
#include "joining_steps.h"
#include "renewal.h"
#include "server_joining.h"
#include "texts.h"

namespace tally {
namespace {

void refuse_held(const JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now) {
  refuse(box, join, source, now, MembershipDrop::kHeld,
         "rank " + std::to_string(raw(join.rank)) + " is held by a live process at " +
             address_text(job.member(join.rank).binding.address));
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
  // It was an old copy of its JOIN that formed the epoch, and the fence lies before chunks that it holds.
  const Chunk next{join.fixed.next.host()};
  if (job.config.stragglers.timeout != 0 && unheard && job.phase == JobPhase::kRunning &&
      serial_difference(next, job.term.base) > 0) {
    begin_reforming(job, box, now);
    handle_join(job, box, join, source, now);  // at most once: the job is forming
    return;
  }
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
  if (is_server(join.rank)) return handle_server_join(job, box, join, source, now);
  if (answer_gone(job, box, join, source, now)) return;
  if (job.active()) {
    join_active(job, box, join, source, now);
  } else {
    job.phase = JobPhase::kForming;
    join_forming(job, box, join, source, now);
  }
}

}  // namespace tally
