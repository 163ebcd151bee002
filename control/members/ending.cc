#include "members/ending.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "members/box_state.h"
#include "members/room.h"
#include "members/texts.h"

namespace tally::members {
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
  job.phase.transition(phase);
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
  job.phase.transition(JobPhase::kDeclared);
}

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
  if (job.deserted()) job.phase.transition(JobPhase::kDeclared);
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
  job.phase.transition(JobPhase::kForming);
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

namespace {

std::string objection_to(const JobMembership& job, std::uint32_t window) {
  if (job.config.discipline != Discipline::kPool) {
    return "it shares slots: what it holds follows from its quota, not from its window";
  }
  // Without a generation the job takes it when it forms.
  const bool fresh = !job.active() && !job.reforming() && !job.offered();
  if (fresh) return {};
  if (job.phase != JobPhase::kRunning) {
    return "a job can be resized while it runs or before it begins, and this one is " +
           std::string(name_of(job.phase));
  }
  const std::uint32_t largest = job.term.record.largest_window.host();
  if (window <= largest) return {};
  return "window is " + std::to_string(window) + "; the largest of this generation is " +
         std::to_string(largest) + ", and its workers and their histories are sized for that";
}

}  // namespace

Result<void> resize_job(JobMembership& job, BoxState& box, std::uint32_t window, TimeNs now) {
  JobConfig wanted = job.config;
  wanted.window = window;
  if (auto valid = validate(wanted); !valid) return valid;
  tick_job(job, box, now);  // who is dead by now cannot be called back
  box.slots_changed = true;
  if (std::string no = objection_to(job, window); !no.empty()) {
    return fail(ErrorCode::kInvalidArgument, std::move(no), "job '" + job.config.name + "'");
  }
  job.config.window = window;
  job.limit = kNoLimit;
  job.shrunk_for.clear();
  if (job.phase == JobPhase::kRunning && window != job.term.window) begin_reforming(job, box, now);
  return {};
}

}  // namespace tally::members
