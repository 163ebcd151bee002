#pragma once
// What the configuration says of one job, and what the box offers to all of them. Ranges, and rules between
// several keys, are checked where the file is read (control/config): here they hold.

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "jobs/job_table.h"
#include "members/plan_source.h"
#include "tally/discipline.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/switchml.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// Limits of a job's keys; those of the wire are in include/tally. The configuration reads by them.
inline constexpr std::uint32_t kMinWindow = 16;  // chunks
inline constexpr std::uint32_t kMaxWindow = 16'384;
inline constexpr std::uint16_t kMinElements = 16;
inline constexpr std::uint8_t kMaxPriority = 254;
inline constexpr std::uint32_t kMaxSharedSlots = 1U << 24U;  // of all cores together
inline constexpr std::uint32_t kMaxWeight = 1'000;
inline constexpr std::uint32_t kWholePpm = 1'000'000;
inline constexpr TimeNs kMinLease = 100 * kMillisecond;
inline constexpr TimeNs kMaxLease = 3'600 * kSecond;
inline constexpr TimeNs kMinStraggler = kMillisecond;
inline constexpr TimeNs kMaxStraggler = 600 * kSecond;  // far below what a stamp can tell apart
inline constexpr std::uint32_t kMinPacketRate = 1'000;  // packets a second
inline constexpr std::uint32_t kMaxPacketRate = 1'000'000'000;
inline constexpr std::uint32_t kMinBadPacketRate = 100;
inline constexpr std::uint16_t kMaxGroups = kMaxJobs - 1;
inline constexpr TimeNs kMinIdle = kSecond;
inline constexpr TimeNs kMaxIdle = 24 * 3'600 * kSecond;

// What jobs of every dialect have.
struct CommonConfig {
  std::string name{};         // 1..kMaxNameBytes, no control characters
  std::uint16_t workers = 1;  // N, 1..kMaxRanks; of a session as many as members
  // Data packets a second that the box takes, kMinPacketRate..kMaxPacketRate; empty: as many as come.
  std::optional<std::uint32_t> packet_rate{};
  bool operator==(const CommonConfig&) const = default;
};

// Shares of the shared slots in parts of a million, the same on every core, and the weight in dividing them.
struct Quota {
  std::uint32_t reserved_ppm = 0;     // guaranteed, 0..1,000,000
  std::uint32_t weight = 1;           // 1..1,000
  std::uint32_t cap_ppm = kWholePpm;  // never exceeded, reserved_ppm..1,000,000
  bool operator==(const Quota&) const = default;
};

// Results that need not wait for everybody (docs/protocol.md, 11.8).
struct StragglerPolicy {
  TimeNs timeout = 0;       // of a chunk, from its first contribution: kMinStraggler..kMaxStraggler
  std::uint16_t least = 1;  // contributors, 1..workers
  bool operator==(const StragglerPolicy&) const = default;
};

// Jobs that need not be declared: groups of some of the job's workers, of any name behind its own and a '/'.
struct AdmitPolicy {
  std::uint16_t groups = 16;   // at a time, 1..kMaxGroups
  TimeNs idle = 60 * kSecond;  // nobody was in one for so long: it is forgotten, kMinIdle..kMaxIdle
  bool operator==(const AdmitPolicy&) const = default;
};

// The boxes that sum one job together (docs/protocol_boxes.md). A job that has them shares slots by ledger
// (discipline shared) and is finished by external servers, its results are unicast, and it has neither stragglers
// nor groups.
struct BoxesConfig {
  std::vector<Ipv6> addresses{};  // of all of them, 1..kMaxPlanBoxes, each once; IPv4 as ::ffff:a.b.c.d
  BoxIndex here = 0;              // which of them this box is
  BoxIndex home = 0;              // which of them is the home at present
  bool operator==(const BoxesConfig&) const = default;
};

// The racks whose boxes sum one job at two levels (docs/protocol_racks.md), and which part of it this box does. Such a
// job has the discipline pool, no stragglers, servers, groups or boxes, and unicast results.
struct RacksConfig {
  std::vector<std::uint8_t>
      workers{};  // of each rack 1..kMaxRanks, of 1..kMaxRacks racks: the same list at all boxes
  std::optional<std::uint8_t> rack{};  // which of them is this box's; empty: this is the parent
  Ipv6 parent{};                       // at the box of a rack: where its parent is; IPv4 as ::ffff:a.b.c.d

  // N: of all racks, 1..kMaxWorld.
  [[nodiscard]] std::uint16_t world() const noexcept { return first_of(workers.size()); }
  // The workers of all racks before that one: the number of its rank 0.
  [[nodiscard]] std::uint16_t first_of(std::size_t rack_index) const noexcept {
    std::uint16_t sum = 0;
    for (std::size_t i = 0; i < rack_index; ++i) sum = static_cast<std::uint16_t>(sum + workers[i]);
    return sum;
  }
  // What the job has for ranks at this box: the workers of the rack; at the parent the racks.
  [[nodiscard]] std::uint16_t ranks_here() const noexcept {
    return rack ? workers[*rack] : static_cast<std::uint16_t>(workers.size());
  }
  bool operator==(const RacksConfig&) const = default;
};

class NativeLife;
class SessionLife;

// Each dialect says of itself `kDialect`, the word of the configuration, `Life`, which lives its jobs (those of a
// home elsewhere are a GuestLife's), and
// `kSizeKey`, the key that says how much slot memory a job takes; a session `kSystem`, whose clients it serves.

struct NativeConfig : CommonConfig {
  static constexpr const char* kDialect = "native";
  static constexpr const char* kSizeKey = "window";
  using Life = NativeLife;

  std::string token_file{};      // absolute; empty: none. Membership has no use for it
  std::string token{};           // what it holds, 0..kMaxTokenBytes; empty admits whoever knows the name
  std::uint16_t elements = 352;  // most elements in a packet: a multiple of 16, 16..kMaxElements
  std::uint32_t window = 256;    // wish: a power of two, kMinWindow..kMaxWindow
  std::uint8_t priority = 100;   // most the job may send, 0..kMaxPriority
  TimeNs lease = 10 * kSecond;   // kMinLease..kMaxLease, whole milliseconds
  ResultsMode results = ResultsMode::kUnicast;
  Discipline discipline = Discipline::kPool;
  ServerKind server = ServerKind::kNone;  // kEmbedded or kExternal with disciplines that share slots
  std::uint8_t servers = 1;               // with kExternal: how many, 1..kMaxServers
  Decay decay = Decay::kSilence;          // discipline preemptive
  Quota quota{};
  std::optional<StragglerPolicy> stragglers{};  // discipline pool; empty: off
  std::optional<AdmitPolicy> admit{};           // without external servers; empty: off
  // Bad packets a second of each worker, kMinBadPacketRate..kMaxPacketRate; empty: as many as come.
  std::optional<std::uint32_t> bad_packet_rate = 10'000;
  std::optional<BoxesConfig> boxes{};  // empty: this box alone
  std::optional<RacksConfig> racks{};  // empty: one level. `workers` is ranks_here()
  Chunk first_chunk{};                 // of every new generation; tests start near the wrap

  // N as JOINED tells it: of all racks.
  [[nodiscard]] std::uint16_t world() const noexcept { return racks ? racks->world() : workers; }
  // The box of a rack, which joins a parent.
  [[nodiscard]] bool has_parent() const noexcept { return racks && racks->rack; }
  // The parent's: what its ranks are.
  [[nodiscard]] bool ranks_are_racks() const noexcept { return racks && !racks->rack; }

  // Most packets that a worker has on their way.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return window; }
  [[nodiscard]] std::uint8_t external_servers() const noexcept {
    return server == ServerKind::kExternal ? servers : std::uint8_t{0};
  }
  bool operator==(const NativeConfig&) const = default;
};

// What of `wanted` a job that is `is` takes while somebody is in it: window of a pool, priority, lease, admit,
// quotas of rate, and, with the same discipline, quota and stragglers.
[[nodiscard]] NativeConfig taken_at_once(NativeConfig is, const NativeConfig& wanted);

// A session: a job of the dialect switchml (docs/switchml.md).

// By MAC, ipv4 and port together a packet is known to be this member's: nothing on the wire names the
// session.
struct ConfiguredMember {
  std::uint16_t rank = 0;  // 0..N-1
  Mac mac{};               // unicast, not the box's
  Ipv4 ipv4{};
  std::uint16_t port = switchml::kBasePort;  // UDP, where its packets go to
  bool operator==(const ConfiguredMember&) const = default;
};

struct SessionConfig : CommonConfig {
  static constexpr const char* kDialect = "switchml";
  static constexpr const char* kSystem = "SwitchML";
  static constexpr const char* kSizeKey = "slots";
  using Life = SessionLife;

  std::uint32_t payload = switchml::kMaxPayload;  // bytes of values in each packet, valid_payload()
  std::uint32_t slots = 2048;                     // 1..switchml::kMaxSlots
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::uint32_t run = 0;                    // of its clients: membership has no use for it, a reload does
  std::vector<ConfiguredMember> members{};  // 1..kMaxRanks, with kOpaque kMaxOpaqueMembers; each rank once

  [[nodiscard]] std::uint32_t in_flight() const noexcept { return slots; }
  bool operator==(const SessionConfig&) const = default;
};

// What one of so many data cores that do the job's work may take. A job must be able to begin, and to send
// again, all that it may have on its way: that much it may send at once.
[[nodiscard]] jobs::RateLimits rate_limits(const NativeConfig& job, std::uint8_t cores) noexcept;
[[nodiscard]] jobs::RateLimits rate_limits(const SessionConfig& session) noexcept;  // one core does its work

// By dialect.
using JobConfig = std::variant<NativeConfig, SessionConfig>;

template <class Job>  // JobConfig, const or not
auto& common_of(Job& job) noexcept {
  using Common = std::conditional_t<std::is_const_v<Job>, const CommonConfig, CommonConfig>;
  return jobs::with_dialect(job, [](auto& any) -> Common& { return any; });
}

// "rank 0 has the addresses of rank 1 of job 'other'", if the box could not tell them apart; else empty.
[[nodiscard]] std::string clash_text(const SessionConfig& session, const SessionConfig& other);
[[nodiscard]] inline std::string clash_text(const NativeConfig& /*job*/, const NativeConfig& /*other*/) {
  return {};  // their packets have the job's id
}

// Lines of slot memory, of which the same lie on every core.
[[nodiscard]] inline std::uint32_t lines_of(const SessionConfig& session) noexcept {
  return jobs::session_lines(session.slots, static_cast<std::uint32_t>(session.members.size()),
                             session.payload);
}

struct MembershipOptions {
  Mac box_mac{};                 // what JOINED tells the workers; not a multicast address
  std::uint8_t shards = 1;       // data cores, 1..kMaxShards
  std::uint32_t slot_lines = 0;  // slot memory of each core in lines of 64 bytes, the shared region included
  std::uint32_t shared_entries = 0;   // of the shared region, on each core; 0: none; kMaxSharedSlots on all
  std::uint16_t shared_elements = 0;  // values that such an entry holds, a multiple of 16
  PlanSource plans = even_plan;       // of the jobs over several boxes whose home this box is
  // Another box may become the home of such a job: where there is no room for it its members wait for that, and are not
  // refused.
  bool homes_move = false;
  // Nanoseconds since 1970 when the clock of all calls showed 0. By it the box of a rack that was restarted is newer to its
  // parent than it was before.
  std::uint64_t calendar = 0;
};

}  // namespace tally::members
