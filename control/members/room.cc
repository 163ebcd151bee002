#include "members/room.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "members/texts.h"

namespace tally::members {
namespace {

// A reservation is rounded down: those of all jobs together never exceed the region.
SharedQuota quota_of(const NativeConfig& config, std::uint32_t entries) {
  if (!shares_slots(config.discipline)) return {};
  const auto share = [entries](std::uint32_t ppm) {
    return static_cast<std::uint32_t>(std::uint64_t{entries} * ppm / kWholePpm);
  };
  const std::uint32_t limit = std::max(share(config.quota.cap_ppm), 1U);
  return {share(config.quota.reserved_ppm), limit, limit};
}

std::string refusal(const NativeConfig& config, const std::string& what) {
  return "admission: job '" + config.name + "' " + what;
}

// What FreedLines says of the layout.
std::uint16_t layout(const NativeConfig& config, const Wish& wish) {
  return config.discipline == Discipline::kPool ? wish.elements : std::uint16_t{0};
}

std::uint32_t lines_of(const BoxState& box, const NativeLife& pool, std::uint32_t window) {
  return jobs::pool_lines(window, box.options.shards, pool.slot_elements());
}

bool is_free(const ResidentJob& job, const BoxState& box, std::uint32_t lines) {
  SlotAllocator slots = box.slots;
  slots.release(job.slots());
  return slots.allocate(lines).has_value();
}

}  // namespace

// The window, or 0.
std::uint32_t ResidentJob::hold_lines(const Wish& wish) {
  const std::uint32_t wanted = lines_for(wish, wish.window);
  if (!wish.moves && slots_.count != 0 && slots_.count == wanted && slot_elements_ == layout(config_, wish)) {
    if (slot_elements_ == 0) box_.publisher.freed({id_, 0, slots_, everyone()});
    return wish.window;
  }
  release_slots();
  if (wanted == 0) return wish.window;
  for (std::uint32_t window = wish.window; window >= kMinWindow; window /= 2) {
    const std::uint32_t count = lines_for(wish, window);
    const auto lines = wish.grows ? box_.slots.allocate_high(count) : box_.slots.allocate(count);
    if (!lines) continue;
    slots_ = *lines;
    slot_elements_ = layout(config_, wish);
    return window;
  }
  return 0;
}

std::string ResidentJob::no_room_text(const Wish& wish) const {
  const std::uint32_t needed = lines_for(wish, kMinWindow);
  const bool ledger = config_.discipline == Discipline::kShared;
  const std::string what =
      ledger ? " for the ledger of a window of " +
                   std::to_string(wish.largest_window != 0 ? wish.largest_window : kMinWindow) + " chunks"
             : " for its smallest window (" + std::to_string(kMinWindow) + " chunks of " +
                   std::to_string(wish.elements) + " elements)";
  return refusal(config_, "needs " + kib_text(needed) + " of slot memory per core" + what + "; " +
                              kib_text(box_.slots.free_lines()) + " of " + kib_text(box_.slots.lines()) +
                              " are free, the largest hole has " + kib_text(box_.slots.largest_hole()) +
                              ": raise dataplane.slots or give other jobs less");
}

// Why the shared region has no place for the job; empty: it has, or the job does not share slots.
std::string ResidentJob::objection(const Wish& wish) const {
  if (!shares_slots(config_.discipline)) return {};
  const MembershipOptions& o = box_.options;
  if (wish.elements > o.shared_elements) {
    return refusal(config_, "goes on with packets of " + std::to_string(wish.elements) +
                                " elements, and a shared slot holds " + std::to_string(o.shared_elements) +
                                ": raise dataplane.shared.elements, or start its workers anew");
  }
  return objection_to_quota(config_);
}

std::string ResidentJob::objection_to_quota(const NativeConfig& config) const {
  const std::uint32_t entries = box_.options.shared_entries;
  const std::uint32_t reserved = quota_of(config, entries).reserved;
  const std::uint64_t others = box_.reserved - quota_.reserved;
  if (others + reserved <= entries) return {};
  return refusal(config,
                 "reserves " + std::to_string(reserved) + " of the " + std::to_string(entries) +
                     " shared slots of each core, and " + std::to_string(others) +
                     " are reserved for other jobs: lower quota.reserved or raise dataplane.shared.slots");
}

std::uint32_t ResidentJob::lines_for(const Wish& wish, std::uint32_t window) const noexcept {
  const std::uint32_t largest = wish.largest_window != 0 ? wish.largest_window : window;
  return own_lines(config_.discipline, window, 2 * largest, box_.options.shards, wish.elements);
}

// Holds the lines of the job's own for the largest power of two <= wish.window that fits, and its quota of
// the shared slots; returns the window, or why there is none, with the numbers. A range that fits exactly
// stays, unless the wish says that it moves; otherwise what the job held is given back first, so the answer
// is never worse than before. A ledger that is held is to be zeroed before the next table is in force, also
// where the job had it already.
tl::expected<std::uint32_t, std::string> ResidentJob::admit(const Wish& wish) {
  if (std::string no = objection(wish); !no.empty()) return tl::unexpected(std::move(no));
  const std::uint32_t window = hold_lines(wish);
  if (window == 0) return tl::unexpected(no_room_text(wish));
  hold_quota();
  return window;
}

void ResidentJob::hold_quota() { hold(quota_of(config_, box_.options.shared_entries)); }

void ResidentJob::hold(const SharedQuota& quota) {
  box_.reserved += quota.reserved;
  box_.reserved -= std::exchange(quota_, quota).reserved;
}

// Gives all of it back; the cores zero the lines before the next table is in force.
void ResidentJob::release_slots() {
  hold({});
  box_.slots_changed = true;
  if (slots_.count == 0) return;
  box_.slots.release(slots_);
  box_.publisher.freed({id_, slot_elements_, slots_, everyone()});
  slots_ = {};
  slot_elements_ = 0;
}

std::uint32_t NativeLife::room_to_grow() const {
  const std::uint32_t goal = std::min(config_.window, term_.record.largest_window.host());
  for (std::uint32_t window = goal; window > term_.window; window /= 2) {
    if (is_free(*this, box_, lines_of(box_, *this, window))) return window;
  }
  return 0;
}

void NativeLife::limit_to(std::uint32_t window) {
  limit_ = window;
  if (window == kNoLimit) {
    shrunk_for_.clear();
    box_.shrunk.erase(id_);
  } else {
    box_.shrunk.insert(id_);
  }
  touch();
}

void NativeLife::try_to_begin(TimeNs now) {
  if (waits()) make_offer(now);
}

void NativeLife::give(std::uint32_t window, const std::string& taker, TimeNs now) {
  const bool running = phase_ == JobPhase::kRunning;
  if (!running && (!reforming() || offered())) return;  // when its members have been told
  if (window < std::min(limit_, term_.window)) shrunk_for_ = taker;
  limit_to(std::min(limit_, window));
  running ? begin_reforming(now) : call_missing();
}

void NativeLife::grow(TimeNs now) {
  limit_to(room_to_grow());
  begin_reforming(now);
}

void ResidentJob::give_cap(std::uint32_t cap) {
  quota_.cap = cap;
  box_.publisher.cap(id_, cap);
}

namespace {

// A pool that must form anew with this window: a smaller one, or the same at another place.
struct Giver {
  NativeLife* pool = nullptr;
  std::uint32_t window = 0;
  bool same_window = false;
};

struct Candidate {
  NativeLife* pool = nullptr;
  std::uint32_t held = 0;    // window of the lines that it holds, or that it forms anew with
  std::uint32_t window = 0;  // as planned
  bool called = false;       // forms anew in any case
  jobs::LineRange place{};   // as planned
};

// In the order of their places, so that those that form anew move down without passing each other.
std::vector<Candidate> lower_pools(const ResidentJob& job, const BoxState& box) {
  std::vector<Candidate> found;
  for (NativeLife& other : box.all<NativeLife>()) {
    if (other.config().discipline != Discipline::kPool || other.slots().count == 0) continue;
    if (other.config().priority >= job.config().priority || other.phase() == JobPhase::kDraining) continue;
    const bool called = other.reforming() && !other.offered();
    const std::uint32_t held = other.window();
    found.push_back({&other, held, called ? std::min(held, other.limit()) : held, called, {}});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.pool->slots().first < b.pool->slots().first;
  });
  return found;
}

// Whether so many lines are free when those that change have formed anew, and with them all up to a priority.
bool fits_with(const ResidentJob& job, const BoxState& box, std::vector<Candidate>& pools, int movable,
               std::uint32_t lines) {
  SlotAllocator slots = box.slots;
  slots.release(job.slots());
  const auto moves = [movable](const Candidate& c) {
    return c.called || c.window != c.held || c.pool->config().priority <= movable;
  };
  for (Candidate& c : pools) {
    c.place = c.pool->slots();
    if (moves(c)) slots.release(c.place);
  }
  for (Candidate& c : pools) {
    if (moves(c)) c.place = slots.allocate(lines_of(box, *c.pool, c.window)).value_or(jobs::LineRange{});
  }
  return slots.allocate(lines).has_value();
}

// Lines that are free when all have given, in whatever pieces. Cheap, where a place for everyone is not.
std::uint32_t sum_of_free(const ResidentJob& job, const BoxState& box, const std::vector<Candidate>& pools) {
  std::uint32_t free = box.slots.free_lines() + job.slots().count;
  for (const Candidate& c : pools) free += c.pool->slots().count - lines_of(box, *c.pool, c.window);
  return free;
}

// As few as possible move, and those of the lowest priority.
bool fits_somehow(const ResidentJob& job, const BoxState& box, std::vector<Candidate>& pools,
                  std::uint32_t lines) {
  std::set<int> movable{-1};
  for (const Candidate& c : pools) movable.insert(c.pool->config().priority);
  return std::any_of(movable.begin(), movable.end(),
                     [&](int priority) { return fits_with(job, box, pools, priority, lines); });
}

Candidate* next_to_give(std::vector<Candidate>& pools) {
  Candidate* next = nullptr;
  for (Candidate& c : pools) {
    if (c.window <= kMinWindow) continue;
    const auto rank = [](const Candidate& x) { return std::pair(-int{x.pool->config().priority}, x.window); };
    if (next == nullptr || rank(c) > rank(*next)) next = &c;
  }
  return next;
}

bool all_give(const ResidentJob& job, const BoxState& box, std::vector<Candidate>& pools,
              std::uint32_t lines) {
  while (sum_of_free(job, box, pools) < lines || !fits_somehow(job, box, pools, lines)) {
    Candidate* const next = next_to_give(pools);
    if (next == nullptr) return false;
    next->window /= 2;
  }
  return true;
}

// For the largest window, up to the wish, for which giving helps. Empty: nobody is asked to give, because the
// best window that the job can get is free already, or because it can get none. The lowest priority gives
// first, among equals the largest window, by halves down to kMinWindow. Pools that form anew already are
// among the givers; so are those that cannot be called back yet, because their members are yet to be told.
std::vector<Giver> plan_room(const ResidentJob& job, const BoxState& box, const Wish& wish) {
  for (std::uint32_t window = wish.window; window >= kMinWindow; window /= 2) {
    const std::uint32_t lines = job.lines_for(wish, window);
    if (lines == 0 || is_free(job, box, lines)) return {};
    auto pools = lower_pools(job, box);
    if (!all_give(job, box, pools, lines)) continue;
    std::vector<Giver> givers;
    for (const Candidate& c : pools) {
      if (c.called || c.window != c.held || c.place != c.pool->slots())
        givers.push_back({c.pool, c.window, c.window == c.held});
    }
    return givers;
  }
  return {};
}

// A pool moves down only when what lies below it has been given, so not before those who give are back.
bool can_move(const std::vector<Giver>& givers) {
  return std::all_of(givers.begin(), givers.end(), [](const Giver& giver) {
    return giver.same_window && giver.pool->phase() == JobPhase::kRunning;
  });
}

// The pool that grows next: of those that can, the one of the highest priority.
NativeLife* next_to_grow(const BoxState& box) {
  NativeLife* next = nullptr;
  for (const JobId id : box.forming) {
    const ResidentJob* const job = box.find_resident(id);
    if (job != nullptr && (job->waits() || job->reforming())) return nullptr;  // what is free may be theirs
  }
  for (const JobId id : box.shrunk) {
    NativeLife* const job = box.find_native(id);
    if (job->phase() != JobPhase::kRunning || job->room_to_grow() == 0) continue;
    if (next == nullptr || job->config().priority > next->config().priority) next = job;
  }
  return next;
}

void plan_growth(BoxState& box) {
  const NativeLife* const next = next_to_grow(box);
  box.grow_at = next == nullptr ? kNever : after(next->running_since(), kGrowAfter);
}

}  // namespace

std::string ResidentJob::objection_to_room(const Wish& wish) const {
  if (std::string no = objection(wish); !no.empty()) return no;
  const std::uint32_t smallest = lines_for(wish, kMinWindow);
  if (smallest == 0 || is_free(*this, box_, smallest) || !plan_room(*this, box_, wish).empty()) return {};
  return no_room_text(wish);
}

std::string ResidentJob::objection_to_home(const HomeNeeds& needs) const {
  return objection_to_room({.elements = needs.elements != 0 ? needs.elements : config_.elements,
                            .window = config_.window,
                            .largest_window = needs.largest_window});
}

bool outranked(const ResidentJob& job, const BoxState& box) {
  return std::ranges::any_of(box.forming, [&](JobId id) {
    const ResidentJob* const other = box.find_resident(id);
    return other != nullptr && other->waits() && other->no_room().empty() &&
           other->config().priority > job.config().priority;
  });
}

bool must_wait(const ResidentJob& job, BoxState& box, const Wish& wish, TimeNs now) {
  if (!job.reforming() && outranked(job, box)) return true;
  const auto givers = plan_room(job, box, wish);
  const bool move = can_move(givers);
  for (const Giver& giver : givers) {
    const bool running = giver.pool->phase() == JobPhase::kRunning;
    if (move || !giver.same_window || !running) giver.pool->give(giver.window, job.config().name, now);
  }
  return !givers.empty();
}

void settle_slots(BoxState& box, TimeNs now) {
  while (box.slots_changed) {
    box.slots_changed = false;
    std::vector<ResidentJob*> waiting;
    for (const JobId id : box.forming) {
      ResidentJob* const job = box.find_resident(id);
      if (job != nullptr && job->waits()) waiting.push_back(job);
    }
    std::stable_sort(waiting.begin(), waiting.end(), [](const ResidentJob* a, const ResidentJob* b) {
      return a->config().priority > b->config().priority;
    });
    for (ResidentJob* job : waiting) job->try_to_begin(now);
    for (const JobId id : std::set(box.unadmitted))
      jobs::with_dialect(*box.find(id), [now](auto& life) { life.try_to_begin(now); });
    plan_growth(box);
  }
}

void grow_pools(BoxState& box, TimeNs now) {
  if (now < box.grow_at) return;
  if (NativeLife* const pool = next_to_grow(box); pool != nullptr) pool->grow(now);
  plan_growth(box);
}

}  // namespace tally::members
