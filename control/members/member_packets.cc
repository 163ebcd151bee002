#include "members/member_packets.h"

#include <algorithm>
#include <string>

#include "members/ending.h"
#include "members/texts.h"

namespace tally::members {
namespace {

bool knows_secret(const Term& term, const Header& h) noexcept {
  return raw(h.epoch_id()) != 0 && h.epoch_id() == term.epoch &&
         Cookie{h.cookie.host()} == term.contribution.at(place_of(h.rank_id()));
}

std::string abort_text(Rank rank, std::span<const std::byte> payload) {
  const std::string_view said(reinterpret_cast<const char*>(payload.data()), payload.size());
  return rank_text(rank) + ": " + (said.empty() ? "gave no reason" : cleaned(said));
}

// A member of the term that ended last, which has not heard of its end.
bool answer_gone(JobMembership& job, BoxState& box, const Header& h, const jobs::Binding& source) {
  const GoneTerm& gone = job.gone;
  if (!knows_secret(gone.term, h) || gone.bindings.at(place_of(h.rank_id())) != source) return false;
  if (gone.aborted) {
    box.count(MembershipDrop::kAborted);
    box.outbox.send_abort(job.id, gone.term, gone.text, source);
    return true;
  }
  if (h.type != PacketType::kLeave) return false;
  box.accept(PacketType::kLeave);
  box.outbox.send_echo(h, gone.term, 0, source);
  return true;
}

void leave(JobMembership& job, BoxState& box, const Header& h) {
  MemberState& m = job.member(h.rank_id());
  m.left = true;
  job.phase.transition(JobPhase::kDraining);
  box.outbox.send_echo(h, job.term, job.present(), m.binding);
  if (job.left() == job.everyone()) end_job(job, box);
}

void heartbeat(JobMembership& job, BoxState& box, const Header& h, TimeNs now) {
  box.outbox.send_echo(h, job.term, job.present(), job.member(h.rank_id()).binding);
  if (!is_server(h.rank_id())) note_progress(job, box, h.rank_id(), h.chunk_id(), now);
}

}  // namespace

void reject(BoxState& box, const Header& received, const jobs::Binding& source, TimeNs now,
            MembershipDrop why) {
  box.count(why);
  if (!box.refusals.take(source.address, now)) return;
  const bool job = why == MembershipDrop::kJob;
  box.outbox.send_reject(received, job ? RejectReason::kJob : RejectReason::kEpoch, source);
}

void handle_member_packet(JobMembership& job, BoxState& box, const ControlPacket& packet,
                          const jobs::Binding& source, TimeNs now) {
  const Header& h = packet.header;
  if (!job.has_rank(h.rank_id())) return box.count(MembershipDrop::kRank);
  // A server ends with the epoch, by ABORT, or by its silence.
  if (is_server(h.rank_id()) && h.type == PacketType::kLeave) return box.count(MembershipDrop::kType);
  if (h.epoch_id() != job.term.epoch || job.term.epoch == Epoch{}) {
    if (!answer_gone(job, box, h, source)) reject(box, h, source, now, MembershipDrop::kEpoch);
    return;
  }
  MemberState& m = job.member(h.rank_id());
  if (!knows_secret(job.term, h)) {
    box.count(MembershipDrop::kCookie);
  } else if (m.binding != source) {
    box.count(MembershipDrop::kSource);
  } else if (h.type == PacketType::kAbort) {
    // Also while the members are called back: the old epoch is the only one they know.
    // Its sender gets the ABORT too: it repeats its own until it does.
    box.accept(h.type);
    m.confirmed = true;
    abort_job(job, box, abort_text(h.rank_id(), packet.payload));
  } else if (h.type == PacketType::kLeave && job.reforming()) {
    // It holds the result of the last barrier, so every rank is leaving and lacks at most that one.
    box.accept(h.type);
    m.left = true;
    box.outbox.send_echo(h, job.term, job.present(), m.binding);
    end_job(job, box);
  } else if (!job.active()) {
    reject(box, h, source, now, MembershipDrop::kEpoch);
  } else {
    box.accept(h.type);
    m.confirmed = true;
    m.heard(now);
    h.type == PacketType::kLeave ? leave(job, box, h) : heartbeat(job, box, h, now);
  }
}

}  // namespace tally::members
