#pragma once
// What one data core remembers of one job beside the registers. Written by the owner core only; control reads
// the OneWriter words.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "pipeline/registers.h"
#include "pipeline/session_pool.h"
#include "tally/bounded_queue.h"
#include "tally/ids.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::pipeline {

// What became of entries, as the job saw it: of the shared region, and at the end of a job with stragglers.
struct SlotCounters {
  OneWriter<std::uint64_t> claims = 0;  // entries taken from the free list (or, by hash, found free)
  OneWriter<std::uint64_t> denied =
      0;  // contributions that found no entry: COLLISION, they went to the server
  OneWriter<std::uint64_t> swaps = 0;           // entries taken from somebody
  OneWriter<std::uint64_t> evicted = 0;         // entries that somebody took
  OneWriter<std::uint64_t> partials = 0;        // entries that went to the server with the last arrival
  OneWriter<std::uint64_t> swept = 0;           // entries that nobody touched for too long
  OneWriter<std::uint64_t> flushed = 0;         // entries that an external server asked for
  OneWriter<std::uint64_t> served = 0;          // chunks that the server completed
  OneWriter<std::uint64_t> incomplete = 0;      // finished without everybody: INCOMPLETE results
  OneWriter<std::uint64_t> above = 0;           // of a racked job: sums of the rack that went to the parent
  OneWriter<std::uint64_t> above_again = 0;     // ... and those that went once more
  OneWriter<std::uint64_t> incomplete_bad = 0;  // due, but their sums were wrong: freed, and nothing was sent

  // For sums of several cores.
  SlotCounters& operator+=(const SlotCounters& other) noexcept {
    claims += other.claims;
    denied += other.denied;
    swaps += other.swaps;
    evicted += other.evicted;
    partials += other.partials;
    swept += other.swept;
    flushed += other.flushed;
    served += other.served;
    incomplete += other.incomplete;
    incomplete_bad += other.incomplete_bad;
    above += other.above;
    above_again += other.above_again;
    return *this;
  }
};

// Lines of its own, the first of which is all that most packets touch, beside the time of their rank.
struct alignas(64) JobState {
  OneWriter<std::uint32_t> occupancy = 0;  // the job's filling entries on this core, any epoch; never reset
  std::uint32_t bad_sums_in_row = 0;       // finished sums that failed their check, one after the other
  std::uint32_t suspect_chunks = 0;        // > 0: verify every contribution whatever the port says
  std::uint32_t filling_time = 0;          // smoothed time from claim to finish, in stamps; 0: not known yet
  // Additions in which an element left int32 (second witness of OVERFLOW).
  OneWriter<std::uint64_t> overflows = 0;
  std::uint64_t silenced = 0;  // ranks whose packets are not looked at for now (RateGate)
  SlotCounters slots;
  std::array<OneWriter<TimeNs>, kMaxRanks> last_seen{};  // of the rank's last new contribution
  OneWriter<TimeNs> parent_seen = 0;                     // of a racked job: of the last RESULT of its parent
  SessionRun run;                                        // of a session only, as what follows
  SessionStall stall;

  [[nodiscard]] bool suspect() const noexcept { return suspect_chunks > 0; }

  void finished_well() noexcept {
    bad_sums_in_row = 0;
    if (suspect_chunks > 0) --suspect_chunks;
  }
  void finished_badly() noexcept {
    if (++bad_sums_in_row >= kSuspectAfter || suspect()) suspect_chunks = kSuspectChunks;
  }

  // tau of scheduling.md: twice the smoothed (1/8) time from claim to finish, 200 us to 100 ms; in stamps.
  [[nodiscard]] std::uint32_t tau() const noexcept {
    return std::clamp(2 * filling_time, jobs::stamp(200 * kMicrosecond), jobs::stamp(100 * kMillisecond));
  }
  // An entry untouched for so long belongs to the server.
  [[nodiscard]] std::uint32_t age() const noexcept {
    return std::max(10 * tau(), jobs::stamp(10 * kMillisecond));
  }
  void filled_in(std::uint32_t stamps) noexcept {
    const std::uint32_t sample = std::min(stamps, jobs::stamp(kSecond));
    filling_time = filling_time == 0 ? sample : filling_time - filling_time / 8 + sample / 8;
  }

  static constexpr std::uint32_t kSuspectAfter = 3;       // docs/protocol_box.md, 11.1, finish
  static constexpr std::uint32_t kSuspectChunks = 1'024;  // finished chunks without bad_sum
};
static_assert(sizeof(JobState) % 64 == 0 && offsetof(JobState, slots) <= 64);

// What a data core tells control. When the queue is full the newest is lost, because the next packet of the
// same kind raises the same event again.

enum class EventKind : std::uint8_t {
  kMismatch,  // rank's contribution differs in size or type from what `others` sent: control ABORTs the job
  kPoisoned,  // a suspect job's contribution failed its sums: `rank` corrupts
  kStalled,   // a session's members ask, and nothing has come of it for seconds: `rank` asked last
};

struct Event {
  EventKind kind{};
  JobId job{};
  Epoch epoch{};
  Chunk chunk{};  // kStalled: the packet's tsi
  Rank rank{};
  std::uint64_t others = 0;  // kMismatch, kStalled: ranks in the entry
  jobs::Shape sent;          // by `rank`
  jobs::Shape stored;        // by the others
  // kStalled only.
  std::uint16_t pool_index = 0;
  std::uint8_t job_number = 0;
  bool refused = false;  // the packet is of another chunk than the entry's
  TimeNs since = 0;
};

using EventQueue = BoundedQueue<Event, 64>;

}  // namespace tally::pipeline
