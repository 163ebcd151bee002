#pragma once
// The parameter server's merge engine (docs/protocol_server.md, 11.7) as a bounded table: partial sums in,
// the finished sum out. Pure: no clock, no I/O, no packet memory of its own. Owner: one thread (embedded: the
// data core that owns the chunk's slot).
//
// A state is what is known of one (job, generation, chunk): the ranks that are in it and their sum.
// Incomplete states belong to one epoch; complete ones serve the whole generation for as long as nobody needs
// the memory. What is of another generation, or incomplete and of another epoch, counts as absent; the next
// Partial of its (job, chunk) takes its place.

#include <array>
#include <cstddef>
#include <cstdint>

#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "server/state_store.h"
#include "tally/ids.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::server {

struct MergeJob {
  JobId id{};
  Generation generation{};
  Epoch epoch{};              // not none
  std::uint64_t members = 0;  // bitmap of all ranks
  std::uint32_t key_sum = 0;  // sum of all members' keys
};

// A contribution (one bit) or a partial sum of several. `values`: big-endian, as in a packet.
struct Partial {
  Chunk chunk{};
  std::uint64_t contributors = 0;
  std::uint32_t keys = 0;  // sum of the contributors' keys
  jobs::Sum sum;
  std::byte* values = nullptr;
  // Words that may be written to `values`. Less than those of sum.shape: they are only read, and a
  // finished sum is kNoRoom.
  std::uint32_t room = 0;
};

enum class Merged : std::uint8_t {
  kHeld,      // merged (or replaced what it contains); the chunk waits for others
  kInside,    // its ranks are in the state already
  kOverlap,   // some of its ranks are: neither can be merged; `missing` says whose contributions would help
  kComplete,  // the Partial now is the finished sum, to be sent to all
  kKnown,     // the chunk was complete: the Partial now is the stored sum; contributors and keys: who asks
  kMismatch,  // other elements, dtype or total than the state's; `stored`, `held` say which
  kBadInput,  // sum1 or sum2 do not match the values: nothing changed
  kBadSum,    // the finished sum failed its check: state and `values` are gone, the workers send again
  kNoRoom,    // complete, but the sum does not fit into `values`: whoever asks by QUERY gets it
};

struct MergeResult {
  Merged merged{};
  std::uint64_t missing = 0;  // kOverlap: ranks of the Partial that are not in the state
  std::uint64_t held = 0;     // kMismatch: ranks in the state
  jobs::Shape stored;         // kMismatch
};

// Written by the owner, read by anyone.
struct MergeCounters {
  OneWriter<std::uint64_t> merged = 0;      // Partials that a state took: the first, added and replacing ones
  OneWriter<std::uint64_t> completed = 0;   // chunks
  OneWriter<std::uint64_t> forgotten = 0;   // incomplete states that made room for others, or found none
  OneWriter<std::uint64_t> aged = 0;        // incomplete states that took nothing for too long
  OneWriter<std::uint32_t> incomplete = 0;  // states now
  OneWriter<std::uint32_t> complete = 0;    // states now

  // For sums of several cores.
  MergeCounters& operator+=(const MergeCounters& other) noexcept {
    merged += other.merged;
    completed += other.completed;
    forgotten += other.forgotten;
    aged += other.aged;
    incomplete += other.incomplete;
    complete += other.complete;
    return *this;
  }
};

// Whether a job that has no incomplete state takes one of a job that has several, where a full table has
// nothing else to give. A server that asks for what its states lack, and gives up those that get nothing,
// need not: no job waits there for long.
enum class Share : std::uint8_t { kNone, kOneEach };

class MergeTable {
 public:
  // memory: lines for the states, each 1 + elements / 16 of them; outlives the table. elements: most values
  // of a state. kernels: usable on this CPU. A table without room for one state forgets everything at once.
  MergeTable(jobs::Region memory, std::uint32_t elements, const kernels::Kernels& kernels, Share share);
  MergeTable(const MergeTable&) = delete;
  MergeTable& operator=(const MergeTable&) = delete;

  // p.contributors: members, at least one; p.sum.shape.elements: a multiple of 16. p changes only as Merged
  // says. A new chunk needs room: a free state, else the one that completed first, else, of the kSearched
  // incomplete ones that have gone longest without taking a Partial, the first that gives way: a later chunk
  // of the same job, or what the table's Share says. Otherwise the Partial is forgotten, as is one with more
  // elements than a state can have (workers offer again). With kOneEach and as many states as jobs no job can
  // keep another from the chunk that it needs first.
  MergeResult merge(const MergeJob& job, Partial& p, TimeNs now) noexcept;

  // Is there a state of this chunk, complete or incomplete?
  [[nodiscard]] bool knows(const MergeJob& job, Chunk chunk) const noexcept;
  // The ranks in it, 0 if there is none; == job.members: complete.
  [[nodiscard]] std::uint64_t contributors(const MergeJob& job, Chunk chunk) const noexcept;
  // Complete states only: p takes the stored sum, as with kKnown. False: none, or no room in p.
  bool read(const MergeJob& job, Partial& p) const noexcept;

  // Of the state of this chunk, complete or incomplete, for a caller that keeps something beside each state:
  // below capacity(), the same until the state is gone, then perhaps another chunk's. kNoState: there is
  // none.
  [[nodiscard]] StateIndex state_of(const MergeJob& job, Chunk chunk) const noexcept {
    return find(job, chunk);
  }
  // Forgets what is known of this chunk. false: nothing was.
  bool discard(const MergeJob& job, Chunk chunk) noexcept;
  // ... unless that is its finished sum.
  void forget_incomplete(const MergeJob& job, Chunk chunk) noexcept;

  // Looks at up to `steps` of the oldest incomplete states and drops those that took no Partial since
  // `before`. One that is kInside or kOverlap does not count: a replay must not keep a state alive.
  void sweep(TimeNs before, std::uint32_t steps) noexcept;
  // The job is gone, or its epoch is over. Looks at every state in use.
  void forget(JobId job) noexcept;

  [[nodiscard]] const MergeCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return store_.capacity(); }  // states

 private:
  MergeResult begin(const MergeJob& job, Partial& p, kernels::Sums sums, TimeNs now) noexcept;
  MergeResult replace(const MergeJob& job, StateIndex at, Partial& p, kernels::Sums sums,
                      TimeNs now) noexcept;
  MergeResult add(const MergeJob& job, StateIndex at, Partial& p, TimeNs now) noexcept;
  MergeResult hold(StateIndex at, TimeNs now) noexcept;
  MergeResult finish(const MergeJob& job, StateIndex at, Partial& p, kernels::Sums sums) noexcept;
  bool emit(StateIndex at, Partial& p) const noexcept;
  [[nodiscard]] StateIndex find(const MergeJob& job, Chunk chunk) const noexcept;
  StateIndex place(const MergeJob& job, Chunk chunk) noexcept;
  [[nodiscard]] StateIndex victim_for(const MergeJob& job, Chunk chunk) const noexcept;
  [[nodiscard]] bool gives_way(const MergeState& s, const MergeJob& job, Chunk chunk) const noexcept;
  void drop(StateIndex at) noexcept;
  void drop_of(JobId job, StateIndex oldest) noexcept;

  static constexpr std::uint32_t kSearched = 64;

  StateStore store_;
  Share share_;
  std::array<std::uint32_t, kMaxJobs + 1> incomplete_of_{};  // states of each job
  const kernels::Kernels* kernels_;
  MergeCounters counters_;
};

}  // namespace tally::server
