#include "renewal.h"

#include <algorithm>

namespace tally {
namespace {

constexpr std::int32_t kRenewAfter = std::int32_t{1} << 29;

// The data plane answers a busy member by REJECT; an idle one would notice at its next heartbeat only.
void call_back(const JobMembership& job, BoxState& box, Rank rank) {
  const MemberState& m = job.member(rank);
  Header hint;
  hint.job = Be<std::uint16_t>(raw(job.id));
  hint.epoch = Be<std::uint32_t>(raw(job.term.epoch));
  hint.chunk = Be<std::uint32_t>(raw(m.next));
  box.outbox.send_reject(hint, RejectReason::kEpoch, m.binding);
}

}  // namespace

void begin_reforming(JobMembership& job, BoxState& box, TimeNs now) {
  box.publisher.clear(job.id);
  job.phase = JobPhase::kForming;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    MemberState& m = job.members[r];
    m.joined = m.repeated = false;
    m.answer_at = 0;
    m.heard(now);
    if (!m.left) call_back(job, box, Rank{r});
  }
}

void call_missing(const JobMembership& job, BoxState& box) {
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if ((job.missing() & bit_of(Rank{r})) != 0) call_back(job, box, Rank{r});
  }
}

void note_progress(JobMembership& job, BoxState& box, Rank rank, Chunk next, TimeNs now) {
  job.member(rank).next = next;
  const bool due = serial_difference(next, job.term.base) >= kRenewAfter;
  if (due && job.phase == JobPhase::kRunning) begin_reforming(job, box, now);
}

}  // namespace tally
