#pragma once
// The native wire protocol, version 2: the 56-byte header in front of every UDP payload. The complete
// description, good enough to write a client from, is docs/protocol.md.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/be.h"
#include "tally/discipline.h"
#include "tally/ids.h"

namespace tally {

inline constexpr std::uint8_t kWireVersion = 2;
inline constexpr std::uint16_t kBasePort = 0xBF00;       // + shard for data types; control types use shard 0
inline constexpr std::uint16_t kMulticastPort = 0xBFFF;  // default destination port of multicast results
inline constexpr std::size_t kHeaderBytes = 56;
inline constexpr std::size_t kCheckedBytes = 52;  // `check` is the CRC32C of bytes 0..51
// Of a data packet, in values of 4 bytes: those of 2 are twice as many.
inline constexpr std::uint32_t kElementGranule = 16;  // its elements are a multiple of this
inline constexpr std::uint32_t kMaxElements = 2224;   // fills MTU 9000 under IPv6 with a VLAN tag
inline constexpr std::size_t kMaxDatagramBytes = kHeaderBytes + 4 * kMaxElements;
inline constexpr std::int8_t kNoExponent = -128;  // the packet carries no block exponent
// The block has what no integer stands for: NaN, Inf or more than 2^126.
inline constexpr std::int8_t kNotANumber = 127;

enum class PacketType : std::uint8_t {
  kContribute = 1,
  kResult = 2,
  kPartial = 3,
  kFlush = 4,
  kResend = 5,
  kQuery = 6,
  kAnswer = 7,
  kReject = 8,
  kJoin = 9,
  kJoined = 10,
  kLeave = 11,
  kHeartbeat = 12,
  kAbort = 13,
  kProbe = 14,
  kNack = 15,
  kChallenge = 16,
  // Of jobs over several boxes (docs/protocol_boxes.md):
  kPlan = 17,    // a page of a plan, or the wish for one
  kLost = 18,    // a member to the home box: boxes of the plan that it cannot use
  kEnlist = 19,  // a member to another box of the plan
  // Of epochs with kFeatureSparse (docs/protocol_sparse.md), a data type. To the box: zeros of several chunks; from it:
  // their results.
  kZeroRun = 20,
};

// Control types go to the box's control thread (or come from it); the others are data types.
constexpr bool is_control(PacketType t) noexcept {
  return (t >= PacketType::kJoin && t <= PacketType::kProbe) ||
         (t >= PacketType::kChallenge && t <= PacketType::kEnlist);
}

enum Flag : std::uint8_t {
  kFlagRetransmit = 1,   // this contribution was sent before
  kFlagDirect = 2,       // never merge at the switch: goes to the server
  kFlagOverflow = 4,     // some element's magnitude exceeded floor((2^31-1)/N): the sum may have left int32
  kFlagCollision = 8,    // CONTRIBUTE: bypassed because its slot was taken. RESULT: kFlagServed
  kFlagZero = 16,        // all values are 0, and left out; `elements` says how many they are
  kFlagIncomplete = 32,  // `contributors` names fewer ranks than the job has
};
inline constexpr std::uint8_t kKnownFlags =
    kFlagRetransmit | kFlagDirect | kFlagOverflow | kFlagCollision | kFlagZero | kFlagIncomplete;

// On a JOINED(running) only: the epoch has a plan (docs/protocol_boxes.md). Who does not know it must not enter.
inline constexpr std::uint8_t kFlagPlanned = 64;
// On CONTRIBUTE, ANSWER and RESULT, with kFeatureSparse only: rows of zeros are left out (tally/rows.h).
inline constexpr std::uint8_t kFlagSparse = 64;
// As kFlagPlanned: of a job of racks (docs/protocol_racks.md).
inline constexpr std::uint8_t kFlagRacks = 128;

// On a RESULT to a worker: an external server made it.
inline constexpr std::uint8_t kFlagServed = kFlagCollision;

// kInt16: float32 quantised to 16 bits instead of 32. kFarewell: the barrier before LEAVE, which no barrier
// of the program may complete.
enum class Dtype : std::uint8_t { kInt32 = 0, kFloat32 = 1, kInt16 = 2, kFarewell = 255 };
constexpr bool is_dtype(std::uint8_t d) noexcept {
  return d <= static_cast<std::uint8_t>(Dtype::kInt16) || d == static_cast<std::uint8_t>(Dtype::kFarewell);
}
// Values that 4 bytes of a packet hold.
constexpr std::uint32_t values_per_word(std::uint8_t dtype) noexcept {
  return dtype == static_cast<std::uint8_t>(Dtype::kInt16) ? 2 : 1;
}

enum class RejectReason : std::uint32_t {
  // Of a data core, bare: a hint that anybody may forge, worth a HEARTBEAT at once. Of control, with a
  // counter and a tag: JOIN.
  kEpoch = 1,    // the job lives in another epoch. Of control: its members are called back
  kJob = 2,      // no such job here. Of control: no such epoch; answers a HEARTBEAT
  kWaiting = 3,  // answer to a QUERY: there is no result yet; `contributors` = the ranks known to be in it
};

// Types that only an external server sends to the box.
constexpr bool is_from_server(PacketType t) noexcept {
  return t == PacketType::kResult || t == PacketType::kFlush || t == PacketType::kResend;
}

struct Header {
  std::uint8_t version = kWireVersion;
  PacketType type{};
  std::uint8_t flags = 0;
  std::uint8_t priority = 0;
  Be<std::uint16_t> job;
  Be<std::uint16_t> rank;
  Be<std::uint32_t> epoch;
  Be<std::uint32_t> chunk;
  // ANSWER: the rank that asked; REJECT: the RejectReason; CONTRIBUTE: sequence(); NACK: the first missing
  // sequence; RESULT of the box: before().
  Be<std::uint32_t> slot;
  Be<std::uint16_t> elements;
  std::uint8_t dtype = 0;
  std::int8_t exponent = kNoExponent;
  Be<std::uint64_t> contributors;
  Be<std::uint64_t> cookie;
  Be<std::uint32_t> sum1;  // control types: CRC32C of the bytes after the header (0 when there are none)
  Be<std::uint32_t> sum2;
  Be<std::uint32_t> total;
  Be<std::uint32_t> check;

  [[nodiscard]] JobId job_id() const noexcept { return JobId{job.host()}; }
  [[nodiscard]] Rank rank_id() const noexcept { return Rank{rank.host()}; }
  [[nodiscard]] Epoch epoch_id() const noexcept { return Epoch{epoch.host()}; }
  [[nodiscard]] Chunk chunk_id() const noexcept { return Chunk{chunk.host()}; }
  // The worker's count of CONTRIBUTEs to this shard in this epoch, from 1, with every sending a new one.
  [[nodiscard]] std::uint32_t sequence() const noexcept { return slot.host(); }
  // Which of the chunks before it in its shard had been finished when the box made it. Bit i: chunk -
  // (i + 1) x shards. 0 in repeated ones: not known. With shared slots a bit that is not set means nothing.
  [[nodiscard]] std::uint32_t before() const noexcept { return slot.host(); }
};

static_assert(sizeof(Header) == kHeaderBytes && alignof(Header) == 1);
static_assert(offsetof(Header, type) == 1 && offsetof(Header, flags) == 2 && offsetof(Header, priority) == 3);
static_assert(offsetof(Header, job) == 4 && offsetof(Header, rank) == 6 && offsetof(Header, epoch) == 8);
static_assert(offsetof(Header, chunk) == 12 && offsetof(Header, slot) == 16 &&
              offsetof(Header, elements) == 20);
static_assert(offsetof(Header, dtype) == 22 && offsetof(Header, exponent) == 23);
static_assert(offsetof(Header, contributors) == 24 && offsetof(Header, cookie) == 32);
static_assert(offsetof(Header, sum1) == 40 && offsetof(Header, sum2) == 44 && offsetof(Header, total) == 48);
static_assert(offsetof(Header, check) == kCheckedBytes);
static_assert(std::is_trivially_copyable_v<Header>);

constexpr bool valid_elements(std::uint32_t n, std::uint8_t dtype = 0) noexcept {
  const std::uint32_t per_word = values_per_word(dtype);
  return n <= per_word * kMaxElements && n % (per_word * kElementGranule) == 0;
}

// Bytes of a data packet's values, as its header has them.
constexpr std::uint32_t values_bytes(const Header& h) noexcept {
  return (h.flags & kFlagZero) != 0 ? 0 : 4U * h.elements.host() / values_per_word(h.dtype);
}

// Payloads of control types, behind the 56-byte header. Fixed part first, then the text whose length it
// gives or which is what remains, then the tag (docs/protocol.md, 4.1). In all of them header.sum1 is the
// CRC32C of the payload, so that a flipped bit in a generation is a named drop and not a forged packet.

inline constexpr std::size_t kTagBytes = 16;
using Tag = std::array<std::uint8_t, kTagBytes>;

inline constexpr std::size_t kMaxNameBytes = 64;   // job name, 1..64
inline constexpr std::size_t kMaxTokenBytes = 64;  // job token, 0..64
using BoxIndex = std::uint8_t;                     // of a box in its plan's list (tally/plan.h)

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

// `contributors` of a JOIN: what the member understands. Of a JOINED(running): what may be used in the epoch.
inline constexpr std::uint64_t kFeatureSparse = 1;  // kFlagSparse and kZeroRun

// `contributors` of a ZERO RUN: which chunks. Bit i: chunk + i x shards.
inline constexpr std::uint32_t kMostOfRun = 64;

// Header fields of a JOIN: rank and `contributors`; job, epoch and cookie 0.
struct JoinPayload {
  Be<std::uint64_t> instance;  // random per process: tells a restarted worker from a retransmission
  Be<std::uint64_t> nonce;     // echoed by JOINED
  Be<std::uint32_t> attempt;   // +1 with every new JOIN of this instance; an older one is ignored
  Be<std::uint32_t> lowest;    // lowest chunk without a result
  Be<std::uint32_t> next;      // next never-offered chunk
  Be<std::uint16_t> world;     // number of members the worker expects, 1..64
  Be<std::uint16_t>
      elements;  // wish: the most elements per packet its path carries, 16..2224, multiple of 16; 0: it gives up
  GenerationRecord last;
  std::uint8_t name_bytes = 0;
  std::uint8_t rack_workers = 0;  // of a rack box that joins its parent: how many it has. Of all others 0
  Tag challenge{};                // of the newest CHALLENGE; all zero without one
  // then: name, tag under the job's key
};
static_assert(sizeof(JoinPayload) == 72 && offsetof(JoinPayload, last) == 32);
static_assert(offsetof(JoinPayload, name_bytes) == 54 && offsetof(JoinPayload, challenge) == 56);

// To a JOIN that brings no challenge of late. Header fields but type and rank are 0; no tag.
struct ChallengePayload {
  Be<std::uint64_t> nonce;  // of the JOIN
  Tag challenge{};
};
static_assert(sizeof(ChallengePayload) == 24);

// First in HEARTBEAT, LEAVE and ABORT of both directions, and in REJECT of control. A HEARTBEAT to the box
// goes on with the job's name, an ABORT with its text.
struct CountedPayload {
  Be<std::uint64_t> counter;  // a receiver takes greater ones only. REJECT(job): of the HEARTBEAT it answers
};
static_assert(sizeof(CountedPayload) == 8);

// kElsewhere: not this box is the job's home. The text is the home's address, 16 bytes.
enum class JoinStatus : std::uint8_t { kRunning = 1, kForming = 2, kRefused = 3, kElsewhere = 4 };
enum class ResultsMode : std::uint8_t { kUnicast = 1, kMulticast = 2 };

// Header fields of a JOINED: rank 0xFFFF; `contributors`, job, epoch and the result cookie (0 unless running).
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
  // then: text (refused), tag under the job's key; all zero in a refusal of who has not shown that it has it
};
static_assert(sizeof(JoinedPayload) == 100);
static_assert(offsetof(JoinedPayload, record) == 32 && offsetof(JoinedPayload, world) == 54);
static_assert(offsetof(JoinedPayload, window) == 56 && offsetof(JoinedPayload, group) == 72);
static_assert(offsetof(JoinedPayload, box_mac) == 88 && offsetof(JoinedPayload, status) == 94);
static_assert(offsetof(JoinedPayload, text_bytes) == 98);

// Names the bytes of a plan: auth::plan_id().
using PlanId = std::array<std::uint8_t, 16>;

// The text of a JOINED(running) with kFlagPlanned.
struct PlannedText {
  PlanId plan{};
  Be<std::uint32_t> bytes;     // of the plan
  std::uint8_t home = kNoBox;  // which of its boxes sends this; kNoBox: none of them
  std::array<std::uint8_t, 3> zero{};

  static constexpr std::uint8_t kNoBox = 0xFF;
};
static_assert(sizeof(PlannedText) == 24);

// The text of a JOINED(running) with kFlagRacks. Behind it the workers of each rack, a byte each, 1..kMaxRanks.
struct RacksText {
  std::uint8_t rack = 0;           // whose this is
  std::uint8_t most_advanced = 0;  // the rack with the newest `next`
  std::uint8_t racks = 0;          // R, 1..kMaxRacks
  std::uint8_t zero = 0;
};
static_assert(sizeof(RacksText) == 4);

// PLAN. With a page behind it (to a member: the answer; to a box: what it lacks), or none: please send it.
struct PlanPayload {
  PlanId plan{};
  Be<std::uint32_t> bytes;  // of the whole plan
  std::uint8_t page = 0;
  std::uint8_t name_bytes = 0;
  Be<std::uint16_t> page_bytes;
  // then: name, page, tag under the job's key
};
static_assert(sizeof(PlanPayload) == 24);

// LOST. A bit for each box of the plan.
struct LostPayload {
  Be<std::uint64_t> counter;  // as CountedPayload
  Be<std::uint64_t> gone;     // says nothing, or refuses: plan without it
  Be<std::uint64_t> forgot;   // has forgotten the epoch, and lives
  // then: tag under the session key
};
static_assert(sizeof(LostPayload) == 24);

// ENLIST. Header fields: rank, epoch, and the contribution cookie of the rank; job 0.
struct EnlistPayload {
  Be<std::uint64_t> instance;  // these three as in JOIN, attempts counted apart for each box
  Be<std::uint64_t> nonce;
  Be<std::uint32_t> attempt;
  Be<std::uint32_t> window;  // this and what follows: as the home box said
  Be<std::uint64_t> result_cookie;
  GenerationRecord record;
  Be<std::uint16_t> world;
  Be<std::uint32_t> lease_ms;
  PlanId plan{};
  Be<std::uint32_t> plan_bytes;
  BoxIndex box = 0;  // which of the plan's boxes this goes to
  std::uint8_t max_priority = 0;
  std::uint8_t name_bytes = 0;
  std::uint8_t zero = 0;
  Tag challenge{};  // as in JOIN
  // then: name, tag under the job's key
};
static_assert(sizeof(EnlistPayload) == 100 && offsetof(EnlistPayload, challenge) == 84);

}  // namespace tally
