#include <algorithm>
#include <bit>

#include "pipeline/pipeline.h"
#include "pipeline/recognise.h"
#include "tally/mix64.h"

namespace tally::pipeline {
namespace {

// The row of who sends it, a member or one of the job's servers; nullptr: it is neither. What only a server
// sends, only a server may.
const jobs::Member* sender_of(const jobs::NativeJob& job, const Header& h, bool server_says) noexcept {
  const Rank rank = h.rank_id();
  if (!server_says) [[likely]]
    return raw(rank) < job.world ? &job.ranks[raw(rank)] : nullptr;
  const std::uint32_t server = server_index(rank);
  if (server >= job.servers || server != jobs::server_of(job, h.chunk_id())) return nullptr;
  return &job.server_ranks[server];
}

// Of a rank that may be a worker or a server; nullptr: it is neither, or not known here.
const jobs::Member* member_of(const jobs::NativeJob& job, Rank rank) noexcept {
  if (!jobs::knows(job, rank)) return nullptr;
  if (raw(rank) < job.world) return &job.ranks[raw(rank)];
  const std::uint32_t server = server_index(rank);
  return server < job.servers ? &job.server_ranks[server] : nullptr;
}

// Does the box know where a valid QUERY or ANSWER shall go? To a box of several some may not have enlisted yet.
bool can_relay(const jobs::NativeJob& job, const Header& h) noexcept {
  if (h.type == PacketType::kAnswer) return jobs::knows(job, Rank{static_cast<std::uint16_t>(h.slot.host())});
  const std::uint64_t peer = h.contributors.host();
  return h.type != PacketType::kQuery || peer == 0 || (job.enlisted & peer) != 0;
}

// The bit of one rack that is not this one.
bool is_other_rack(const jobs::NativeJob& job, std::uint64_t bits) noexcept {
  return std::has_single_bit(bits) && (bits & job.parent.members) != 0 && bits != 1ULL << job.parent.rack;
}

// May a worker's ANSWER be for this rank? One that a server asked for goes there.
bool may_ask(const jobs::NativeJob& job, std::uint32_t asker, Rank peer) noexcept {
  if (job.racked != 0 && asker >= kRackRankBase) {
    const std::uint32_t rack = asker - kRackRankBase;
    return rack < job.parent.racks && rack != job.parent.rack;
  }
  if (asker < job.world) return asker != raw(peer);
  return asker <= 0xFFFF && server_index(Rank{static_cast<std::uint16_t>(asker)}) < job.servers;
}

// An ANSWER speaks of everybody; under INCOMPLETE of some (their number is not judged: the job may have asked
// for fewer when the result was made), or of nobody: the sender had the result and has forgotten it.
bool answer_valid(const Header& h, const jobs::NativeJob& job, Drop& why) noexcept {
  const std::uint64_t contributors = h.contributors.host();
  why = Drop::kContributors;
  if ((h.flags & kFlagIncomplete) == 0) return contributors == job.members;
  if (job.stragglers.timeout == 0) {
    why = Drop::kFlags;
    return false;
  }
  if (contributors == 0) return h.elements.host() == 0;
  return (contributors & ~job.members) == 0 && contributors != job.members;
}

// Who may a packet of this type speak of? CONTRIBUTE: itself. QUERY: nobody, or one other member.
bool contributors_valid(const Header& h, const jobs::NativeJob& job, Rank sender, Drop& why) noexcept {
  const std::uint64_t contributors = h.contributors.host();
  switch (h.type) {
    case PacketType::kContribute:
      why = Drop::kContributors;
      return contributors == bit_of(sender);
    case PacketType::kZeroRun:  // chunks, of which it is the first itself
      why = Drop::kRun;
      return (contributors & 1) != 0;
    case PacketType::kQuery:
      why = Drop::kPeer;
      if (job.racked != 0 && (h.flags & kFlagDirect) != 0 && contributors != 0)
        return is_other_rack(job, contributors);
      return contributors == 0 || (std::has_single_bit(contributors) && (contributors & job.members) != 0 &&
                                   contributors != bit_of(sender));
    case PacketType::kResult:  // of a server: to them
    case PacketType::kResend:
      why = Drop::kContributors;
      return contributors != 0 && (contributors & ~job.members) == 0;
    case PacketType::kFlush:
      why = Drop::kContributors;
      return contributors == 0;
    case PacketType::kAnswer:
      return answer_valid(h, job, why);
    case PacketType::kPartial:
    case PacketType::kReject:
    case PacketType::kJoin:
    case PacketType::kJoined:
    case PacketType::kLeave:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kProbe:
    case PacketType::kNack:
    case PacketType::kChallenge:
    case PacketType::kPlan:
    case PacketType::kLost:
    case PacketType::kEnlist:
      break;  // no data packets from outside: the gate let none of them in
  }
  why = Drop::kType;
  return false;
}

}  // namespace

const jobs::NativeJob* job_of_member(const Header& h, const jobs::Binding& source,
                                     const jobs::JobTable* table) noexcept {
  const jobs::NativeJob* const job = table != nullptr ? table->find(h.job_id()) : nullptr;
  if (job == nullptr || h.epoch_id() != job->epoch) return nullptr;
  const jobs::Member* const member = member_of(*job, h.rank_id());
  const bool known = member != nullptr && h.cookie.host() == raw(member->cookie) && source == member->binding;
  return known ? job : nullptr;
}

void match_job(Parsed& parsed, const Header& h, const jobs::Binding& source, const jobs::JobTable* table,
               const jobs::SharedRegion& shared, std::uint8_t core, bool vouched) noexcept {
  const jobs::NativeJob* const job = table != nullptr ? table->find(h.job_id()) : nullptr;
  // The commonest packet is asked for first, once; what else there is does not cost it anything.
  const bool contributes = h.type == PacketType::kContribute;
  const bool server_says = !contributes && is_from_server(h.type);
  if (server_says && (job == nullptr || job->servers == 0)) return parsed.refuse(Drop::kType);
  parsed.reject = job == nullptr || h.epoch_id() != job->epoch;
  if (job == nullptr) return parsed.refuse(Drop::kJob);
  parsed.job = job;
  if (parsed.reject) return parsed.refuse(Drop::kEpoch);
  const Rank rank = h.rank_id();
  const jobs::Member* const member = sender_of(*job, h, server_says);
  if (member == nullptr || (job->planned && !jobs::knows(*job, rank))) return parsed.refuse(Drop::kRank);
  if (h.cookie.host() != raw(member->cookie)) return parsed.refuse(Drop::kCookie);
  if (source != member->binding) return parsed.refuse(Drop::kSource);
  const std::uint64_t sender = server_says ? 0 : bit_of(rank);  // from here on it is known who is to blame
  Drop why{};
  if ((h.flags & kFlagSparse) != 0 && !job->sparse) return parsed.refuse(Drop::kFlags, sender);
  if (!contributors_valid(h, *job, rank, why)) return parsed.refuse(why, sender);
  const bool valueless = server_says && h.type != PacketType::kResult;
  const std::uint32_t most = valueless ? 0 : values_per_word(h.dtype) * job->elements;
  if (h.elements.host() > most) return parsed.refuse(Drop::kElements, sender);

  Contribution& p = parsed.contribution;
  p.chunk = h.chunk_id();
  locate(p, *job, shared);
  const bool runs = h.type == PacketType::kZeroRun;
  if (runs && !job->sparse) return parsed.refuse(Drop::kType, sender);
  if (contributes || runs) [[likely]] {
    take_sequence(p, h, *job);
  } else if (h.type == PacketType::kAnswer) {
    if (!may_ask(*job, h.slot.host(), rank)) return parsed.refuse(Drop::kAsker, sender);
  } else if (h.slot.host() != raw(p.slot)) {
    return parsed.refuse(Drop::kSlot, sender);
  }
  if (job->planned && !contributes && !can_relay(*job, h)) return parsed.refuse(Drop::kRank, sender);
  take_fields(p, h, parsed.payload, *job, server_says ? h.contributors.host() : bit_of(rank), member->key,
              vouched, Form::kWords);
  p.form = form_of(p.sum);
  // There is nothing that a port could vouch for, and it costs nothing.
  if (p.form == Form::kZero) p.verify = true;
  // Who sends no values sends no rows. Elsewhere the mark would be taken for the flag.
  if (p.form == Form::kZero && contributes && job->sparse)
    p.sum.marks &= static_cast<std::uint8_t>(~jobs::kMarkDense);
  if ((h.flags & kFlagSparse) != 0) {
    p.form = Form::kRows;
    p.packed = parsed.payload_bytes - static_cast<std::uint32_t>(kHeaderBytes);
  }

  // What touches neither entry nor state any core may serve.
  const bool answers = h.type == PacketType::kAnswer && job->server != ServerKind::kEmbedded;
  const bool anywhere =
      !contributes && (answers || h.type == PacketType::kResult || h.type == PacketType::kResend);
  parsed.owner = owner_of(p.slot, *job);
  parsed.kind = parsed.owner == core || anywhere ? Kind::kNative : Kind::kElsewhere;
}

const jobs::NativeJob* job_of_parent(const Header& h, const jobs::Binding& source,
                                     const jobs::JobTable& table) noexcept {
  const jobs::NativeJob* const job = table.find_at_parent(source, h.job_id());
  const bool known =
      job != nullptr && h.epoch_id() == job->epoch && h.cookie.host() == raw(job->parent.result_cookie);
  return known ? job : nullptr;
}

// A RESULT is of all racks, for ours; a QUERY of one of the others, for a rank of ours.
void match_above(Parsed& parsed, const Header& h, const jobs::NativeJob& job, std::uint8_t core,
                 bool vouched) noexcept {
  const jobs::Parent& parent = job.parent;
  const bool result = h.type == PacketType::kResult;
  parsed.job = &job;
  if (h.epoch_id() != job.epoch) return parsed.refuse(Drop::kEpoch);
  const std::uint32_t rank = raw(h.rank_id());
  if (result ? h.rank_id() != kSwitchRank : rank >= parent.racks || rank == parent.rack)
    return parsed.refuse(Drop::kRank);
  if (h.cookie.host() != raw(parent.result_cookie)) return parsed.refuse(Drop::kCookie);
  if (result && h.contributors.host() != parent.members) return parsed.refuse(Drop::kContributors);
  if (!result && h.contributors.host() != 1ULL << parent.rack) return parsed.refuse(Drop::kPeer);
  if (h.elements.host() > values_per_word(h.dtype) * job.elements) return parsed.refuse(Drop::kElements);
  if (!result && h.slot.host() != raw(jobs::slot_at(parent, h.chunk_id()))) return parsed.refuse(Drop::kSlot);

  Contribution& p = parsed.contribution;
  p.chunk = h.chunk_id();
  p.slot = Pool::slot_of(p.chunk, job);
  p.line = Pool::line_of(p.chunk, job);
  p.number = raw(job.id) * kMaxRanks;
  p.missing = 0;
  take_fields(p, h, parsed.payload, job, 0, 0, vouched, Form::kWords);
  p.form = form_of(p.sum);
  parsed.owner = owner_of(p.slot, job);
  parsed.kind = parsed.owner == core || !result ? Kind::kAbove : Kind::kElsewhere;
}

}  // namespace tally::pipeline
