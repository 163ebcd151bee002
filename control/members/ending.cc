#include "ending.h"

#include "admission.h"
#include "answers.h"
#include "renewal.h"
#include "texts.h"

namespace tally {
namespace {

void vacate(MemberState& m) noexcept {
  m.joined = m.left = m.confirmed = m.repeated = false;
  m.answer_at = 0;
}

void remember(JobMembership& job, bool aborted, std::string_view text) {
  if (job.term.epoch == Epoch{}) return;
  job.gone.term = job.term;
  job.gone.aborted = aborted;
  job.gone.text = text;
  for (std::size_t i = 0; i < kMaxPlaces; ++i) job.gone.bindings[i] = job.members[i].binding;
}

void close(JobMembership& job, BoxState& box, JobPhase phase) {
  box.publisher.clear(job.id);
  release_slots(job, box);
  for (MemberState& m : job.members) vacate(m);
  job.term = {};
  job.offer = {};
  job.offer_version = 0;
  job.limit = kNoLimit;
  job.shrunk_for.clear();
  job.returning_since = kNever;
  job.phase = phase;
}

}  // namespace

void abort_job(JobMembership& job, BoxState& box, std::string_view text, std::optional<Rank> except) {
  job.reason = bounded(text);
  const bool alive = job.term.epoch != Epoch{};
  for (const Rank r : job.ranks()) {
    const MemberState& m = job.member(r);
    if (m.left || except == r || (!m.joined && !job.reforming())) continue;
    if (alive) box.outbox.send_abort(job.id, job.term, job.reason, m.binding);
    // A server outlives the epochs of its job: it comes back to the next one.
    const bool final = !is_server(r) || !alive;
    if (m.joined && !m.confirmed && final) answer_refused(box, m.nonce, job.reason, m.binding);
  }
  remember(job, true, job.reason);
  close(job, box, JobPhase::kAborted);
}

void end_job(JobMembership& job, BoxState& box) {
  remember(job, false, "the job ended: every other rank has left");
  for (std::uint32_t i = 0; i < job.config.servers; ++i) call_back(job, box, server_rank(i));
  close(job, box, JobPhase::kEnded);
}

void cancel_offer(JobMembership& job, BoxState& box) {
  if (!job.offered()) return;
  box.publisher.clear(job.id);
  release_slots(job, box);
  job.offer = {};
  job.offer_version = 0;
}

void refuse_waiting(JobMembership& job, BoxState& box, std::uint64_t which, std::string_view text) {
  job.reason = bounded(text);
  box.slots_changed = true;  // if it waited, others may grow
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    MemberState& m = job.members[r];
    if (!m.joined || (which & bit_of(Rank{r})) == 0) continue;
    answer_refused(box, m.nonce, job.reason, m.binding);
    vacate(m);
  }
  if (job.joined() == 0) job.returning_since = kNever;
  if (!job.deserted()) return;
  job.phase = JobPhase::kDeclared;
}

}  // namespace tally
