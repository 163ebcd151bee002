#pragma once
// Where the states of a MergeTable lie: found by (job, chunk), ordered by age. It knows nothing of sums. All
// memory is there from the start, and every call but the constructor takes constant time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jobs/layout.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::server {

// One state of the merge engine: a line of words, then its values in host order as in a slot entry.

using StateIndex = std::uint32_t;
inline constexpr StateIndex kNoState = 0xFFFF'FFFF;

struct alignas(64) MergeState {
  Generation generation{};
  std::uint64_t contributors = 0;
  TimeNs touched = 0;  // last time that it took a Partial
  Epoch epoch{};       // none: complete, so it serves every epoch of its generation
  Chunk chunk{};
  // A state is one line: what follows a sum begins in its last word.
  [[no_unique_address]] jobs::Sum sum;
  JobId job{};
  // Of StateStore. Free states are chained too; `older` and `newer` are the neighbours in the state's list.
  StateIndex chained = kNoState;
  StateIndex older = kNoState;
  StateIndex newer = kNoState;

  [[nodiscard]] constexpr bool complete() const noexcept { return epoch == Epoch{}; }
};
static_assert(sizeof(MergeState) == sizeof(jobs::Line));

class StateStore {
 public:
  // As in MergeTable. All states begin free, whatever the memory holds.
  StateStore(jobs::Region memory, std::uint32_t elements);

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }  // states
  [[nodiscard]] std::uint32_t elements() const noexcept { return elements_; }  // most values of a state
  [[nodiscard]] MergeState& state(StateIndex at) noexcept { return *word_line(at); }
  [[nodiscard]] const MergeState& state(StateIndex at) const noexcept { return *word_line(at); }
  [[nodiscard]] std::int32_t* values(StateIndex at) const noexcept;

  // kNoState: there is none. Generation and epoch are the caller's to judge.
  [[nodiscard]] StateIndex find(JobId job, Chunk chunk) const noexcept;
  [[nodiscard]] bool full() const noexcept { return free_ == kNoState; }
  // A free state becomes the newest incomplete one, its other words unset. Needs a free one; the key is in no
  // other state; epoch is not none.
  StateIndex place(JobId job, Chunk chunk, Epoch epoch) noexcept;
  void touch(StateIndex at) noexcept;     // becomes the newest incomplete one
  void complete(StateIndex at) noexcept;  // becomes the newest complete one, of no epoch
  void remove(StateIndex at) noexcept;

  // kNoState: there is none.
  [[nodiscard]] StateIndex oldest_complete() const noexcept { return complete_.oldest; }
  [[nodiscard]] StateIndex oldest_incomplete() const noexcept { return incomplete_.oldest; }

 private:
  struct List {
    StateIndex oldest = kNoState;
    StateIndex newest = kNoState;
  };

  [[nodiscard]] MergeState* word_line(StateIndex at) const noexcept;
  [[nodiscard]] std::size_t bucket(JobId job, Chunk chunk) const noexcept;
  [[nodiscard]] List& list_of(const MergeState& s) noexcept { return s.complete() ? complete_ : incomplete_; }
  void append(List& list, StateIndex at) noexcept;
  void unlink(List& list, StateIndex at) noexcept;

  jobs::Line* lines_;
  std::uint32_t elements_;
  std::uint32_t step_;  // lines of a state
  std::uint32_t capacity_;
  // Most questions are about chunks that the server does not know, and an empty bucket answers them without
  // touching a state: 4 buckets for each made claims and swaps 15 % faster than 1 (pipeline bench).
  static constexpr std::uint32_t kBucketsPerState = 4;
  std::vector<StateIndex> buckets_;  // a power of two; the first state of each chain
  StateIndex free_ = kNoState;       // last in, first out: its lines may still be in a cache
  List incomplete_;
  List complete_;
};

}  // namespace tally::server
