#include "members/offer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/layout.h"
#include "members/box_state.h"
#include "members/ending.h"
#include "members/room.h"
#include "members/session_life.h"
#include "members/texts.h"

namespace tally::members {
namespace {

// The record that all joined ranks report, if it is one and the same and not zero.
std::optional<GenerationRecord> common_record(const JobMembership& job) {
  std::optional<GenerationRecord> common;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    const MemberState& m = job.members[r];
    if (!m.joined) continue;
    if (is_zero(m.reported) || (common && *common != m.reported)) return std::nullopt;
    common = m.reported;
  }
  return common;
}

std::uint16_t negotiated_elements(const JobMembership& job) {
  std::uint16_t least = job.config.elements;
  for (const Rank r : job.ranks()) {
    if (job.member(r).joined) least = std::min(least, job.member(r).elements);
  }
  return least;
}

// A generation that goes on keeps the size of its packets. Servers whose path does not carry them are
// refused, and their places wait for others.
bool refuse_narrow_servers(JobMembership& job, BoxState& box, std::uint16_t elements) {
  bool any = false;
  for (std::uint32_t i = 0; i < job.config.servers; ++i) {
    MemberState& m = job.member(server_rank(i));
    if (!m.joined || m.elements >= elements) continue;
    any = true;
    m.joined = m.repeated = false;
    job.reason = too_narrow_text(server_rank(i), m.elements, elements);
    answer_refused(box, m.nonce, job.reason, m.binding);
  }
  box.slots_changed = box.slots_changed || any;  // it waits no longer for slot memory
  return any;
}

// The first peer to QUERY: the furthest in numbers; of those the one that lacks least.
bool further(const MemberState& a, const MemberState& b) {
  const std::int32_t by_next = serial_difference(a.next, b.next);
  return by_next != 0 ? by_next > 0 : serial_difference(a.lowest, b.lowest) > 0;
}

Rank most_advanced(const JobMembership& job) {
  std::optional<Rank> best;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if (!job.members[r].joined) continue;
    if (!best || further(job.members[r], job.member(*best))) best = Rank{r};
  }
  return best.value_or(Rank{0});
}

void fill_group(Term& term, const JobMembership& job) {
  std::uint32_t ipv6 = 0;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if (!is_mapped_ipv4(job.members[r].binding.address)) ++ipv6;
  }
  // One frame per port has one address family: a job of both gets unicast results.
  const bool mixed = ipv6 != 0 && ipv6 != job.config.workers;
  term.results = mixed ? ResultsMode::kUnicast : job.config.results;
  if (term.results == ResultsMode::kMulticast) term.group = jobs::multicast_group(job.id, ipv6 != 0);
}

void draw_secrets(Term& term, const JobMembership& job, BoxState& box) {
  term.epoch = box.draw_epoch();
  term.result = box.source.cookie();
  term.salt = box.source.word();
  for (const Rank r : job.ranks()) term.contribution.at(place_of(r)) = box.source.cookie();
}

GenerationRecord new_record(const JobMembership& job, BoxState& box, std::uint32_t window,
                            std::uint16_t elements) {
  GenerationRecord record;
  record.generation = Be<std::uint64_t>(raw(box.source.generation()));
  record.first_chunk = Be<std::uint32_t>(raw(job.config.first_chunk));
  record.largest_window = Be<std::uint32_t>(window);
  record.lookahead = Be<std::uint32_t>(window);
  record.elements = Be<std::uint16_t>(elements);
  return record;
}

// The first rank of each (port, VLAN, IP version): one identical frame serves all that share them.
std::uint64_t leaders_of(const jobs::Job& row) {
  std::uint64_t leaders = 0;
  for (std::uint16_t r = 0; r < row.world; ++r) {
    const auto same_wire = [&](std::uint16_t other) {
      const jobs::Binding& a = row.ranks.at(r).binding;
      const jobs::Binding& b = row.ranks.at(other).binding;
      return a.port == b.port && a.vlan == b.vlan && is_mapped_ipv4(a.address) == is_mapped_ipv4(b.address);
    };
    bool led = false;
    for (std::uint16_t other = 0; other < r && !led; ++other) led = same_wire(other);
    if (!led) leaders |= bit_of(Rank{r});
  }
  return leaders;
}

void not_admitted(JobMembership& job, BoxState& box, const std::string& text) {
  if (job.reforming()) {
    abort_job(job, box, text);
  } else {
    refuse_waiting(job, box, job.everyone(), text);
  }
}

}  // namespace

void make_offer(JobMembership& job, BoxState& box, TimeNs now) {
  cancel_offer(job, box);
  const auto common = common_record(job);
  const std::uint16_t elements = common ? common->elements.host() : negotiated_elements(job);
  if (refuse_narrow_servers(job, box, elements)) return;
  const std::uint32_t largest = common ? common->largest_window.host() : 0;
  const bool gives = job.reforming() && outranked(job, box);
  const std::uint32_t most = std::min({job.config.window, job.limit, gives ? job.term.window : job.limit});
  const bool grows = job.reforming() && job.limit != kNoLimit && most > job.term.window;
  const Wish wish{elements, common ? std::min(most, largest) : most, largest, grows, gives};
  if (objection(job, box, wish).empty() && must_wait(job, box, wish, now)) return;
  const auto window = admit(job, box, wish);
  if (!window) {
    not_admitted(job, box, window.error());
    return;
  }
  Term term;
  term.record = common ? *common : new_record(job, box, *window, elements);
  term.window = *window;
  term.most_advanced = common ? most_advanced(job) : Rank{0};
  term.base = common ? job.member(term.most_advanced).next : job.config.first_chunk;
  fill_group(term, job);
  draw_secrets(term, job, box);
  job.offer_version = publish_row(job, box, term);
  job.offer = term;
}

std::uint64_t publish_row(JobMembership& job, BoxState& box, const Term& term) {
  auto row = std::make_shared<jobs::Job>();
  row->id = job.id;
  row->epoch = term.epoch;
  row->generation = term.generation();
  row->result_cookie = term.result;
  row->discipline = job.config.discipline;
  if (const StragglerPolicy& late = job.config.stragglers; late.timeout != 0) {
    // Whatever was offered or finished in an earlier epoch lies before the term's base.
    row->stragglers = {jobs::stamp(late.timeout), static_cast<std::uint8_t>(late.least), term.base};
  }
  row->server = job.config.server;
  row->decay = job.config.decay;
  row->results = term.results;
  row->world = static_cast<std::uint8_t>(job.config.workers);
  row->shards = box.options.shards;
  row->max_priority = job.config.priority;
  row->elements = term.record.elements.host();
  row->window = term.window;
  row->span = 2 * term.record.largest_window.host();
  row->members = job.everyone();
  row->slots = job.slots;
  if (shares_slots(row->discipline)) {
    row->shared_slots = box.shared_slots();
    row->salt = term.salt;
    row->reserved = job.quota.reserved;
    box.publisher.cap(job.id, job.quota.cap);
  }
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    const std::uint32_t key = rank_key(term.generation(), Rank{r});
    row->ranks.at(r) = {term.contribution.at(r), key, job.members[r].binding};
    row->key_sum += key;
  }
  row->servers = job.config.servers;
  for (std::uint32_t i = 0; i < job.config.servers; ++i) {
    const Rank r = server_rank(i);
    row->server_ranks.at(i) = {term.contribution.at(place_of(r)), 0, job.member(r).binding};
  }
  row->leaders = leaders_of(*row);
  box.publisher.set(job.id, std::move(row));
  return box.publisher.next_version();
}

void tell_members(JobMembership& job, BoxState& box, std::uint64_t version, TimeNs now) {
  const bool begins = job.offered() && job.offer_version <= version;
  if (begins) {
    job.term = std::exchange(job.offer, {});
    job.offer_version = 0;
    job.returning_since = kNever;
    job.running_since = now;
    job.reason.clear();
    job.phase.transition(JobPhase::kRunning);
    if (job.term.window >= std::min(job.config.window, job.term.record.largest_window.host())) {
      job.limit = kNoLimit;
      job.shrunk_for.clear();
    }
    box.slots_changed = true;  // it can be called back again
  }
  for (const Rank r : job.ranks()) {
    MemberState& m = job.member(r);
    const bool waits = m.answer_at != 0 && m.answer_at <= version;
    if (!m.joined || m.left || !(begins || waits)) continue;
    m.answer_at = 0;
    if (begins) m.heard(now);  // a whole lease from the moment it is told
    answer_running(job, box, r);
  }
}

namespace {

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
    if (job->waits() || job->reforming()) return nullptr;  // what is free may be theirs
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
    return other != nullptr && other->waits() && other->config.priority > job.config.priority;
  });
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
      if (job != nullptr && job->waits()) waiting.push_back(job.get());
    }
    std::stable_sort(waiting.begin(), waiting.end(), [](const JobMembership* a, const JobMembership* b) {
      return a->config.priority > b->config.priority;
    });
    for (JobMembership* job : waiting) {
      if (job->waits()) make_offer(*job, box, now);
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

}  // namespace tally::members
