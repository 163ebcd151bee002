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
// To add a reason: a line in the enumeration, one in kDropReasons, one in docs/protocol_box.md's table.

// As people are told of it: by tallyctl, and in docs/drops.md, which is made of these.
struct DropReason {
  std::string_view name;
  std::string_view sentence;  // what it was
  std::string_view advice;    // what to do about it, or that nothing is to be done
};

template <std::size_t N>
constexpr std::array<std::string_view, N> names_of(const std::array<DropReason, N>& reasons) noexcept {
  std::array<std::string_view, N> names{};
  for (std::size_t i = 0; i < N; ++i) names[i] = reasons[i].name;
  return names;
}

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
  kRows,
  kRank,
  // match
  kJob,
  kEpoch,
  kCookie,
  kSource,
  kContributors,
  kSlot,
  kPeer,
  kRun,
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
  // quotas of rate of a job
  kPacketRate,
  kBadPacketRate,
  kCount,
};

inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::kCount);

inline constexpr std::array<DropReason, kDropCount> kDropReasons{{
    {"segments", "The frame is larger than one packet buffer of its port.",
     "Lower the sender's MTU, or raise the port's mtu (a memif port: also its bsize)."},
    {"runt", "The packet is shorter than the headers it announces.",
     "Look at its sender with the dissector of docs/wireshark.md: its lengths are wrong, or a device cuts "
     "packets."},
    {"ip_header", "The IP version, header length or source address is none that the protocol allows.",
     "Send without IP options; a dual-stack socket must not send from an IPv4-mapped IPv6 address."},
    {"fragment", "The packet is a fragment of an IP packet.",
     "Lower elements of the job, or raise the MTU of the path: packets must fit it whole."},
    {"length", "The lengths of IP, UDP and payload disagree.",
     "Look at its sender with the dissector of docs/wireshark.md: it counts elements or trailing bytes "
     "wrongly."},
    {"version", "The packet is of another version of the protocol.",
     "Update the worker's libtally, or tallyd: both must speak one version."},
    {"check", "The checksum of the header, or of a control packet's payload, is wrong.",
     "A few are damage on the way: look at cables and NICs. Many from one sender: its client computes it "
     "wrongly."},
    {"type", "The packet is of a type that is unknown, or that the box never takes from outside.",
     "Look for a client that sends what only a box or a server sends, or for servers of a job that has "
     "none."},
    {"flags", "The packet has a flag that is unknown or that its type may not carry.",
     "Update the worker's libtally, or look at the client that sends it."},
    {"elements", "The packet has more elements than the job's packets hold, or no multiple of 16.",
     "The job's elements and what its workers send differ: look at the client."},
    {"dtype", "The packet has an element type that this box does not know.",
     "Update tallyd, or use float32 or int32."},
    {"rows", "The rows of a sparse packet are not as many as its bitmap says, or no fewer than all.",
     "Look at the client that sends it: it packs its rows wrongly."},
    {"rank", "The packet comes from a rank that the job does not have.",
     "Compare the workers' world and ranks with workers of the job."},
    {"job", "No job of this number runs here; the sender is told.",
     "Normal for a moment after a job ended or the box was restarted. If it goes on, a worker outlived its "
     "job: stop it."},
    {"epoch", "The job lives in another epoch by now; the sender is told.",
     "Normal for a moment when a job forms anew or its window changes. If it goes on, a worker does not join "
     "again: look at it."},
    {"cookie", "The packet does not carry the secret of its rank.",
     "A client uses the wrong cookie, or somebody forges packets: look where they come from."},
    {"source", "The packet does not come from the port and addresses that its rank joined from.",
     "A worker has several sockets or interfaces, or NAT is in between: let it send from one address."},
    {"contributors", "The packet does not name exactly the members that it may.",
     "Look at the client that sends it."},
    {"slot", "The packet names another slot than its chunk has.",
     "A client uses the window or the salt of an old epoch: look at it."},
    {"peer", "A question to a peer names several members, or none but the asker.",
     "Look at the client that sends it."},
    {"run", "A zero run does not name its own chunk, or names one of another shard.",
     "Look at the client that sends it."},
    {"sum", "The sums of the packet do not match its values: it was changed on its way.",
     "The worker sends it again. If they are many, look at cables, NICs and memory between the sender and "
     "the box."},
    {"stale", "The packet is of a chunk that is over since long.",
     "Normal in small numbers after losses. If they are many, packets arrive very late: look for queues on "
     "the way."},
    {"ahead", "The packet is further ahead than the window of any worker reaches.",
     "Look at the client: its window does not begin at its first chunk without a result."},
    {"direct", "The packet is meant for the server, and its job has none.",
     "Write a discipline with a server for the job, or look at the client that sends it."},
    {"sequence", "The contribution has no number.",
     "Update the worker's libtally: its sequences begin at 1."},
    {"replay", "A contribution of this number has come before: it is a copy.",
     "The network copies packets: look for loops of cables, or for a mirror port. No sum is wrong by it."},
    {"mismatch", "Two ranks sent the same chunk with another size or element type; the job is aborted.",
     "The ranks issue different operations: compare their programs, in order, from the first operation on."},
    {"duplicate", "The contribution is in the sum already: its rank sent it again.",
     "Normal when another rank is late. 'tallyctl job show' names the late one."},
    {"bad_sum", "A finished sum failed its check; it was thrown away and its workers send again.",
     "Behind the port's checksum something damages packets: write checksum: software for the port, and look "
     "at its NIC and memory."},
    {"room", "The buffer of the packet cannot hold the result that is asked for.",
     "Nothing to do: the worker asks a peer instead. If they are many, raise mtu of the port."},
    {"asker", "An answer of a peer is for a rank that is no other member.",
     "Look at the client that sends it."},
    {"member", "No session has a member with these addresses.",
     "Compare mac, ipv4 and port of the session's members with what its clients send: docs/switchml.md."},
    {"foreign", "The slot of the session still fills with another chunk.",
     "Its clients were started anew, or use a slot too early: write another run for the session and reload."},
    {"source_budget", "A stranger sends more control packets than one address may.",
     "A worker that joins without pause, or an attack: the port's counters and a capture say which."},
    {"port_budget", "The strangers behind one port send more control packets than all of them may.",
     "Many workers that join at once, which heals itself, or an attack through this port."},
    {"member_budget", "The members of one job send more control packets than they may.",
     "Look at the client: it sends heartbeats without pause."},
    {"packet_rate", "The members of one job send more data packets than its packet_rate allows.",
     "Give the job a larger packet_rate, or look for a worker that sends again without end ('tallyctl job "
     "show': repeats)."},
    {"bad_packet_rate",
     "A worker sent more bad packets than bad_packet_rate allows: for a moment none of its "
     "packets is looked at.",
     "The job's other drops say what is wrong with them: sum is damage on the way, the rest a broken "
     "client."},
}};
inline constexpr std::array kDropNames = names_of(kDropReasons);

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
