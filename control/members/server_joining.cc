#include "server_joining.h"

#include "joining_steps.h"
#include "texts.h"

namespace tally {

void handle_server_join(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                        TimeNs now) {
  const MemberState& m = job.member(join.rank);
  const bool held = m.joined || job.reforming();
  if (held && !same_instance(m, join) && m.binding != source) return let_wait(job, box, join, source);
  if (!job.active()) {
    job.phase = JobPhase::kForming;
    return take_place(job, box, join, source, now);
  }
  const std::uint16_t carries = join.fixed.elements.host();
  const std::uint16_t elements = job.term.record.elements.host();
  if (carries < elements) {
    return refuse(box, join, source, now, MembershipDrop::kField,
                  too_narrow_text(join.rank, carries, elements));
  }
  answer_member(job, box, join, source, now);
}

}  // namespace tally
