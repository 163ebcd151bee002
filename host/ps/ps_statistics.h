#pragma once
// What the server engine counts, per job. A datagram that is refused changes one counter of `refused`, that
// of the engine, and nothing else.

#include <array>
#include <cstdint>

#include "tally/engine_statistics.h"
#include "tally/time.h"

namespace tally {

struct PsJobStatistics {
  // Membership.
  std::uint64_t joins = 0;             // JOINs sent
  std::uint64_t refusals = 0;          // JOINED(refused)
  std::uint64_t epochs = 0;            // entered
  std::uint64_t generations = 0;       // begun
  std::uint64_t rejects = 0;           // REJECTs that caused a JOIN
  std::uint64_t aborts = 0;            // of the job, by the box
  std::uint64_t silences = 0;          // leases in which the box did not answer
  std::uint64_t heartbeats = 0;        // sent
  std::uint64_t heartbeat_echoes = 0;  // received
  // In.
  std::uint64_t contributions = 0;  // bypassed or DIRECT
  std::uint64_t partials = 0;
  std::uint64_t sums = 0;  // finished ones: the answer to a FLUSH, or of a worker that kept it
  // What became of them: each of the three above is one of these.
  std::uint64_t merged = 0;      // in a state now, which waits for others
  std::uint64_t completed = 0;   // the last one of its chunk
  std::uint64_t known = 0;       // of a chunk that was complete: its ranks get the sum
  std::uint64_t inside = 0;      // nothing new
  std::uint64_t overlaps = 0;    // in part in the state: cannot be added, its other ranks are asked again
  std::uint64_t mismatches = 0;  // other elements, dtype or total than the state's
  std::uint64_t bad_sums = 0;    // completed the chunk, and its sum was wrong: the state is gone
  std::uint64_t no_room = 0;     // no memory for a new chunk: its workers send again
  // States that were given up.
  std::uint64_t fruitless = 0;  // four rounds of FLUSH and RESEND brought nothing
  std::uint64_t outdated = 0;   // no worker can want the chunk any more
  // Out.
  std::uint64_t results = 0;
  std::uint64_t flushes = 0;
  std::uint64_t resends = 0;
  std::uint64_t queue_full = 0;  // of these, those that found the queue full: timers repeat them
  std::uint64_t overtaken = 0;   // of these, those whose epoch or sum was gone when their turn came
  TimeNs flush_time = 0;         // smoothed time from FLUSH to its answer, 0 before the first

  [[nodiscard]] std::uint64_t taken() const noexcept { return contributions + partials + sums; }
};

using PsRefused = std::array<std::uint64_t, kRefusedCount>;

}  // namespace tally
