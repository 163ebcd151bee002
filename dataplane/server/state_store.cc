#include "server/state_store.h"

#include <algorithm>
#include <bit>
#include <new>

#include "jobs/job_table.h"
#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::server {

namespace {

// A state's number has 32 bits, and the number of buckets is rounded up to a power of two.
constexpr std::size_t kMostStates = std::size_t{1} << 31;

}  // namespace

StateStore::StateStore(jobs::Region memory, std::uint32_t elements)
    : lines_(memory.data()),
      elements_(elements),
      step_(jobs::entry_lines(elements)),
      capacity_(static_cast<std::uint32_t>(std::min(memory.size() / step_, kMostStates))),
      buckets_(std::bit_ceil(std::size_t{kBucketsPerState} * std::max(capacity_, 1U)), kNoState) {
  TALLY_CHECK(elements % 16 == 0, "values of a state are not whole lines");
  for (StateIndex at = capacity_; at-- > 0;) {
    new (lines_ + std::size_t{at} * step_) MergeState{.chained = free_};
    free_ = at;
  }
}

MergeState* StateStore::word_line(StateIndex at) const noexcept {
  TALLY_DCHECK(at < capacity_, "no such state");
  return std::launder(reinterpret_cast<MergeState*>(lines_ + std::size_t{at} * step_));
}

std::int32_t* StateStore::values(StateIndex at) const noexcept {
  return reinterpret_cast<std::int32_t*>(lines_ + std::size_t{at} * step_ + 1);
}

std::size_t StateStore::bucket(JobId job, Chunk chunk) const noexcept {
  return mix64(std::uint64_t{raw(job)} << 32 | raw(chunk)) & (buckets_.size() - 1);
}

StateIndex StateStore::find(JobId job, Chunk chunk) const noexcept {
  for (StateIndex at = buckets_[bucket(job, chunk)]; at != kNoState; at = state(at).chained) {
    if (state(at).job == job && state(at).chunk == chunk) return at;
  }
  return kNoState;
}

StateIndex StateStore::place(JobId job, Chunk chunk, Epoch epoch) noexcept {
  const StateIndex at = free_;
  TALLY_DCHECK(at != kNoState, "no state is free");
  TALLY_DCHECK(epoch != Epoch{}, "a state of no epoch would be complete");
  TALLY_DCHECK(find(job, chunk) == kNoState, "two states of one chunk");
  MergeState& s = state(at);
  free_ = s.chained;
  StateIndex& first = buckets_[bucket(job, chunk)];
  s = {.epoch = epoch, .chunk = chunk, .job = job, .chained = first};
  first = at;
  append(incomplete_, at);
  return at;
}

void StateStore::touch(StateIndex at) noexcept {
  unlink(incomplete_, at);
  append(incomplete_, at);
}

void StateStore::complete(StateIndex at) noexcept {
  unlink(incomplete_, at);
  state(at).epoch = Epoch{};
  append(complete_, at);
}

void StateStore::remove(StateIndex at) noexcept {
  MergeState& s = state(at);
  unlink(list_of(s), at);
  StateIndex* link = &buckets_[bucket(s.job, s.chunk)];
  while (*link != at) link = &state(*link).chained;
  *link = s.chained;
  s.chained = free_;
  free_ = at;
}

void StateStore::append(List& list, StateIndex at) noexcept {
  MergeState& s = state(at);
  s.older = list.newest;
  s.newer = kNoState;
  (list.newest == kNoState ? list.oldest : state(list.newest).newer) = at;
  list.newest = at;
}

void StateStore::unlink(List& list, StateIndex at) noexcept {
  const MergeState& s = state(at);
  (s.older == kNoState ? list.oldest : state(s.older).newer) = s.newer;
  (s.newer == kNoState ? list.newest : state(s.newer).older) = s.older;
}

}  // namespace tally::server
