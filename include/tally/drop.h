#pragma once
// Every way to drop a packet has a name, and each drop changes exactly one counter: the one of its reason.
// To add a reason: a line in the enumeration, one in kDropNames, one in docs/protocol_box.md's table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tally {

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
  kMismatch,
  kDuplicate,
  kBadSum,
  kRoom,
  kAsker,
  // dialect switchml
  kMember,
  kForeign,
  kCount,
};

inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::kCount);

inline constexpr std::array<std::string_view, kDropCount> kDropNames{
    "segments",   // the frame spans several buffers: larger than the port's data room
    "runt",       // shorter than the headers it announces
    "ip_header",  // IP version, header length (no options) or source address is not what the protocol allows
    "fragment",   // IPv4 fragment
    "length",     // IP, UDP and payload lengths disagree
    "version",    // protocol version is not 1
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
    "peer",          // QUERY that names no single other member
    "sum",           // sum1 or sum2 do not match the payload: corrupted on the way
    "stale",         // older than what the entry or the window holds
    "ahead",         // further ahead than any worker's window reaches
    "direct",        // DIRECT, but the job has no server
    "mismatch",      // same chunk, other size or type: the ranks issued different operations
    "duplicate",     // contribution already in a filling entry
    "bad_sum",       // the finished sum failed its check: the entry was freed, workers send again
    "room",          // the packet's buffer cannot hold the stored result
    "asker",         // ANSWER for a rank that is no other member
    "member",        // switchml: no session has a member with this MAC, IPv4 address and UDP destination port
    "foreign",       // switchml: the entry still fills with another chunk
};

constexpr std::string_view name_of(Drop d) noexcept { return kDropNames[static_cast<std::size_t>(d)]; }

}  // namespace tally
