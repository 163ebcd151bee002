#include "renewal.h"

#include <algorithm>

namespace tally {
namespace {

constexpr std::int32_t kRenewAfter = std::int32_t{1} << 29;

}  // namespace

void call_back(const JobMembership& job, BoxState& box, Rank rank) {
  const MemberState& m = job.member(rank);
  Header hint;
  hint.job = Be<std::uint16_t>(raw(job.id));
  hint.epoch = Be<std::uint32_t>(raw(job.term.epoch));
  hint.chunk = Be<std::uint32_t>(raw(m.next));
  box.outbox.send_reject(hint, RejectReason::kEpoch, m.binding);
}

void begin_reforming(JobMembership& job, BoxState& box, TimeNs now) {
  box.publisher.clear(job.id);
  job.phase = JobPhase::kForming;
  for (const Rank r : job.ranks()) {
    MemberState& m = job.member(r);
    m.joined = m.repeated = false;
    m.answer_at = 0;
    m.heard(now);
    if (!m.left) call_back(job, box, r);
  }
}

void call_missing(const JobMembership& job, BoxState& box) {
  for (const Rank r : job.ranks()) {
    if (!job.member(r).joined && !job.member(r).left) call_back(job, box, r);
  }
}

void note_progress(JobMembership& job, BoxState& box, Rank rank, Chunk next, TimeNs now) {
  job.member(rank).next = next;
  const bool due = serial_difference(next, job.term.base) >= kRenewAfter;
  if (due && job.phase == JobPhase::kRunning) begin_reforming(job, box, now);
}

}  // namespace tally
