#pragma once
// The match table of the pipeline: one immutable row per running job, published by control as an immutable
// snapshot. Data cores load the pointer once per burst; control frees the old one after every core passed a
// quiescent point.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "jobs/binding.h"
#include "jobs/contribution_template.h"
#include "jobs/plan_part.h"
#include "jobs/session.h"
#include "jobs/source_limiter.h"
#include "tally/discipline.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/one_writer.h"
#include "tally/switchml.h"
#include "tally/wire.h"

namespace tally::jobs {

struct Member {
  Cookie cookie{};        // contribution cookie
  std::uint32_t key = 0;  // k[rank]
  Binding binding;
};

// What becomes of an entry that some ranks do not come to (docs/protocol.md, 11.8).
struct Stragglers {
  std::uint32_t timeout = 0;  // of a filling entry, in stamps of 1,024 ns; 0: it waits for everybody
  std::uint8_t least = 1;     // contributors, 1..world
  Chunk fence{};              // no chunk before it: the largest `next` in the JOINs of the epoch
};

// Of a job of racks (docs/protocol_racks.md), in the row of a rack's box: what this box is at its parent. Of the row
// itself ranks, keys, `key_sum` and `members` are of the rack alone, result cookie and window are what its workers
// were told.
struct Parent {
  Binding binding;            // where it is; the UDP port is that of its shard 0
  JobId job{};                // there
  std::uint8_t rack = 0;      // our rank there
  std::uint8_t racks = 1;     // R, 1..kMaxRacks
  std::uint8_t shards = 1;    // the parent's data cores
  Rank most_advanced{};       // of our ranks: whom other racks ask who name none
  std::uint32_t window = 0;   // the parent's W
  std::uint32_t key_sum = 0;  // K: of all workers of all racks
  Cookie cookie{};            // contribution cookie of the rack
  Cookie result_cookie{};     // the parent's
  std::uint64_t members = 0;  // bitmap of the racks 0..racks-1
};

// Slot memory of one core, in lines of 64 bytes from the start of the core's region.
struct LineRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  constexpr bool operator==(const LineRange&) const noexcept = default;
};

// Quotas of rate, of one core (pipeline/rate_gate.h). Empty: there is none.
struct RateLimits {
  std::optional<Budget> packets;      // data packets of all its members and servers
  std::optional<Budget> bad_packets;  // of each worker, those that fail a check
};

// What a row says of any job. What every packet asks for lies behind the ranks, side by side with what its
// dialect adds.
struct alignas(64) Job {
  std::array<Member, kMaxRanks> ranks{};
  JobId id{};
  std::uint8_t world = 1;       // N, 1..64
  bool limits_packets = false;  // RateLimits::packets is there
  Epoch epoch{};
  Cookie result_cookie{};
  std::uint64_t members = 0;  // bitmap of ranks 0..world-1
  // pool: its entries; shared: its ledger; by hash: empty; of a session its entries. Same range on every core
  // (each core has its own region).
  LineRange slots;
  std::uint16_t elements = 0;  // most elements in a packet, 16..2224, a multiple of 16
};

struct NativeJob : Job {
  Discipline discipline = Discipline::kPool;
  std::uint8_t shards = 1;  // data cores, 1..64
  std::uint8_t max_priority = 254;
  ResultsMode results = ResultsMode::kUnicast;
  bool planned = false;  // `part` is there; says so in the line that is here anyway
  // All members understand SPARSE and zero runs. Discipline pool on one box, without stragglers, racks and servers,
  // of two members or more.
  bool sparse = false;
  std::uint32_t window = 0;  // W, a power of two, 16..16384
  std::uint32_t span = 0;    // 2 x the largest window of the generation
  // 1: `parent` is there; discipline pool, no stragglers, unicast results. A word, and here, since every packet asks
  // for it together with what is behind it.
  std::uint32_t racked = 0;
  Stragglers stragglers;                  // discipline pool
  std::uint32_t key_sum = 0;              // sum of all members' keys
  std::uint8_t servers = 0;               // external ones, 1..kMaxServers; 0: none
  ServerKind server = ServerKind::kNone;  // disciplines with shared slots have one
  Decay decay = Decay::kSilence;          // discipline preemptive
  std::uint64_t salt = 0;                 // of the disciplines by hash, new with every epoch
  std::uint32_t shared_slots = 0;         // entries of the shared region on all cores together
  // Quota in the shared region, entries of one core: what a job holds up to this is taken by nobody while it
  // is in use (scheduling.md). Claims stop at JobTable::cap().
  std::uint32_t reserved = 0;
  // Results multicast: one rank for each (port, VLAN, IP version) that has a member; a frame goes to each.
  std::uint64_t leaders = 0;
  Generation generation{};
  // Of a job over several boxes (docs/protocol_boxes.md), set by take_part().
  std::shared_ptr<const PlanPart> part;
  std::uint64_t enlisted = 0;  // the ranks that the box knows; others send it nothing yet, and get nothing
  std::array<Member, kMaxServers> server_ranks{};  // by server_index(); keys 0
  RateLimits rates;
  std::uint16_t enlisted_servers = 0;  // as enlisted, by server_index()
  Parent parent;                       // racked

  // Has an entry of it nothing but what every pool's has?
  [[nodiscard]] bool is_plain_pool() const noexcept {
    return (std::uint64_t{racked} | std::uint64_t{stragglers.timeout} << 32) == 0 &&
           discipline == Discipline::kPool;
  }

  // What of a plan is this box's. Before: ranks and servers are filled; whose binding is empty is not known here.
  void take_part(std::shared_ptr<const PlanPart> of_plan) noexcept;
};

// The ranks whose contributions of a chunk the box adds up, and those that have its result from it. Of a job of one
// box that is everybody.
inline std::uint64_t here_of(const NativeJob& job, Chunk chunk) noexcept {
  return job.planned ? job.part->here[plan_group(chunk)] : job.members;
}
inline std::uint64_t through_of(const NativeJob& job, Chunk chunk) noexcept {
  return job.planned ? job.part->through[plan_group(chunk)] : job.members;
}
// Which of the job's servers, at least one, finishes a chunk.
inline std::uint32_t server_of(const NativeJob& job, Chunk chunk) noexcept {
  return job.planned ? job.part->server[plan_group(chunk)] : tally::server_of(chunk, job.servers);
}

// Does the box know where this rank is, a worker or a server of the job?
inline bool knows(const NativeJob& job, Rank rank) noexcept {
  const std::uint32_t server = server_index(rank);
  if (raw(rank) < job.world) return !job.planned || (job.enlisted >> raw(rank) & 1) != 0;
  return server < job.servers && (!job.planned || (job.enlisted_servers >> server & 1) != 0);
}

// Dialect switchml. Of a member's binding only MAC, address (IPv4) and udp_port (where its packets go to) are
// meant. The lower 24 bits of `epoch` are not all 0; `elements` is the payload / 4.
struct SessionJob : Job {
  std::uint16_t payload = switchml::kMaxPayload;  // bytes of values in every packet, valid_payload()
  TsiRule tsi = TsiRule::kPacket;
  std::uint8_t home = 0;         // the data core that owns all of it: stock clients send to one UDP port
  std::uint32_t slot_count = 0;  // 1..switchml::kMaxSlots; pool_index names one of them
  RateLimits rates;              // no bad_packets: nothing in them is known to its members alone
};

// So many of the box's data cores there must be.
constexpr std::uint32_t cores_of(const NativeJob& job) noexcept { return job.shards; }
constexpr std::uint32_t cores_of(const SessionJob& job) noexcept { return job.home + 1U; }

// Sum of the keys of some of a job's ranks.
inline std::uint32_t keys_of(const NativeJob& job, std::uint64_t ranks) noexcept {
  std::uint32_t keys = 0;
  for (; ranks != 0; ranks &= ranks - 1)
    keys += job.ranks[static_cast<unsigned>(std::countr_zero(ranks))].key;
  return keys;
}

// Of a racked job: slot and shard of a chunk at the parent.
constexpr SlotIndex slot_at(const Parent& parent, Chunk chunk) noexcept {
  return SlotIndex{raw(chunk) & (parent.window - 1)};
}
constexpr std::uint8_t shard_at(const Parent& parent, Chunk chunk) noexcept {
  return static_cast<std::uint8_t>(raw(slot_at(parent, chunk)) % parent.shards);
}

constexpr SlotMap slot_map(const NativeJob& job) noexcept {
  return {job.discipline, job.id, job.window, job.span, job.shared_slots, job.salt};
}

// Lines of one entry: a line of registers, then the values.
constexpr std::uint32_t entry_lines(std::uint32_t elements) noexcept { return 1 + elements / 16; }

// Entries a pool job needs on one core: two versions of its share of the W slots.
constexpr std::uint32_t pool_entries(std::uint32_t window, std::uint32_t shards) noexcept {
  return 2 * ((window + shards - 1) / shards);
}
constexpr std::uint32_t pool_lines(std::uint32_t window, std::uint32_t shards,
                                   std::uint32_t elements) noexcept {
  return pool_entries(window, shards) * entry_lines(elements);
}

// By job id, the most entries of the shared region that a job may hold on one core: what changes every 50 ms,
// and so lies beside the rows. Written by control at any time, read by the cores with relaxed loads: a new
// cap is seen late, and by one core before another. No sum depends on it. It only says whether a contribution
// that finds no entry of its chunk may take one or goes to the server, which counts each rank once as an
// entry does; a packet reads it once. What control wrote before it published a row, whoever adopts the row
// sees, or something newer: publishing is a release, adopting an acquire.
using SharedCaps = std::array<OneWriter<std::uint32_t>, kMaxJobs + 1>;

// A job of one dialect or another; nullptr: none. Only the pointer says which, so that whoever looks for a
// native job's row finds out without touching the row of a session.
using Row = std::variant<std::shared_ptr<const NativeJob>, std::shared_ptr<const SessionJob>>;

template <class Dialect>
const Dialect* row_as(const Row& row) noexcept {  // nullptr: it is empty, or of another dialect
  const auto* const pointer = std::get_if<std::shared_ptr<const Dialect>>(&row);
  return pointer != nullptr ? pointer->get() : nullptr;
}

// Calls what jobs of every dialect have, for whatever of a job is a variant by dialect. (std::visit() would
// throw for one that lost its value, which these never do.)
template <std::size_t I = 0, class V, class F>
decltype(auto) with_dialect(V& variant, F call) {
  if constexpr (I + 1 < std::variant_size_v<std::remove_const_t<V>>) {
    if (variant.index() != I) return with_dialect<I + 1>(variant, call);
  }
  return call(*std::get_if<I>(&variant));
}

inline const Job* job_of(const Row& row) noexcept {  // nullptr: it is empty
  return with_dialect(row, [](const auto& pointer) -> const Job* { return pointer.get(); });
}

// Rows to be replaced; an empty one clears.
using ChangedRows = std::map<JobId, Row>;

// Immutable once published, but for the caps. Rows of jobs that are not running are empty: their packets are
// Drop(job) and answered by REJECT. No native packet finds a session, whatever job id it says.
class JobTable {
 public:
  // Empty. caps: those of all tables made from this one, which keep them alive. Without: nobody has one.
  explicit JobTable(std::shared_ptr<const SharedCaps> caps);
  JobTable();
  JobTable(const JobTable&);
  JobTable& operator=(const JobTable&) = delete;
  ~JobTable();

  // A native job's row.
  [[nodiscard]] const NativeJob* find(JobId id) const noexcept {
    return raw(id) <= kMaxJobs ? row_as<NativeJob>(rows_[raw(id)]) : nullptr;
  }
  // Of a native job's member; nullptr: there is none.
  [[nodiscard]] const ContributionTemplate* contributions_of(JobId id, Rank rank) const noexcept {
    if (raw(id) > kMaxJobs) return nullptr;
    const Templates& of = templates_[raw(id)];
    return raw(rank) < of.members ? &of.by_rank[raw(rank)] : nullptr;
  }
  // The racked row whose parent calls it so; nullptr: there is none.
  [[nodiscard]] const NativeJob* find_at_parent(const Binding& source, JobId there) const noexcept;
  // Is this a parent's? What its control says comes from there before a row is.
  [[nodiscard]] bool is_parent(const Ipv6& address) const noexcept;
  // Whether anything is asked about parents at all.
  [[nodiscard]] bool has_parents() const noexcept { return !parents_.empty() || !racked_.empty(); }
  [[nodiscard]] const Row& row(JobId id) const noexcept { return rows_[raw(id)]; }  // id: at most kMaxJobs
  [[nodiscard]] std::uint32_t cap(JobId id) const noexcept { return (*caps_)[raw(id)]; }
  // Whose packets these are; an empty job: nobody's.
  [[nodiscard]] SessionMember member(const SessionSender& sender) const noexcept {
    return senders_.find(sender);
  }
  // The copy with these rows replaced; its cost is that of 2,000 pointers, however many rows are. No two
  // sessions have a sender in common then.
  [[nodiscard]] std::shared_ptr<const JobTable> with(const ChangedRows& changed) const;
  [[nodiscard]] std::shared_ptr<const JobTable> with(JobId id, Row row) const {
    return with(ChangedRows{{id, std::move(row)}});
  }
  // The copy that takes what control of these parents says: of jobs that are configured to have one, whether they
  // have a row or not.
  [[nodiscard]] std::shared_ptr<const JobTable> with_parents(std::vector<Ipv6> addresses) const;

 private:
  std::shared_ptr<const SharedCaps> caps_;
  struct Templates {
    std::shared_ptr<const ContributionTemplate[]> by_rank;
    std::uint16_t members = 0;
  };
  static Templates templates_of(const NativeJob* job);
  void find_racked();

  std::array<Row, kMaxJobs + 1> rows_{};
  std::array<Templates, kMaxJobs + 1> templates_{};  // of the native rows
  SessionSenders senders_;
  std::vector<Ipv6> parents_;
  std::vector<const NativeJob*> racked_;  // rows, few
};

// How a new job table reaches the data cores.

// Lines that left a job, the same on every core. The core counts the job's filling entries in it out of its
// occupancy and zeroes every line.
struct FreedLines {
  JobId job{};
  // Layout: entries of that many elements from lines.first on. 0: a ledger, nothing but to be zeroed.
  std::uint16_t elements = 0;
  LineRange lines{};
  std::uint64_t members = 0;   // an entry with these contributors is complete, not filling
  std::uint32_t in_front = 1;  // lines of an entry before its values
};

// Every core executes every publication, in order: `freed` first, then the table.
struct Publication {
  std::uint64_t version = 0;  // increasing; never 0
  std::shared_ptr<const JobTable> table{};
  std::vector<FreedLines> freed{};  // to be zeroed by each core before it loads the table
};

}  // namespace tally::jobs
