#include "joining_steps.h"

#include <optional>

#include "answers.h"
#include "offer.h"

namespace tally {
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

void refuse(BoxState& box, const JoinRequest& join, const Binding& source, TimeNs now, MembershipDrop why,
            const std::string& text) {
  box.count(why);
  if (box.refusals.take(source.address, now)) answer_refused(box, join.fixed.nonce.host(), text, source);
}

void let_wait(const JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source) {
  box.count(MembershipDrop::kWait);
  std::uint64_t missing = job.phase == JobPhase::kForming ? job.missing() : job.everyone();
  if (!is_server(join.rank)) missing |= bit_of(join.rank);
  answer_forming(job, box, join.fixed.nonce.host(), missing, source);
}

void take_place(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
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

}  // namespace tally
