#include "members/joining.h"

#include <optional>
#include <string>
#include <string_view>

#include "members/box_state.h"
#include "members/ending.h"
#include "members/offer.h"
#include "members/texts.h"

namespace tally::members {
namespace {

void refuse_held(const JobMembership& job, BoxState& box, const JoinRequest& join,
                 const jobs::Binding& source, TimeNs now) {
  refuse(box, join, source, now, MembershipDrop::kHeld,
         "rank " + std::to_string(raw(join.rank)) + " is held by a live process at " +
             address_text(job.member(join.rank).binding.address));
}

// A worker that still believes in the term that ended last. It accepts the ABORT if it knows the term's last
// epoch; the refusal reaches it also if it knows an earlier one.
bool answer_gone(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
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

void join_forming(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
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

void join_active(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
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

void handle_join(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
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
    job.phase.transition(JobPhase::kForming);
    join_forming(job, box, join, source, now);
  }
}

namespace {

void note(MemberState& m, const JoinRequest& join, TimeNs now) {
  if (m.instance != 0 && !same_instance(m, join)) m.former.add(m.instance, m.attempt);
  m.instance = join.fixed.instance.host();
  m.attempt = join.fixed.attempt.host();
  m.nonce = join.fixed.nonce.host();
  m.next = Chunk{join.fixed.next.host()};
  m.lowest = Chunk{join.fixed.lowest.host()};
  m.heard(now);
}

// A server has no part in the generation: what it reports decides nothing.
bool tells_the_same(const MemberState& m, const JoinRequest& join) {
  return m.joined && m.elements == join.fixed.elements.host() &&
         (is_server(join.rank) || m.reported == join.fixed.last);
}

}  // namespace

bool outdated(const JoinRequest& join, const MemberState& m) noexcept {
  const std::uint64_t instance = join.fixed.instance.host();
  const auto newest = instance == m.instance ? std::optional(m.attempt) : m.former.attempt_of(instance);
  return newest && static_cast<std::int32_t>(join.fixed.attempt.host() - *newest) <= 0;
}

void refuse(BoxState& box, const JoinRequest& join, const jobs::Binding& source, TimeNs now,
            MembershipDrop why, const std::string& text) {
  box.count(why);
  if (box.refusals.take(source.address, now)) answer_refused(box, join.fixed.nonce.host(), text, source);
}

void let_wait(const JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source) {
  box.count(MembershipDrop::kWait);
  std::uint64_t missing = job.phase == JobPhase::kForming ? job.missing() : job.everyone();
  if (!is_server(join.rank)) missing |= bit_of(join.rank);
  answer_forming(job, box, join.fixed.nonce.host(), missing, source);
}

void take_place(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
                TimeNs now) {
  MemberState& m = job.member(join.rank);
  bool changed = !tells_the_same(m, join);
  const bool moved = m.binding != source;
  box.accept(PacketType::kJoin);
  m.repeated = m.joined && same_instance(m, join);
  note(m, join, now);
  // The first JOINs after a loss of all state may be old copies; the fence rests on what is offered now.
  changed |= job.offered() && serial_difference(m.next, job.offer.base) > 0;
  m.joined = true;
  m.confirmed = false;
  m.reported = join.fixed.last;
  m.elements = join.fixed.elements.host();
  m.binding = source;
  const bool returns = !is_server(join.rank) && !is_zero(m.reported);
  if (!job.reforming() && returns && job.returning_since == kNever) job.returning_since = now;
  if (job.complete()) {
    if (!job.offered() || changed) {
      make_offer(job, box, now);  // a changed report replaces an offer that rested on the old one
    } else if (moved) {
      job.offer_version = publish_row(job, box, job.offer);
    }
    if (job.phase != JobPhase::kForming || !m.joined) return;  // it has been told why
  }
  answer_forming(job, box, m.nonce, job.missing(), source);
}

void answer_member(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
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

void handle_server_join(JobMembership& job, BoxState& box, const JoinRequest& join,
                        const jobs::Binding& source, TimeNs now) {
  const MemberState& m = job.member(join.rank);
  const bool held = m.joined || job.reforming();
  if (held && !same_instance(m, join) && m.binding != source) return let_wait(job, box, join, source);
  // The living generation's elements do not change. Nothing is noted, so a server that is called back and has
  // become too narrow is silent to the job, whose members wait for it no longer than its lease.
  const std::uint16_t carries = join.fixed.elements.host();
  const std::uint16_t elements = job.term.record.elements.host();
  if ((job.active() || job.reforming()) && carries < elements) {
    return refuse(box, join, source, now, MembershipDrop::kField,
                  too_narrow_text(join.rank, carries, elements));
  }
  if (job.active()) return answer_member(job, box, join, source, now);
  job.phase.transition(JobPhase::kForming);
  take_place(job, box, join, source, now);
}

namespace {

// Takes the same time wherever the two differ, so that a guess learns nothing but the length.
bool tokens_equal(std::string_view wanted, std::string_view given) noexcept {
  unsigned difference = wanted.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(wanted[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

std::optional<Objection> objection_to_server(const JobMembership& job, const JoinRequest& join,
                                             const std::string& name) {
  const std::uint32_t servers = job.config.servers;
  if (server_index(join.rank) < servers) return std::nullopt;
  if (servers == 0) {
    return Objection{MembershipDrop::kRank,
                     name + " has no external server here: write server: external in its configuration"};
  }
  return Objection{MembershipDrop::kRank, name + " has servers 0 to " + std::to_string(servers - 1) +
                                              ", not " + std::to_string(server_index(join.rank))};
}

}  // namespace

std::optional<Objection> objection_to(const JobMembership* job, const JoinRequest& join) {
  const std::string name = "job '" + cleaned(join.name) + "'";
  if (job == nullptr) return Objection{MembershipDrop::kUnknownJob, name + " is not declared on this box"};
  if (!tokens_equal(job->config.token, join.token)) {
    return Objection{MembershipDrop::kToken, name + ": wrong token"};
  }
  if (is_server(join.rank)) return objection_to_server(*job, join, name);
  const std::uint16_t world = join.fixed.world.host();
  if (world != job->config.workers) {
    return Objection{MembershipDrop::kWorld, name + " has " + std::to_string(job->config.workers) +
                                                 " workers here, this worker expects " +
                                                 std::to_string(world)};
  }
  if (raw(join.rank) >= job->config.workers) {
    return Objection{MembershipDrop::kRank, name + " has ranks 0 to " +
                                                std::to_string(job->config.workers - 1) + ", not " +
                                                std::to_string(raw(join.rank))};
  }
  return std::nullopt;
}

}  // namespace tally::members
