#include "members/room.h"

#include <algorithm>
#include <set>
#include <utility>

#include "members/texts.h"

namespace tally::members {
namespace {

// A reservation is rounded down: those of all jobs together never exceed the region.
SharedQuota quota_of(const JobConfig& config, std::uint32_t entries) {
  if (!shares_slots(config.discipline)) return {};
  const auto share = [entries](std::uint32_t ppm) {
    return static_cast<std::uint32_t>(std::uint64_t{entries} * ppm / kWholePpm);
  };
  const std::uint32_t limit = std::max(share(config.quota.cap_ppm), 1U);
  return {share(config.quota.reserved_ppm), limit, limit};
}

std::uint64_t reserved_by_others(const JobMembership& job, const BoxState& box) {
  std::uint64_t sum = 0;
  for (const auto& other : box.jobs) {
    if (other != nullptr && other.get() != &job) sum += other->quota.reserved;
  }
  return sum;
}

std::string refusal(const JobMembership& job, const std::string& what) {
  return "admission: job '" + job.config.name + "' " + what;
}

// What FreedLines says of the layout.
std::uint16_t layout(const JobMembership& job, const Wish& wish) {
  return job.config.discipline == Discipline::kPool ? wish.elements : std::uint16_t{0};
}

// The window, or 0.
std::uint32_t hold_lines(JobMembership& job, BoxState& box, const Wish& wish) {
  const std::uint32_t wanted = lines_for(job, box, wish, wish.window);
  if (!wish.moves && job.slots.count != 0 && job.slots.count == wanted &&
      job.slot_elements == layout(job, wish)) {
    if (job.slot_elements == 0) box.publisher.freed({job.id, 0, job.slots, job.everyone()});
    return wish.window;
  }
  release_slots(job, box);
  if (wanted == 0) return wish.window;
  for (std::uint32_t window = wish.window; window >= kMinWindow; window /= 2) {
    const std::uint32_t count = lines_for(job, box, wish, window);
    const auto lines = wish.grows ? box.slots.allocate_high(count) : box.slots.allocate(count);
    if (!lines) continue;
    job.slots = *lines;
    job.slot_elements = layout(job, wish);
    return window;
  }
  return 0;
}

std::string no_room_text(const JobMembership& job, const BoxState& box, const Wish& wish) {
  const std::uint32_t needed = lines_for(job, box, wish, kMinWindow);
  const bool ledger = job.config.discipline == Discipline::kShared;
  const std::string what =
      ledger ? " for the ledger of a window of " +
                   std::to_string(wish.largest_window != 0 ? wish.largest_window : kMinWindow) + " chunks"
             : " for its smallest window (" + std::to_string(kMinWindow) + " chunks of " +
                   std::to_string(wish.elements) + " elements)";
  return refusal(job, "needs " + kib_text(needed) + " of slot memory per core" + what + "; " +
                          kib_text(box.slots.free_lines()) + " of " + kib_text(box.slots.lines()) +
                          " are free, the largest hole has " + kib_text(box.slots.largest_hole()) +
                          ": raise dataplane.slots or give other jobs less");
}

}  // namespace

std::string objection(const JobMembership& job, const BoxState& box, const Wish& wish) {
  if (!shares_slots(job.config.discipline)) return {};
  const MembershipOptions& o = box.options;
  const SharedQuota quota = quota_of(job.config, o.shared_entries);
  if (wish.elements > o.shared_elements) {
    return refusal(job, "goes on with packets of " + std::to_string(wish.elements) +
                            " elements, and a shared slot holds " + std::to_string(o.shared_elements) +
                            ": raise dataplane.shared.elements, or start its workers anew");
  }
  const std::uint64_t others = reserved_by_others(job, box);
  if (others + quota.reserved <= o.shared_entries) return {};
  return refusal(
      job, "reserves " + std::to_string(quota.reserved) + " of the " + std::to_string(o.shared_entries) +
               " shared slots of each core, and " + std::to_string(others) +
               " are reserved for other jobs: lower quota.reserved or raise dataplane.shared.slots");
}

std::uint32_t lines_for(const JobMembership& job, const BoxState& box, const Wish& wish,
                        std::uint32_t window) {
  const std::uint32_t largest = wish.largest_window != 0 ? wish.largest_window : window;
  return own_lines(job.config.discipline, window, 2 * largest, box.options.shards, wish.elements);
}

tl::expected<std::uint32_t, std::string> admit(JobMembership& job, BoxState& box, const Wish& wish) {
  if (std::string no = objection(job, box, wish); !no.empty()) return tl::unexpected(std::move(no));
  const std::uint32_t window = hold_lines(job, box, wish);
  if (window == 0) return tl::unexpected(no_room_text(job, box, wish));
  job.quota = quota_of(job.config, box.options.shared_entries);
  return window;
}

void release_slots(JobMembership& job, BoxState& box) {
  job.quota = {};
  box.slots_changed = true;
  if (job.slots.count == 0) return;
  box.slots.release(job.slots);
  box.publisher.freed({job.id, job.slot_elements, job.slots, job.everyone()});
  job.slots = {};
  job.slot_elements = 0;
}

namespace {

struct Candidate {
  JobMembership* pool = nullptr;
  std::uint32_t held = 0;    // window of the lines that it holds, or that it forms anew with
  std::uint32_t window = 0;  // as planned
  bool called = false;       // forms anew in any case
  jobs::LineRange place{};   // as planned
};

const Term& newest_term(const JobMembership& job) noexcept { return job.offered() ? job.offer : job.term; }

std::uint32_t lines_of(const BoxState& box, const JobMembership& pool, std::uint32_t window) {
  return jobs::pool_lines(window, box.options.shards, pool.slot_elements);
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
    if (moves(c)) c.place = slots.allocate(lines_of(box, *c.pool, c.window)).value_or(jobs::LineRange{});
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

}  // namespace tally::members
