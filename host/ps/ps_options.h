#pragma once
// What the program tells the server engine, once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tally/bounded_queue.h"
#include "tally/engine_statistics.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::ps {

struct PsJobOptions {
  std::string job;          // name, 1..64 bytes; each job once
  std::string token;        // 0..64 bytes
  std::uint32_t index = 0;  // which of the job's servers, 0..kMaxServers - 1
};

// Why no server can serve these jobs, for people; empty if one can.
[[nodiscard]] std::string objection_to(const std::vector<PsJobOptions>& jobs);

struct PsOptions {
  std::vector<PsJobOptions> jobs;  // 1..kMaxJobs
  std::uint16_t elements = 352;    // wish: the most elements a packet of this path carries, 16..2224, x 16
  std::uint64_t instance = 0;      // random per process: tells a restarted server from a repeated JOIN
  std::uint64_t seed = 0;          // of all nonces; the same seed and input give the same output
  std::size_t memory = std::size_t{64} << 20;  // bytes for partial and kept sums of all jobs together
  // Where to join, the first one first: any boxes of the jobs (IPv4 as ::ffff:a.b.c.d). Empty: one box, whose
  // address only the transport knows; to the engine it is all zero.
  std::vector<Ipv6> boxes{};
  // Of a datagram of the path. A job with a plan is not entered if pages of plans do not fit.
  std::size_t path_bytes = std::numeric_limits<std::size_t>::max();
};

// What people should hear of a job, in order.
struct PsEvent {
  std::size_t job = 0;  // index in PsOptions::jobs
  std::string text;     // a sentence without the job's name
};
using PsEventLog = BoundedQueue<PsEvent, 256>;

// What the server engine counts, per job. A datagram that is refused changes one counter of `refused`, that
// of the engine, and nothing else.

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
  // Membership at the other boxes of a plan.
  std::uint64_t enlists = 0;     // ENLISTs sent
  std::uint64_t enlisted = 0;    // times that a box took it in
  std::uint64_t boxes_lost = 0;  // boxes that were silent, refused, or forgot the epoch
  std::uint64_t losts = 0;       // LOSTs sent
  // In.
  std::uint64_t contributions = 0;  // bypassed or DIRECT
  std::uint64_t partials = 0;
  std::uint64_t sums = 0;     // finished ones: the answer to a FLUSH, or of a worker that kept it
  std::uint64_t queries = 0;  // of a rank that found the result nowhere else
  // What became of them: each of the three before the queries is one of these.
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
  std::uint64_t unreached =
      0;                  // datagrams to a box of the plan where the server is no member (yet, or any more)
  TimeNs flush_time = 0;  // smoothed time from FLUSH to its answer, 0 before the first

  [[nodiscard]] std::uint64_t taken() const noexcept { return contributions + partials + sums; }
};

using PsRefused = std::array<std::uint64_t, kRefusedCount>;

}  // namespace tally::ps
