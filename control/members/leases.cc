#include "leases.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ending.h"
#include "texts.h"

namespace tally {
namespace {

// Ranks whose silence matters now.
bool watched(const JobMembership& job, Rank rank) noexcept {
  // Whoever is still here while the job drains lacks nothing that a server could give.
  if (is_server(rank) && job.phase == JobPhase::kDraining) return false;
  const MemberState& m = job.member(rank);
  return !m.left && (m.joined || job.reforming());
}

std::vector<Rank> silent_ranks(const JobMembership& job, TimeNs now) {
  std::vector<Rank> silent;
  for (const Rank r : job.ranks()) {
    if (watched(job, r) && job.lease_end(job.member(r)) <= now) silent.push_back(r);
  }
  return silent;
}

std::string silence_text(const JobMembership& job, const std::vector<Rank>& silent, TimeNs now) {
  std::string text;
  for (const Rank r : silent) {
    const MemberState& m = job.member(r);
    if (!text.empty()) text += "; ";
    text += rank_text(r) + " at " + address_text(m.binding.address) + " was silent for " +
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
  if (const auto silent = silent_ranks(job, now); !silent.empty()) {
    cancel_offer(job, box);
    box.slots_changed = true;  // nobody makes room for it any more
    for (const Rank r : silent) job.member(r).joined = job.member(r).repeated = false;
  }
  const std::uint64_t returning = returning_ranks(job);
  if (returning == 0) job.returning_since = kNever;
  if (returning != 0 && !job.complete() && !job.offered() &&
      after(job.returning_since, job.patience()) <= now) {
    refuse_waiting(
        job, box, returning,
        "the job's generation cannot go on: " + members_text(job.missing(), job.missing_servers()) +
            " did not come back within " + seconds_text(job.patience()));
    job.returning_since = kNever;
  }
  if (job.deserted()) job.phase = JobPhase::kDeclared;
}

void tick_draining(JobMembership& job, BoxState& box, TimeNs now) {
  const auto silent = silent_ranks(job, now);
  if (silent.empty()) return;
  for (const Rank r : silent) job.member(r).left = true;
  job.reason = silence_text(job, silent, now) + " while the job was draining";
  if (job.left() == job.everyone()) end_job(job, box);
}

}  // namespace

void tick_job(JobMembership& job, BoxState& box, TimeNs now) {
  if (job.phase == JobPhase::kRunning || job.reforming()) {
    if (const auto silent = silent_ranks(job, now); !silent.empty()) {
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
  for (const Rank r : job.ranks()) {
    if (watched(job, r)) next = std::min(next, job.lease_end(job.member(r)));
  }
  if (job.phase == JobPhase::kForming && !job.complete() && !job.offered()) {
    next = std::min(next, after(job.returning_since, job.patience()));
  }
  return next;
}

}  // namespace tally
