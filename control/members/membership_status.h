#pragma once
// What membership takes and gives beside its calls: random words, datagrams, demand; what it shows to people:
// the state of each job, and why packets were not obeyed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "members/texts.h"
#include "tally/counters.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// Uniform 64-bit words: random::word in the daemon, a seeded generator in simulation. All secrets come from
// it.
using RandomWords = std::function<std::uint64_t()>;

// When a data core last took a valid packet of the rank; a native job's worker or a session's member. May go
// back.
using LastSeen = std::function<TimeNs(JobId, Rank)>;

// The largest datagram that next() writes (a PROBE echo; everything else is below 1,500 bytes).
inline constexpr std::size_t kMaxMembershipBytes = kMaxDatagramBytes;

// A datagram to send from the box's address and kBasePort to to.udp_port at to.address, through to.port,
// to.vlan and to.mac.
struct Outgoing {
  std::size_t bytes = 0;  // written at the start of the caller's buffer
  jobs::Binding to{};
  // Where it is has to be found out: a copy through every port to kBroadcastMac; of `to` address and udp_port are meant.
  bool everywhere = false;
};

// What a job that shares slots wants, in entries of the core where it wants most.
struct SharedDemand {
  JobId job{};
  std::uint32_t entries = 0;  // held now
  bool denied = false;        // it found none since the last time: it wants all it can get
};

enum class JobPhase : std::uint8_t {
  kDeclared,  // nobody has joined
  kForming,   // some ranks have joined, or an epoch is being renewed, or the cores do not know the row yet
  kRunning,   // the row is in force and every rank was told
  kDraining,  // some rank has left; the row stays for the others
  kEnded,     // all ranks have left
  kAborted,   // `reason` says why; forms again when workers come back
};

constexpr std::string_view name_of(JobPhase p) noexcept {
  constexpr std::array<std::string_view, 6> kNames{"declared", "forming", "running",
                                                   "draining", "ended",   "aborted"};
  return kNames[static_cast<std::size_t>(p)];
}

struct RankStatus {
  bool joined = false;         // has a place in the present forming or epoch
  bool left = false;           // its LEAVE was accepted, or its lease ended while the job was draining
  std::uint64_t instance = 0;  // of its newest accepted JOIN; 0 = never joined
  std::uint32_t attempt = 0;
  Chunk next{};  // next never-offered chunk as last reported (JOIN or HEARTBEAT)
  TimeNs last_seen = 0;
  jobs::Binding binding{};
  bool operator==(const RankStatus&) const noexcept = default;
};

// What a session needs before it can run; JobStatus::reason says it in words, with numbers that change.
enum class SessionLacks : std::uint8_t {
  kNothing,
  kTurn,  // a native job has its slot memory first
  kRoom,  // in slot memory
};

// Of a session: a job whose members are configured, of any dialect but the native one.
struct SessionStatus {
  std::uint32_t payload = 0;  // bytes of values in a packet
  std::uint32_t slots = 0;
  std::optional<jobs::TsiRule> tsi{};  // of the dialect switchml
  std::uint8_t home = 0;               // the data core that owns all of it
  Mac box_mac{};                       // where its clients send
  SessionLacks lacks = SessionLacks::kNothing;
  std::string_view system{};  // whose clients they are, for people
  bool operator==(const SessionStatus&) const noexcept = default;
};

// A box of a job over several, as this one knows it.
struct BoxStatus {
  Ipv6 address{};
  bool planned = false;   // of the plan in force, or about to be
  bool left_out = false;  // at the home: members lost it, and plans do without until the next replan()
  bool operator==(const BoxStatus&) const noexcept = default;
};

// Of a job over several boxes. At its home the ranks' places are in the job; elsewhere they say who is enlisted
// here.
struct BoxesStatus {
  BoxIndex here = 0;  // index in `boxes`
  BoxIndex home = 0;
  std::vector<BoxStatus> boxes{};
  PlanId plan{};                    // of the present epoch; zero: none
  std::uint32_t plan_bytes = 0;     // 0: none
  std::uint64_t missing_pages = 0;  // not at the home: what of it has not come yet
  bool stand_in = false;  // at the home: what the plan source gave did not fit, so all boxes are alike
  bool operator==(const BoxesStatus&) const noexcept = default;
};

// What the home of a job must carry of a generation that goes on; zero: of a new one, as small as it may be.
struct HomeNeeds {
  std::uint16_t elements = 0;        // of its packets
  std::uint32_t largest_window = 0;  // 0 or a power of two
  bool operator==(const HomeNeeds&) const noexcept = default;
};

// A job over several boxes as this box has it now; what is configured otherwise waits until nobody is in it.
struct BoxesJob {
  std::uint16_t workers = 0;
  std::uint8_t servers = 0;
  std::uint16_t token_check = 0;  // auth::token_check()
  BoxIndex home = 0;
  HomeNeeds needs{};      // at the home: of its generation, or of the one that it has no room for
  std::string no_room{};  // at the home: why all who came wait for another one; empty: they do not
  bool operator==(const BoxesJob&) const = default;
};

// What a fleet says of a job's home.
struct HomeNews {
  // At the home: until then no other box can be it. Afterwards who joins is sent to the others first.
  TimeNs sure_until = kNever;
  // Elsewhere: the home that was is gone, and no box can be it at present. Who joins waits.
  bool nobody = false;
  bool operator==(const HomeNews&) const noexcept = default;
};

// What the box of a rack is to the parent of its job.
enum class ParentState : std::uint8_t {
  kNotAsked,    // not all workers of the rack are there
  kJoining,     // it is asked, or is to show that it knows this box
  kRunning,     // this box is in its epoch
  kDoubted,     // it has not answered for half a lease, and is asked again; the workers go on
  kCalledBack,  // the workers are to come back, for another epoch
};

constexpr std::string_view name_of(ParentState s) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"not asked", "joining", "running", "in doubt",
                                                   "called back"};
  return kNames[static_cast<std::size_t>(s)];
}

// Of a job of racks. At the parent the job's ranks are racks.
struct RacksStatus {
  std::vector<std::uint8_t> workers{};  // of each rack
  std::optional<std::uint8_t>
      rack{};               // which is this box's; empty: it is the parent, and what follows says nothing
  std::uint16_t first = 0;  // number of its rank 0 in the job
  Ipv6 parent{};
  ParentState state = ParentState::kNotAsked;
  TimeNs heard = 0;  // when the parent last answered, or the waiting for it began; 0: it is not asked
  std::uint64_t missing_racks = 0;  // that the parent waits for
  std::string told{};               // what somebody in its place said, and could not prove
  bool operator==(const RacksStatus&) const noexcept = default;
};

struct JobStatus {
  JobId id{};
  std::string name{};
  std::string group_of{};  // the declared job that admitted it; empty: it is declared itself
  JobPhase phase = JobPhase::kDeclared;
  std::uint16_t world = 0;
  TimeNs lease = 0;            // 0: a session, whose members have none
  Epoch epoch{};               // 0 unless a row is in force or about to be
  Generation generation{};     // 0: none is alive
  std::uint16_t elements = 0;  // of the generation
  std::uint32_t window = 0;
  std::uint32_t largest_window = 0;
  std::uint32_t wanted_window = 0;  // as configured or last resized
  bool deferred = false;            // another configuration waits until nobody is in the job
  std::uint32_t limit = 0;          // of the window, while a job of higher priority has what it gave; 0: none
  std::string shrunk_for{};         // the name of that job
  jobs::LineRange slots{};          // count 0: none held
  Discipline discipline = Discipline::kPool;
  std::uint8_t priority = 0;                       // most that its packets may carry
  std::optional<std::uint32_t> packet_rate{};      // as configured: what the box takes in a second
  std::optional<std::uint32_t> bad_packet_rate{};  // ... of each worker
  std::uint32_t reserved = 0;         // shared slots of each core that are the job's when it wants them
  std::uint32_t cap = 0;              // ... and the most it may hold now; both 0 unless it is admitted
  std::uint64_t missing = 0;          // forming: workers awaited; 0 in every other phase
  std::uint32_t missing_servers = 0;  // ... and external servers, by index
  std::uint64_t live = 0;             // ranks that joined, have not left and whose lease runs; of a session
                                      // those that were heard since it runs
  std::string reason{};               // why the job last aborted, ended or was not admitted
  std::vector<RankStatus> ranks{};    // workers
  std::vector<RankStatus> servers{};  // external ones, by index; they never leave
  // Set: a session. Its members never join: of their status binding and last_seen are meant.
  std::optional<SessionStatus> session{};
  std::optional<BoxesStatus> boxes{};  // empty: this box alone
  std::optional<RacksStatus> racks{};  // empty: one level
  bool operator==(const JobStatus&) const = default;
};

// What people call the job's ranks.
[[nodiscard]] inline RankNames names_of(const JobStatus& job) noexcept {
  if (!job.racks) return {};
  return job.racks->rack ? RankNames{.first = job.racks->first} : RankNames{.word = "rack"};
}

// Why a packet was not obeyed. Each such packet changes exactly one of these counters and nothing else
// (refusals and REJECTs send one answer, within the rate limit).
enum class MembershipDrop : std::uint8_t {
  // any packet
  kRunt,
  kVersion,
  kCheck,
  kType,
  kFlags,
  kPayload,
  kLength,
  kRank,
  // JOIN
  kField,
  kChallenge,
  kUnknownJob,
  kGroups,
  kToken,
  kWorld,
  kHeld,
  kEnded,
  kOldAttempt,
  kAborted,
  kWait,
  // LEAVE, HEARTBEAT, ABORT
  kJob,
  kEpoch,
  kCookie,
  kSource,
  kTag,
  kReplay,
  // PLAN
  kPlan,
  // PROBE
  kRate,
  kCount,
};

inline constexpr std::size_t kMembershipDropCount = static_cast<std::size_t>(MembershipDrop::kCount);

inline constexpr std::array<DropReason, kMembershipDropCount> kMembershipDropReasons{{
    {"runt", "The control packet is shorter than a header.",
     "Look at its sender: it is no client of ours, or a device cuts packets."},
    {"version", "The control packet is of another version of the protocol.",
     "Update the worker's libtally, or tallyd: both must speak one version."},
    {"check", "The checksum of the header is wrong.",
     "Damage on the way, or a client that computes it wrongly."},
    {"type", "Membership does not take a packet of this type from this sender.",
     "Look at the client: a server for example has no LEAVE."},
    {"flags", "The packet has a flag that is unknown.",
     "Update the worker's libtally, or look at the client that sends it."},
    {"payload", "The checksum of the payload is wrong.",
     "Damage on the way, or a client that computes it wrongly."},
    {"length", "The payload is not as long as its type and its own lengths say.",
     "Look at the client that sends it."},
    {"rank", "The packet is of a rank that the job does not have.",
     "Compare the workers' world and ranks with workers of the job."},
    {"field", "A field of a JOIN is out of its range.",
     "Look at the client. A server: its path must be wide enough for the job's elements."},
    {"challenge", "A JOIN came without a fresh challenge, and was answered by one.",
     "Nothing to do: every join begins so."},
    {"unknown_job", "A worker wants to join a job that is not declared here.",
     "Compare TALLY_JOB of the worker with 'tallyctl job list', or add the job to the file and reload."},
    {"groups", "A worker wants a group of a job that has as many as it may have.",
     "Raise admit.groups of the job, or let a group end: it is forgotten when nobody was in it for "
     "admit.idle."},
    {"token", "A worker wants to join with the wrong token.",
     "Give the worker the token of the job's token_file."},
    {"world", "A worker expects another number of members than the job has.",
     "Make the worker's world and workers of the job the same."},
    {"held", "A worker wants a rank that a living process holds.",
     "Two workers have one rank, or the former is not dead yet: wait for its lease, or give each its own."},
    {"ended", "A worker still speaks of a generation that has ended.",
     "Nothing to do: it is told and joins anew."},
    {"old_attempt", "A JOIN is older than the newest of its process.",
     "Nothing to do: it was overtaken on its way."},
    {"aborted", "The packet is of an aborted generation, and was answered by its ABORT again.",
     "Normal after an abort. 'tallyctl job show' says why the job was aborted."},
    {"wait", "A worker asks for a place that is not free yet, and was told to wait.",
     "Normal while a job ends. If it goes on, its former members are still there."},
    {"job", "The packet is of a job that is not known here.",
     "Normal after the box was restarted: the worker is told and joins again."},
    {"epoch", "The packet is of an epoch that the job does not live in.",
     "Normal when a job forms anew: the worker is told and joins again."},
    {"cookie", "The packet does not carry the secret of its rank.",
     "A client uses the wrong cookie, or somebody forges packets: look where they come from."},
    {"source", "The packet does not come from where its rank joined.",
     "A worker has several sockets or interfaces, or NAT is in between: let it send from one address."},
    {"tag", "The packet was not made under the key of its session, or changed on its way.",
     "Somebody without the token forges packets, or damage on the way."},
    {"replay", "The packet was seen before: its counter is not greater than all before it.",
     "The network copies packets, or somebody plays recorded ones. Nothing follows from them."},
    {"plan", "A page of a plan came, or was asked for, that nobody here waits for, or knows.",
     "Normal when a job over several boxes gets another plan. If it goes on, look at the client."},
    {"rate", "A sender probes the box, or would have it make groups of jobs, more often than it may.",
     "100 probes and 10 groups in a second are taken of each host. Look at that sender; a worker asks "
     "again."},
}};
inline constexpr std::array kMembershipDropNames = names_of(kMembershipDropReasons);

constexpr std::string_view name_of(MembershipDrop d) noexcept {
  return kMembershipDropNames[static_cast<std::size_t>(d)];
}

struct MembershipCounters {
  std::array<std::uint64_t, kMembershipDropCount> drops{};
  std::array<std::uint64_t, 20> accepted{};  // by PacketType
  bool operator==(const MembershipCounters&) const noexcept = default;
  [[nodiscard]] std::uint64_t of(MembershipDrop d) const noexcept {
    return drops[static_cast<std::size_t>(d)];
  }
  [[nodiscard]] std::uint64_t of(PacketType t) const noexcept {
    return accepted[static_cast<std::size_t>(t)];
  }
};

}  // namespace tally::members
