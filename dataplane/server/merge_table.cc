#include "server/merge_table.h"

#include <algorithm>

#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::server {

namespace {

bool has_halves(const jobs::Sum& sum) noexcept { return values_per_word(sum.shape.dtype) == 2; }

bool matches(kernels::Sums values, std::uint32_t keys, Chunk chunk, const jobs::Sum& sum) noexcept {
  return values.sum1 + keyed(keys, chunk) == sum.sum1 && values.sum2 == sum.sum2;
}

// The kernels' sums are those of packets; this is for a finished sum that is in no packet (kNoRoom).
kernels::Sums sums_of(const std::int32_t* values, const jobs::Sum& sum) noexcept {
  const bool halves = has_halves(sum);
  kernels::Sums sums;
  for (std::uint32_t i = 0; i < carried_words(sum) * values_per_word(sum.shape.dtype); ++i) {
    auto element = static_cast<std::uint32_t>(values[halves ? i / 2 : i]);
    if (halves)
      element = static_cast<std::uint32_t>(
          std::int32_t{static_cast<std::int16_t>(element >> (i % 2 == 0 ? 16 : 0))});
    sums.sum1 += element;
    sums.sum2 += (i + 1) * element;
  }
  return sums;
}

// Of a packet's.
kernels::Sums sums_of(const kernels::Kernels& kernels, const std::byte* values,
                      const jobs::Sum& sum) noexcept {
  if (jobs::is_zero(sum)) return {};
  const std::uint32_t n = sum.shape.elements;
  return has_halves(sum) ? kernels.halves.sums(values, n) : kernels.sums(values, n);
}

}  // namespace

MergeTable::MergeTable(jobs::Region memory, std::uint32_t elements, const kernels::Kernels& kernels,
                       Share share)
    : store_(memory, elements), share_(share), kernels_(&kernels) {}

MergeResult MergeTable::merge(const MergeJob& job, Partial& p, TimeNs now) noexcept {
  TALLY_DCHECK(p.contributors != 0 && (p.contributors & ~job.members) == 0, "contributors are no members");
  const kernels::Sums sums = sums_of(*kernels_, p.values, p.sum);
  if (!matches(sums, p.keys, p.chunk, p.sum)) return {.merged = Merged::kBadInput};

  const StateIndex at = find(job, p.chunk);
  if (at == kNoState) return begin(job, p, sums, now);
  const MergeState& s = store_.state(at);
  if (s.sum.shape != p.sum.shape) {
    return {.merged = Merged::kMismatch, .held = s.contributors, .stored = s.sum.shape};
  }
  if (s.complete()) return {.merged = emit(at, p) ? Merged::kKnown : Merged::kNoRoom};

  const std::uint64_t missing = p.contributors & ~s.contributors;
  if (missing == 0) return {.merged = Merged::kInside};
  if (missing == p.contributors) return add(job, at, p, now);
  if ((s.contributors & ~p.contributors) == 0) return replace(job, at, p, sums, now);
  return {.merged = Merged::kOverlap, .missing = missing};
}

// The first Partial of a chunk.
MergeResult MergeTable::begin(const MergeJob& job, Partial& p, kernels::Sums sums, TimeNs now) noexcept {
  // Of another epoch or generation: nobody needs it any more.
  if (const StateIndex outdated = store_.find(job.id, p.chunk); outdated != kNoState) drop(outdated);
  const StateIndex at = jobs::words_of(p.sum.shape) <= store_.elements() ? place(job, p.chunk) : kNoState;
  if (at == kNoState) {
    ++counters_.forgotten;
    return {.merged = Merged::kHeld};
  }
  return replace(job, at, p, sums, now);
}

MergeResult MergeTable::replace(const MergeJob& job, StateIndex at, Partial& p, kernels::Sums sums,
                                TimeNs now) noexcept {
  MergeState& s = store_.state(at);
  const std::uint32_t words = jobs::words_of(p.sum.shape);
  if (jobs::is_zero(p.sum)) {
    std::fill_n(store_.values(at), words, 0);
  } else {
    kernels_->write(store_.values(at), p.values, words);
  }
  s.contributors = p.contributors;
  s.sum = p.sum;
  return s.contributors == job.members ? finish(job, at, p, sums) : hold(at, now);
}

MergeResult MergeTable::add(const MergeJob& job, StateIndex at, Partial& p, TimeNs now) noexcept {
  MergeState& s = store_.state(at);
  std::int32_t* const values = store_.values(at);
  s.contributors |= p.contributors;
  s.sum.exponent = std::max(s.sum.exponent, p.sum.exponent);
  s.sum.marks = static_cast<std::uint8_t>(s.sum.marks | p.sum.marks);
  s.sum.sum1 += p.sum.sum1;
  s.sum.sum2 += p.sum.sum2;
  const std::uint32_t n = s.sum.shape.elements;
  const bool everybody = s.contributors == job.members;
  const bool emits = everybody && p.room >= jobs::words_of(s.sum.shape);
  const kernels::Ahead nothing{p.values, values};
  if (jobs::is_zero(p.sum)) {
    if (emits) kernels_->read(values, p.values, jobs::carried_words(s.sum));
  } else if (emits) {
    return finish(job, at, p,
                  has_halves(s.sum) ? kernels_->halves.add_emit(values, p.values, n, nothing).sums
                                    : kernels_->add_emit(values, p.values, n).sums);
  } else if (has_halves(s.sum)) {
    kernels_->halves.add(values, p.values, n, nothing);
  } else {
    kernels_->add(values, p.values, n);
  }
  return everybody ? finish(job, at, p, sums_of(values, s.sum)) : hold(at, now);
}

MergeResult MergeTable::hold(StateIndex at, TimeNs now) noexcept {
  ++counters_.merged;
  store_.state(at).touched = now;
  store_.touch(at);
  return {.merged = Merged::kHeld};
}

// All ranks are in the state. sums: of its values, which p holds too if it has room for them.
MergeResult MergeTable::finish(const MergeJob& job, StateIndex at, Partial& p, kernels::Sums sums) noexcept {
  ++counters_.merged;
  const MergeState& s = store_.state(at);
  if (!matches(sums, job.key_sum, s.chunk, s.sum)) {
    drop(at);
    return {.merged = Merged::kBadSum};
  }
  store_.complete(at);
  ++counters_.completed;
  --counters_.incomplete;
  --incomplete_of_[raw(job.id)];
  ++counters_.complete;
  if (p.room < jobs::words_of(s.sum.shape)) return {.merged = Merged::kNoRoom};
  p.sum = s.sum;
  p.contributors = job.members;
  p.keys = job.key_sum;
  return {.merged = Merged::kComplete};
}

bool MergeTable::knows(const MergeJob& job, Chunk chunk) const noexcept {
  return find(job, chunk) != kNoState;
}

std::uint64_t MergeTable::contributors(const MergeJob& job, Chunk chunk) const noexcept {
  const StateIndex at = find(job, chunk);
  return at == kNoState ? 0 : store_.state(at).contributors;
}

bool MergeTable::read(const MergeJob& job, Partial& p) const noexcept {
  const StateIndex at = find(job, p.chunk);
  return at != kNoState && store_.state(at).complete() && emit(at, p);
}

// The stored sum into p, unless it has no room.
bool MergeTable::emit(StateIndex at, Partial& p) const noexcept {
  const MergeState& s = store_.state(at);
  if (p.room < jobs::words_of(s.sum.shape)) return false;
  kernels_->read(store_.values(at), p.values, jobs::carried_words(s.sum));
  p.sum = s.sum;
  return true;
}

void MergeTable::sweep(TimeNs before, std::uint32_t steps) noexcept {
  for (; steps > 0; --steps) {
    const StateIndex at = store_.oldest_incomplete();
    if (at == kNoState || store_.state(at).touched >= before) return;
    drop(at);
    ++counters_.aged;
  }
}

bool MergeTable::discard(const MergeJob& job, Chunk chunk) noexcept {
  const StateIndex at = find(job, chunk);
  if (at == kNoState) return false;
  drop(at);
  return true;
}

void MergeTable::forget_incomplete(const MergeJob& job, Chunk chunk) noexcept {
  const StateIndex at = find(job, chunk);
  if (at != kNoState && !store_.state(at).complete()) drop(at);
}

void MergeTable::forget(JobId job) noexcept {
  drop_of(job, store_.oldest_incomplete());
  drop_of(job, store_.oldest_complete());
}

// From there on to the newest of its kind.
void MergeTable::drop_of(JobId job, StateIndex oldest) noexcept {
  for (StateIndex at = oldest; at != kNoState;) {
    const StateIndex next = store_.state(at).newer;
    if (store_.state(at).job == job) drop(at);
    at = next;
  }
}

// What is of another generation, or incomplete and of another epoch, is as good as absent.
StateIndex MergeTable::find(const MergeJob& job, Chunk chunk) const noexcept {
  const StateIndex at = store_.find(job.id, chunk);
  if (at == kNoState) return kNoState;
  const MergeState& s = store_.state(at);
  const bool valid = s.generation == job.generation && (s.complete() || s.epoch == job.epoch);
  return valid ? at : kNoState;
}

// May an incomplete state be forgotten for a new chunk? If every newcomer could have it, the chunks in flight
// would chase each other out of a table that is too small for them, each before its last contribution comes,
// and none would ever complete. So a state stays until it completes or ages. It gives way to an earlier chunk
// of its own job, because the later one may have to wait for that one's result: a float's exponents, or a
// whole operation. With kOneEach each job can have one: otherwise jobs that wait for chunks on other cores
// would hold what the chunks of others need first, crosswise, for as long as they retransmit in step.
bool MergeTable::gives_way(const MergeState& s, const MergeJob& job, Chunk chunk) const noexcept {
  if (s.job != job.id)
    return share_ == Share::kOneEach && incomplete_of_[raw(job.id)] == 0 && incomplete_of_[raw(s.job)] > 1;
  return s.generation != job.generation || s.epoch != job.epoch || serial_difference(s.chunk, chunk) > 0;
}

StateIndex MergeTable::victim_for(const MergeJob& job, Chunk chunk) const noexcept {
  StateIndex at = store_.oldest_incomplete();
  for (std::uint32_t steps = 0; at != kNoState && steps < kSearched; ++steps) {
    if (gives_way(store_.state(at), job, chunk)) return at;
    at = store_.state(at).newer;
  }
  return kNoState;
}

// kNoState: none can be had.
StateIndex MergeTable::place(const MergeJob& job, Chunk chunk) noexcept {
  if (store_.full()) {
    StateIndex victim = store_.oldest_complete();
    if (victim == kNoState) {
      victim = victim_for(job, chunk);
      if (victim == kNoState) return kNoState;
      ++counters_.forgotten;
    }
    drop(victim);
  }
  const StateIndex at = store_.place(job.id, chunk, job.epoch);
  store_.state(at).generation = job.generation;
  ++counters_.incomplete;
  ++incomplete_of_[raw(job.id)];
  return at;
}

void MergeTable::drop(StateIndex at) noexcept {
  const MergeState& s = store_.state(at);
  if (!s.complete()) --incomplete_of_[raw(s.job)];
  --(s.complete() ? counters_.complete : counters_.incomplete);
  store_.remove(at);
}

}  // namespace tally::server
