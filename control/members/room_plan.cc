#include "room_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "own_lines.h"

namespace tally {
namespace {

struct Candidate {
  JobMembership* pool = nullptr;
  std::uint32_t held = 0;    // window of the lines that it holds, or that it forms anew with
  std::uint32_t window = 0;  // as planned
  bool called = false;       // forms anew in any case
  LineRange place{};         // as planned
};

const Term& newest_term(const JobMembership& job) noexcept { return job.offered() ? job.offer : job.term; }

std::uint32_t lines_of(const BoxState& box, const JobMembership& pool, std::uint32_t window) {
  return pool_lines(window, box.options.shards, pool.slot_elements);
}

// In the order of their places, so that those that form anew move down without passing each other.
std::vector<Candidate> lower_pools(const JobMembership& job, const BoxState& box) {
  std::vector<Candidate> found;
  for (const auto& other : box.jobs) {
    if (other == nullptr || other->config.discipline != Discipline::kPool || other->slots.count == 0)
      continue;
    if (other->config.priority >= job.config.priority || other->phase == JobPhase::kDraining) continue;
    const bool called = other->reforming() && !other->offered();
    const std::uint32_t held = newest_term(*other).window;
    found.push_back({other.get(), held, called ? std::min(held, other->limit) : held, called, {}});
  }
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.pool->slots.first < b.pool->slots.first; });
  return found;
}

// Whether so many lines are free when those that change have formed anew, and with them all up to a priority.
bool fits(const JobMembership& job, const BoxState& box, std::vector<Candidate>& pools, int movable,
          std::uint32_t lines) {
  SlotAllocator slots = box.slots;
  slots.release(job.slots);
  const auto moves = [movable](const Candidate& c) {
    return c.called || c.window != c.held || c.pool->config.priority <= movable;
  };
  for (Candidate& c : pools) {
    c.place = c.pool->slots;
    if (moves(c)) slots.release(c.place);
  }
  for (Candidate& c : pools) {
    if (moves(c)) c.place = slots.allocate(lines_of(box, *c.pool, c.window)).value_or(LineRange{});
  }
  return slots.allocate(lines).has_value();
}

// Lines that are free when all have given, in whatever pieces. Cheap, where a place for everyone is not.
std::uint32_t sum_of_free(const JobMembership& job, const BoxState& box,
                          const std::vector<Candidate>& pools) {
  std::uint32_t free = box.slots.free_lines() + job.slots.count;
  for (const Candidate& c : pools) free += c.pool->slots.count - lines_of(box, *c.pool, c.window);
  return free;
}

// As few as possible move, and those of the lowest priority.
bool fits_somehow(const JobMembership& job, const BoxState& box, std::vector<Candidate>& pools,
                  std::uint32_t lines) {
  std::set<int> movable{-1};
  for (const Candidate& c : pools) movable.insert(c.pool->config.priority);
  return std::any_of(movable.begin(), movable.end(),
                     [&](int priority) { return fits(job, box, pools, priority, lines); });
}

Candidate* next_to_give(std::vector<Candidate>& pools) {
  Candidate* next = nullptr;
  for (Candidate& c : pools) {
    if (c.window <= kMinWindow) continue;
    const auto rank = [](const Candidate& x) { return std::pair(-int{x.pool->config.priority}, x.window); };
    if (next == nullptr || rank(c) > rank(*next)) next = &c;
  }
  return next;
}

bool give(const JobMembership& job, const BoxState& box, std::vector<Candidate>& pools, std::uint32_t lines) {
  while (sum_of_free(job, box, pools) < lines || !fits_somehow(job, box, pools, lines)) {
    Candidate* const next = next_to_give(pools);
    if (next == nullptr) return false;
    next->window /= 2;
  }
  return true;
}

bool is_free(const JobMembership& job, const BoxState& box, std::uint32_t lines) {
  SlotAllocator slots = box.slots;
  slots.release(job.slots);
  return slots.allocate(lines).has_value();
}

}  // namespace

std::vector<Giver> plan_room(const JobMembership& job, const BoxState& box, const Wish& wish) {
  for (std::uint32_t window = wish.window; window >= kMinWindow; window /= 2) {
    const std::uint32_t lines = lines_for(job, box, wish, window);
    if (lines == 0 || is_free(job, box, lines)) return {};
    auto pools = lower_pools(job, box);
    if (!give(job, box, pools, lines)) continue;
    std::vector<Giver> givers;
    for (const Candidate& c : pools) {
      if (c.called || c.window != c.held || c.place != c.pool->slots)
        givers.push_back({c.pool, c.window, c.window == c.held});
    }
    return givers;
  }
  return {};
}

std::uint32_t growth_of(const JobMembership& pool, const BoxState& box) {
  const std::uint32_t goal = std::min(pool.config.window, pool.term.record.largest_window.host());
  for (std::uint32_t window = goal; window > pool.term.window; window /= 2) {
    if (is_free(pool, box, lines_of(box, pool, window))) return window;
  }
  return 0;
}

}  // namespace tally
