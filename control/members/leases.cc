#include "leases.h"

#include <algorithm>
#include <string>

#include "ending.h"
#include "texts.h"

namespace tally {
namespace {

// Ranks whose silence matters now.
bool watched(const JobMembership& job, const MemberState& m) noexcept {
  return !m.left && (m.joined || job.reforming());
}

std::uint64_t silent_ranks(const JobMembership& job, TimeNs now) {
  std::uint64_t silent = 0;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    const MemberState& m = job.members[r];
    if (watched(job, m) && job.lease_end(m) <= now) silent |= bit_of(Rank{r});
  }
  return silent;
}

std::string silence_text(const JobMembership& job, std::uint64_t silent, TimeNs now) {
  std::string text;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if ((silent & bit_of(Rank{r})) == 0) continue;
    const MemberState& m = job.members[r];
    if (!text.empty()) text += "; ";
    text += "rank " + std::to_string(r) + " at " + address_text(m.binding.address) + " was silent for " +
            seconds_text(now - m.last_seen);
  }
  return text + " (lease " + seconds_text(job.config.lease) + ")";
}

std::uint64_t returning_ranks(const JobMembership& job) {
  std::uint64_t returning = 0;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if (job.members[r].joined && !is_zero(job.members[r].reported)) returning |= bit_of(Rank{r});
  }
  return returning;
}

void tick_fresh(JobMembership& job, BoxState& box, TimeNs now) {
  if (const std::uint64_t silent = silent_ranks(job, now); silent != 0) {
    cancel_offer(job, box);
    box.slots_changed = true;  // nobody makes room for it any more
    for (std::uint16_t r = 0; r < job.config.workers; ++r) {
      if ((silent & bit_of(Rank{r})) != 0) job.members[r].joined = job.members[r].repeated = false;
    }
  }
  const std::uint64_t returning = returning_ranks(job);
  if (returning == 0) job.returning_since = kNever;
  if (returning != 0 && job.missing() != 0 && !job.offered() &&
      after(job.returning_since, job.patience()) <= now) {
    refuse_waiting(job, box, returning,
                   "the job's generation cannot go on: " + ranks_text(job.missing()) +
                       " did not come back within " + seconds_text(job.patience()));
    job.returning_since = kNever;
  }
  if (job.joined() == 0) job.phase = JobPhase::kDeclared;
}

void tick_draining(JobMembership& job, BoxState& box, TimeNs now) {
  const std::uint64_t silent = silent_ranks(job, now);
  if (silent == 0) return;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if ((silent & bit_of(Rank{r})) != 0) job.members[r].left = true;
  }
  job.reason = silence_text(job, silent, now) + " while the job was draining";
  if (job.left() == job.everyone()) end_job(job, box);
}

}  // namespace

void tick_job(JobMembership& job, BoxState& box, TimeNs now) {
  if (job.phase == JobPhase::kRunning || job.reforming()) {
    if (const std::uint64_t silent = silent_ranks(job, now); silent != 0) {
      abort_job(job, box, silence_text(job, silent, now));
    }
  } else if (job.phase == JobPhase::kDraining) {
    tick_draining(job, box, now);
  } else if (job.phase == JobPhase::kForming) {
    tick_fresh(job, box, now);
  }
}

TimeNs deadline_of(const JobMembership& job) noexcept {
  TimeNs next = kNever;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    const MemberState& m = job.members[r];
    if (watched(job, m)) next = std::min(next, job.lease_end(m));
  }
  if (job.phase == JobPhase::kForming && job.missing() != 0 && !job.offered()) {
    next = std::min(next, after(job.returning_since, job.patience()));
  }
  return next;
}

}  // namespace tally
