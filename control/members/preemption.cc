#include "preemption.h"

#include <algorithm>
#include <vector>

#include "offer.h"
#include "renewal.h"
#include "room_plan.h"
#include "session_life.h"

namespace tally {
namespace {

// Every rank is there, and there is no offer: only slot memory is missing.
bool waits(const JobMembership& job) noexcept {
  return job.phase == JobPhase::kForming && job.complete() && !job.offered();
}

// A pool moves down only when what lies below it has been given, so not before those who give are back.
bool can_move(const std::vector<Giver>& givers) {
  return std::all_of(givers.begin(), givers.end(), [](const Giver& giver) {
    return giver.same_window && giver.pool->phase == JobPhase::kRunning;
  });
}

void call_back_to_give(const Giver& giver, const JobMembership& taker, BoxState& box, TimeNs now) {
  JobMembership& pool = *giver.pool;
  const bool running = pool.phase == JobPhase::kRunning;
  if (!running && (!pool.reforming() || pool.offered())) return;  // when its members have been told
  if (giver.window < std::min(pool.limit, pool.term.window)) pool.shrunk_for = taker.config.name;
  pool.limit = std::min(pool.limit, giver.window);
  if (running) {
    begin_reforming(pool, box, now);
  } else {
    call_missing(pool, box);
  }
}

// The pool that grows next: of those that can, the one of the highest priority.
JobMembership* next_to_grow(const BoxState& box) {
  JobMembership* next = nullptr;
  for (const auto& job : box.jobs) {
    if (job == nullptr) continue;
    if (waits(*job) || job->reforming()) return nullptr;  // what is free may be theirs
    if (job->phase != JobPhase::kRunning || job->limit == kNoLimit || growth_of(*job, box) == 0) continue;
    if (next == nullptr || job->config.priority > next->config.priority) next = job.get();
  }
  return next;
}

void plan_growth(BoxState& box) {
  const JobMembership* const next = next_to_grow(box);
  box.grow_at = next == nullptr ? kNever : after(next->running_since, kGrowAfter);
}

}  // namespace

bool outranked(const JobMembership& job, const BoxState& box) {
  return std::any_of(box.jobs.begin(), box.jobs.end(), [&](const auto& other) {
    return other != nullptr && waits(*other) && other->config.priority > job.config.priority;
  });
}

const JobMembership* awaits_slots(const BoxState& box) {
  const auto first = std::find_if(box.jobs.begin(), box.jobs.end(),
                                  [](const auto& job) { return job != nullptr && waits(*job); });
  return first == box.jobs.end() ? nullptr : first->get();
}

bool must_wait(const JobMembership& job, BoxState& box, const Wish& wish, TimeNs now) {
  if (!job.reforming() && outranked(job, box)) return true;
  const auto givers = plan_room(job, box, wish);
  const bool move = can_move(givers);
  for (const Giver& giver : givers) {
    const bool running = giver.pool->phase == JobPhase::kRunning;
    if (move || !giver.same_window || !running) call_back_to_give(giver, job, box, now);
  }
  return !givers.empty();
}

void settle_slots(BoxState& box, TimeNs now) {
  while (box.slots_changed) {
    box.slots_changed = false;
    std::vector<JobMembership*> waiting;
    for (const auto& job : box.jobs) {
      if (job != nullptr && waits(*job)) waiting.push_back(job.get());
    }
    std::stable_sort(waiting.begin(), waiting.end(), [](const JobMembership* a, const JobMembership* b) {
      return a->config.priority > b->config.priority;
    });
    for (JobMembership* job : waiting) {
      if (waits(*job)) make_offer(*job, box, now);
    }
    admit_sessions(box);
    plan_growth(box);
  }
}

void grow_pools(BoxState& box, TimeNs now) {
  if (now < box.grow_at) return;
  if (JobMembership* const pool = next_to_grow(box); pool != nullptr) {
    pool->limit = growth_of(*pool, box);
    begin_reforming(*pool, box, now);
  }
  plan_growth(box);
}

}  // namespace tally
