#pragma once
// What the worker engine counts. A datagram that is refused changes exactly one counter, the one of its
// reason, and nothing else.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tally/time.h"

namespace tally {

enum class Refused : std::uint8_t {
  // frame
  kRunt,
  kVersion,
  kCheck,
  kType,
  kFlags,
  kLength,
  kPayload,
  // sender
  kState,
  kJob,
  kRank,
  kEpoch,
  kCookie,
  kNonce,
  kTag,
  kReplay,
  kJoined,
  kReason,
  kPeer,
  // result
  kLate,
  kNotWaited,
  kSlot,
  kIncomplete,
  kContributors,
  kShape,
  kExponent,
  kSum,
  kCount,
};

inline constexpr std::size_t kRefusedCount = static_cast<std::size_t>(Refused::kCount);

inline constexpr std::array<std::string_view, kRefusedCount> kRefusedNames{
    "runt",        // shorter than a header
    "version",     // protocol version is not 2
    "check",       // header CRC32C
    "type",        // unknown, or one the box never sends to a worker
    "flags",       // unknown flag
    "length",      // payload is not what type and `elements` say
    "payload",     // CRC32C of a control payload
    "state",       // nothing of the kind is expected now: not joined yet, no JOIN outstanding, or closed
    "job",         // another job
    "rank",        // not from the box; RESEND: not a server's
    "epoch",       // another epoch than the one joined
    "cookie",      // not the result cookie
    "nonce",       // JOINED or CHALLENGE that does not answer the newest JOIN
    "tag",         // control packet that was not made with the job's token, or was changed on its way
    "replay",      // control packet whose counter has been seen, or that answers none of the last HEARTBEATs
    "joined",      // JOINED whose values contradict each other or the protocol's ranges
    "reason",      // REJECT with an unknown reason
    "peer",        // QUERY or RESEND that does not name this rank, or QUERY of no other member
    "late",        // result of a chunk that has one
    "not_waited",  // chunk never offered
    "slot",        // at a server: not the slot of the chunk
    "incomplete",  // INCOMPLETE result of a job that did not opt in to them
    "contributors",  // not all members, or INCOMPLETE and not some of them
    "shape",         // elements, dtype or total differ from what was contributed
    "exponent",      // below the one contributed, or impossible
    "sum",           // end-to-end sums wrong: corrupted, or not the sum of every member once
};

constexpr std::string_view name_of(Refused r) noexcept { return kRefusedNames[static_cast<std::size_t>(r)]; }

// What the worker engine says and hears of data to one of its boxes, through all epochs in which it goes there.
struct BoxTraffic {
  std::uint64_t contributions = 0;    // repeated ones included
  std::uint64_t retransmissions = 0;  // of these, sent again in the same epoch
  std::uint64_t queries = 0;          // sent
  std::uint64_t nacks = 0;            // received
  std::uint64_t results = 0;          // accepted
  TimeNs srtt = 0;                    // as EngineStatistics has them, of this box
  TimeNs rto = 0;
};

struct EngineStatistics {
  std::uint64_t contributions = 0;    // first transmissions in an epoch
  std::uint64_t retransmissions = 0;  // contributions sent again in the same epoch
  std::uint64_t zeros = 0;            // of these and the first ones: all values 0, and left out
  std::uint64_t runs = 0;             // packets that stood for several of the zeros
  std::uint64_t sparse = 0;           // contributions, repeated ones too, whose rows of zeros were left out
  std::uint64_t early = 0;    // of the retransmissions, not after a timer: the box said that it lacks them
  std::uint64_t nacks = 0;    // received
  std::uint64_t queries = 0;  // sent
  std::uint64_t asks = 0;     // of these, early ones, which name no peer
  std::uint64_t answers = 0;  // sent
  std::uint64_t answers_dropped = 0;   // asked for faster than they could leave: the asker asks again
  std::uint64_t queries_silent = 0;    // received, but the result is not here (yet, or any more)
  std::uint64_t direct = 0;            // of the retransmissions, those that a server's RESEND asked for
  std::uint64_t resends_dropped = 0;   // asked for faster than they could leave: the server asks again
  std::uint64_t resends_silent = 0;    // received; the chunk is not in flight, and its result not here
  std::uint64_t results = 0;           // accepted
  std::uint64_t overflows = 0;         // results with OVERFLOW
  std::uint64_t incomplete = 0;        // results with INCOMPLETE: they lack ranks
  std::uint64_t waiting = 0;           // REJECT(waiting) accepted
  std::uint64_t hints = 0;             // REJECT(epoch or job) of data cores: worth a HEARTBEAT
  std::uint64_t rejects = 0;           // REJECT(epoch or job) of control, that caused a JOIN
  std::uint64_t joins = 0;             // JOINs sent
  std::uint64_t epochs = 0;            // entered
  std::uint64_t generations = 0;       // begun
  std::uint64_t heartbeats = 0;        // sent
  std::uint64_t heartbeat_echoes = 0;  // received
  // Of jobs over several boxes. What is said to boxes that are not the home is counted above, too.
  std::uint64_t enlists = 0;     // ENLISTs sent
  std::uint64_t plans = 0;       // fetched and entered
  std::uint64_t boxes_lost = 0;  // gone, or forgot the epoch
  // Smoothed contribution-to-result time, 0 before the first sample; with several boxes, of the newest result's.
  TimeNs srtt = 0;
  TimeNs rto = 0;  // retransmission timeout in force, with back-off; likewise
  std::array<std::uint64_t, kRefusedCount> refused{};

  [[nodiscard]] std::uint64_t of(Refused r) const noexcept { return refused[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::uint64_t refused_total() const noexcept {
    std::uint64_t n = 0;
    for (const auto v : refused) n += v;
    return n;
  }
};

// Elements whose sum lacks ranks, of a job with stragglers.
struct PartialSum {
  std::uint64_t first = 0;  // element in the concatenation of the operation's spans
  std::uint64_t count = 0;
  std::uint64_t contributors = 0;  // bitmap of the ranks that are in it, never 0
  constexpr bool operator==(const PartialSum&) const noexcept = default;
};

struct OperationStats {
  std::uint64_t elements = 0;         // of all its spans
  std::uint64_t chunks = 0;           // priming ones included
  std::uint64_t packets = 0;          // contributions and queries sent
  std::uint64_t retransmissions = 0;  // of these, sent again in the same or a new epoch, and queries
  bool overflow = false;              // some sum may have left int32, or a late rank's values were clipped
  // Of a job with stragglers. All ranks get the same.
  bool incomplete = false;              // some sums lack ranks: `partial` says which
  std::uint64_t contributors = 0;       // bitmap of the ranks that are in every sum
  std::uint64_t incomplete_chunks = 0;  // packets' worth of values whose sums lack ranks
  std::vector<PartialSum> partial{};  // ascending, disjoint, neighbours differ; what is not here lacks nobody
  TimeNs started = 0;
  TimeNs finished = 0;
};

}  // namespace tally
