#pragma once
// Payloads of JOIN and JOINED, behind the 56-byte header. Fixed part first, then the texts whose lengths it
// gives. In all control types header.sum1 is the CRC32C of the payload, so that a flipped bit in a token or
// a generation is a named drop and not a wrong membership.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/be.h"
#include "tally/discipline.h"
#include "tally/ids.h"

namespace tally {

inline constexpr std::size_t kMaxNameBytes = 64;   // job name, 1..64
inline constexpr std::size_t kMaxTokenBytes = 64;  // job token, 0..64
inline constexpr std::size_t kMaxTextBytes = 512;  // JOINED(refused) and ABORT

// What a worker says its newest JOINED(running) said; all zero the first time. Control adopts the generation
// when every rank reports the same record (docs/protocol.md, 5.3), also after it lost all its state.
struct GenerationRecord {
  Be<std::uint64_t> generation;
  Be<std::uint32_t> first_chunk;
  Be<std::uint32_t> largest_window;
  Be<std::uint32_t> lookahead;
  Be<std::uint16_t> elements;

  constexpr bool operator==(const GenerationRecord&) const noexcept = default;
};
static_assert(sizeof(GenerationRecord) == 22);

// Header fields of a JOIN: rank; job, epoch and cookie 0.
struct JoinPayload {
  Be<std::uint64_t> instance;  // random per process: tells a restarted worker from a retransmission
  Be<std::uint64_t> nonce;     // echoed by JOINED
  Be<std::uint32_t> attempt;   // +1 with every new JOIN of this instance; an older one is ignored
  Be<std::uint32_t> lowest;    // lowest chunk without a result
  Be<std::uint32_t> next;      // next never-offered chunk
  Be<std::uint16_t> world;     // number of members the worker expects, 1..64
  Be<std::uint16_t>
      elements;  // wish: the most elements per packet its path carries, 16..2224, multiple of 16
  GenerationRecord last;
  std::uint8_t name_bytes = 0;
  std::uint8_t token_bytes = 0;
  // then: name, token
};
static_assert(sizeof(JoinPayload) == 56 && offsetof(JoinPayload, last) == 32);
static_assert(offsetof(JoinPayload, name_bytes) == 54);

enum class JoinStatus : std::uint8_t { kRunning = 1, kForming = 2, kRefused = 3 };
enum class ResultsMode : std::uint8_t { kUnicast = 1, kMulticast = 2 };

// Header fields of a JOINED: rank 0xFFFF, job, epoch and the result cookie (0 unless running).
struct JoinedPayload {
  Be<std::uint64_t> nonce;
  Be<std::uint64_t> missing;  // forming: bitmap of the ranks not joined yet
  Be<std::uint64_t> cookie;   // contribution cookie of this rank
  Be<std::uint64_t> salt;     // hashed disciplines
  GenerationRecord record;
  Be<std::uint16_t> world;
  Be<std::uint32_t> window;
  Be<std::uint32_t> shared_slots;
  Be<std::uint32_t> lease_ms;
  Be<std::uint16_t> most_advanced;       // rank whose `next` was the largest: the first peer to QUERY
  Be<std::uint16_t> group_port;          // multicast results
  std::array<std::uint8_t, 16> group{};  // IPv6, or IPv4 as ::ffff:a.b.c.d; all zero with unicast results
  std::array<std::uint8_t, 6> box_mac{};
  JoinStatus status{};
  Discipline discipline{};
  ResultsMode results{};
  std::uint8_t shards = 0;  // 1..64
  Be<std::uint16_t> text_bytes;
  // then: text (refused)
};
static_assert(sizeof(JoinedPayload) == 100);
static_assert(offsetof(JoinedPayload, record) == 32 && offsetof(JoinedPayload, world) == 54);
static_assert(offsetof(JoinedPayload, window) == 56 && offsetof(JoinedPayload, group) == 72);
static_assert(offsetof(JoinedPayload, box_mac) == 88 && offsetof(JoinedPayload, status) == 94);
static_assert(offsetof(JoinedPayload, text_bytes) == 98);

}  // namespace tally
