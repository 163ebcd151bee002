#pragma once
// Counters of one data core for one job. Written by that core only, read by control; row 0 of a core counts
// the packets that matched no job, so every packet changes exactly one of `verdicts` and `drops`.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tally/one_writer.h"

namespace tally {

// Every way to drop a packet has a name, and each drop changes exactly one counter: the one of its reason.
// To add a reason: a line in the enumeration, one in kDropNames, one in docs/protocol_box.md's table.

enum class Drop : std::uint8_t {
  // frame
  kSegments,
  kRunt,
  kIpHeader,
  kFragment,
  kLength,
  // header
  kVersion,
  kCheck,
  kType,
  kFlags,
  kElements,
  kDtype,
  kRank,
  // match
  kJob,
  kEpoch,
  kCookie,
  kSource,
  kContributors,
  kSlot,
  kPeer,
  kSum,
  // order and state
  kStale,
  kAhead,
  kDirect,
  kSequence,
  kReplay,
  kMismatch,
  kDuplicate,
  kBadSum,
  kRoom,
  kAsker,
  // dialect switchml
  kMember,
  kForeign,
  // budgets of control packets
  kSourceBudget,
  kPortBudget,
  kMemberBudget,
  kCount,
};

inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::kCount);

inline constexpr std::array<std::string_view, kDropCount> kDropNames{
    "segments",   // the frame spans several buffers: larger than the port's data room
    "runt",       // shorter than the headers it announces
    "ip_header",  // IP version, header length (no options) or source address is not what the protocol allows
    "fragment",   // IPv4 fragment
    "length",     // IP, UDP and payload lengths disagree
    "version",    // protocol version is not 2
    "check",      // header CRC32C, or the payload CRC32C of a control type
    "type",       // unknown type, or one the box never takes from outside
    "flags",      // unknown flag, or one that this type may not carry
    "elements",   // not a multiple of 16, or more than the job's packets hold
    "dtype",      // unknown element type
    "rank",       // rank outside the job's world
    "job",        // no such job here (answered by REJECT)
    "epoch",      // the job lives in another epoch (answered by REJECT)
    "cookie",     // not the secret of (job, epoch, rank)
    "source",     // not the port, MAC, VLAN, IP and UDP port of the rank's JOIN
    "contributors",  // not exactly the sender's own bit (ANSWER: not all members)
    "slot",          // not the slot of the chunk
    "peer",          // QUERY that names several members, or no other one
    "sum",           // sum1 or sum2 do not match the payload: corrupted on the way
    "stale",         // older than what the entry or the window holds
    "ahead",         // further ahead than any worker's window reaches
    "direct",        // DIRECT, but the job has no server
    "sequence",      // CONTRIBUTE without a number: sequences begin at 1
    "replay",        // CONTRIBUTE whose sequence has come before
    "mismatch",      // same chunk, other size or type: the ranks issued different operations
    "duplicate",     // contribution already in a filling entry
    "bad_sum",       // the finished sum failed its check: the entry was freed, workers send again
    "room",          // the packet's buffer cannot hold the stored result
    "asker",         // ANSWER for a rank that is no other member
    "member",        // switchml: no session has a member with this MAC, IPv4 address and UDP destination port
    "foreign",       // switchml: the entry still fills with another chunk
    "source_budget",  // control packet of a stranger: more than its address may send, or its port has too
                      // many
    "port_budget",    // control packet of a stranger: more than all strangers of its port may send
    "member_budget",  // control packet of a member: more than its job may send
};

constexpr std::string_view name_of(Drop d) noexcept { return kDropNames[static_cast<std::size_t>(d)]; }

// What becomes of a packet. Drop reasons are above.

enum class Verdict : std::uint8_t {
  kDrop,      // named in Outcome::drop
  kAbsorb,    // added; nothing leaves
  kComplete,  // the packet became the RESULT for all members
  kRepeat,    // the packet became the stored RESULT for one rank
  kRelay,     // goes on to one rank (QUERY to the peer, ANSWER as RESULT to the asker)
  kHandOver,  // another data core owns the slot
  kPunt,      // control type: a copy goes to the control thread
  kForward,   // not ours: the L2 switch's business
  kBypass,    // went to the parameter server, which may have completed the chunk
  kEvict,     // took a shared entry from another chunk, which went to the server
  kTell,      // QUERY that names nobody: the asker is told who is in the chunk
  kCount,
};

inline constexpr std::size_t kVerdictCount = static_cast<std::size_t>(Verdict::kCount);
inline constexpr std::array<std::string_view, kVerdictCount> kVerdictNames{
    "drop", "absorb",  "complete", "repeat", "relay", "hand_over",
    "punt", "forward", "bypass",   "evict",  "tell"};

constexpr std::string_view name_of(Verdict v) noexcept { return kVerdictNames[static_cast<std::size_t>(v)]; }

// Lines of its own: what lies beside it may be another core's.
struct alignas(64) JobCounters {
  std::array<OneWriter<std::uint64_t>, kVerdictCount>
      verdicts{};  // [kDrop] stays 0: drops are counted by reason
  std::array<OneWriter<std::uint64_t>, kDropCount> drops{};

  bool operator==(const JobCounters&) const noexcept = default;
  [[nodiscard]] std::uint64_t of(Verdict v) const noexcept { return verdicts[static_cast<std::size_t>(v)]; }
  [[nodiscard]] std::uint64_t of(Drop d) const noexcept { return drops[static_cast<std::size_t>(d)]; }
  [[nodiscard]] std::uint64_t packets() const noexcept {
    std::uint64_t n = 0;
    for (const auto& v : verdicts) n += v;
    for (const auto& d : drops) n += d;
    return n;
  }
};
static_assert(sizeof(JobCounters) % 64 == 0 && static_cast<std::size_t>(Verdict::kComplete) < 8,
              "contributions and results are counted in one line");

}  // namespace tally
