#pragma once
// What the configuration says of one job, and what the box offers to all of them.

#include <cstdint>
#include <string>
#include <vector>

#include "jobs/session.h"
#include "tally/error.h"
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

// Shares of the shared slots in parts of a million, the same on every core, and the weight in dividing them.
struct Quota {
  std::uint32_t reserved_ppm = 0;     // guaranteed, 0..1,000,000
  std::uint32_t weight = 1;           // 1..1,000
  std::uint32_t cap_ppm = kWholePpm;  // never exceeded, reserved_ppm..1,000,000
  bool operator==(const Quota&) const = default;
};

// Results that need not wait for everybody (docs/protocol.md, 11.8).
struct StragglerPolicy {
  TimeNs timeout = 0;       // of a chunk, from its first contribution: kMinStraggler..kMaxStraggler; 0: off
  std::uint16_t least = 1;  // contributors, 1..workers
  bool operator==(const StragglerPolicy&) const = default;
};

struct JobConfig {
  std::string name{};            // 1..kMaxNameBytes, no control characters
  std::string token{};           // 0..kMaxTokenBytes; an empty token admits whoever knows the name
  std::uint16_t workers = 1;     // N, 1..kMaxRanks
  std::uint16_t elements = 352;  // most elements in a packet: a multiple of 16, 16..kMaxElements
  std::uint32_t window = 256;    // wish: a power of two, kMinWindow..kMaxWindow
  std::uint8_t priority = 254;   // most the job may send, 0..254
  TimeNs lease = 10 * kSecond;   // kMinLease..kMaxLease, whole milliseconds
  ResultsMode results = ResultsMode::kUnicast;
  Discipline discipline = Discipline::kPool;
  ServerKind server = ServerKind::kNone;  // kEmbedded or kExternal with disciplines that share slots
  std::uint8_t servers = 0;               // kExternal: how many, 1..kMaxServers; else 0
  Decay decay = Decay::kSilence;          // discipline preemptive
  Quota quota{};
  StragglerPolicy stragglers{};  // discipline pool
  Chunk first_chunk{};           // of every new generation; tests start near the wrap
};

struct MembershipOptions {
  Mac box_mac{};                 // what JOINED tells the workers; not a multicast address
  std::uint8_t shards = 1;       // data cores, 1..kMaxShards
  std::uint32_t slot_lines = 0;  // slot memory of each core in lines of 64 bytes, the shared region included
  std::uint32_t shared_entries = 0;   // of the shared region, on each core; 0: none; kMaxSharedSlots on all
  std::uint16_t shared_elements = 0;  // values that such an entry holds, a multiple of 16
};

// A rule between several keys that a configuration breaks although each value is in its range.
struct JobFault {
  // Those of the job that take part, as docs/configuration.md calls them; the first is the one to change.
  std::vector<std::string> keys{};
  std::string what{};
  std::string help{};
  std::string taken_by{};  // the key that has the first one's value already; mostly empty
};

// All such rules of one job, of values that are in their ranges. The configuration adds the places.
[[nodiscard]] std::vector<JobFault> faults_of(const JobConfig& config);
// What the job asks of the shared slots of the box.
[[nodiscard]] std::vector<JobFault> faults_of(const JobConfig& config, const MembershipOptions& options);

// What a job may be called.
[[nodiscard]] Result<void> validate_name(const std::string& name);
// The first rule broken, as a sentence for a person; `where` is the job's name or the option's.
[[nodiscard]] Result<void> validate(const JobConfig& config);
[[nodiscard]] Result<void> validate(const MembershipOptions& options);
// What the job asks of the box; both are valid by themselves.
[[nodiscard]] Result<void> validate(const JobConfig& config, const MembershipOptions& options);

// What the configuration says of one session: a job of the dialect switchml (docs/switchml.md).

// By MAC, ipv4 and port together a packet is known to be this member's: nothing on the wire names the
// session.
struct ConfiguredMember {
  std::uint16_t rank = 0;  // 0..N-1
  Mac mac{};               // unicast
  Ipv4 ipv4{};
  std::uint16_t port = switchml::kBasePort;  // UDP, where its packets go to
  bool operator==(const ConfiguredMember&) const = default;
};

struct SessionConfig {
  std::string name{};                             // 1..kMaxNameBytes, no control characters
  std::uint32_t payload = switchml::kMaxPayload;  // bytes of values in each packet, valid_payload()
  std::uint32_t slots = 2048;                     // 1..switchml::kMaxSlots
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::vector<ConfiguredMember> members{};  // 1..kMaxRanks, with kOpaque kMaxOpaqueMembers; each rank once
  bool operator==(const SessionConfig&) const = default;
};

[[nodiscard]] std::vector<JobFault> faults_of(const SessionConfig& config);
// The first rule broken, as a sentence for a person; `where` is the session's name.
[[nodiscard]] Result<void> validate(const SessionConfig& config);
[[nodiscard]] Result<void> validate(const SessionConfig& config, const MembershipOptions& options);

// Both are the same sender to the box. ConfiguredMember::rank does not count.
[[nodiscard]] bool same_sender(const ConfiguredMember& a, const ConfiguredMember& b) noexcept;

// Lines of slot memory, of which the same lie on every core.
[[nodiscard]] std::uint32_t lines_of(const SessionConfig& config) noexcept;

}  // namespace tally::members
