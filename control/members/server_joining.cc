#include "server_joining.h"

#include "joining_steps.h"
#include "texts.h"

namespace tally {

void handle_server_join(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                        TimeNs now) {
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
  job.phase = JobPhase::kForming;
  take_place(job, box, join, source, now);
}

}  // namespace tally
