// Receiving half of the worker engine. A datagram is believed only as far as its secrets reach: a REJECT
// makes the worker join again and nothing more, a JOINED must echo the newest nonce, everything else must
// carry the current epoch and the result cookie.
#include <string>
#include <utility>

#include "worker_engine.h"
#include "worker_join.h"

namespace tally {

void WorkerEngine::receive(std::span<const std::byte> bytes, TimeNs now) noexcept {
  Datagram datagram;
  auto refused = open_datagram(bytes, kernels_, datagram);
  if (!refused) refused = dispatch(datagram, now);
  if (refused) ++statistics_.refused[static_cast<std::size_t>(*refused)];
  settle(now);
}

std::optional<Refused> WorkerEngine::dispatch(const Datagram& datagram, TimeNs now) {
  const Header& header = datagram.header;
  switch (header.type) {
    case PacketType::kJoined:
      return on_joined(datagram, now);
    case PacketType::kReject:
      return on_reject(header, now);
    case PacketType::kAbort:
      return on_abort(datagram);
    default:
      break;
  }
  if (state_ == EngineState::kClosed) return Refused::kState;
  switch (header.type) {
    case PacketType::kResult:
      if (const auto wrong = check_from_box(header)) return wrong;
      return stream_.on_result(datagram, now);
    case PacketType::kQuery:
      return on_query(header);
    case PacketType::kResend:
      return on_resend(header);
    default:
      return on_echo(header, now);  // HEARTBEAT, LEAVE: the gate lets nothing else through
  }
}

std::optional<Refused> WorkerEngine::check_current(const Header& header) const noexcept {
  if (!membership_) return Refused::kState;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  if (Cookie{header.cookie.host()} != membership_->result_cookie) return Refused::kCookie;
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::check_from_box(const Header& header) const noexcept {
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  return check_current(header);
}

std::optional<Refused> WorkerEngine::on_joined(const Datagram& datagram, TimeNs now) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (datagram.header.rank_id() != kSwitchRank) return Refused::kRank;
  if (state_ != EngineState::kJoining || nonce_ == 0) return Refused::kState;
  if (joined.fixed.nonce.host() != nonce_) return Refused::kNonce;
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      return on_running(datagram.header, joined.fixed, now);
    case JoinStatus::kForming:
      unjoined_ = joined.fixed.missing.host();
      heard_ = now;
      return std::nullopt;
    case JoinStatus::kRefused:
      if (leaving_ >= Leaving::kBarrier) {  // every result is held: the others were faster, nothing failed
        close({ErrorCode::kClosed, "left the job; the box said: " + printable(joined.text), options_.job});
        return std::nullopt;
      }
      close({ErrorCode::kRefused, "the box refused the join: " + printable(joined.text), options_.job});
      return std::nullopt;
  }
  return Refused::kJoined;
}

std::optional<Refused> WorkerEngine::on_running(const Header& header, const JoinedPayload& joined,
                                                TimeNs now) {
  const auto membership = to_membership(header, joined, options_);
  if (!membership) return Refused::kJoined;
  if (membership->world != options_.world) {
    close({ErrorCode::kRefused,
           "the box runs the job with " + std::to_string(membership->world) +
               " workers, this program expects " + std::to_string(options_.world),
           options_.job});
    return std::nullopt;
  }
  if (membership->generation == forsaken_) {
    unended_ = *membership;
    return std::nullopt;
  }
  enter(*membership, joined.record, now);
  return std::nullopt;
}

// What control adopts is the same generation under a new epoch; anything else is a new one, in which former
// results and numbers mean nothing.
void WorkerEngine::enter(const Membership& membership, const GenerationRecord& record, TimeNs now) {
  if (record != record_ && record_ != GenerationRecord{} && leaving_ != Leaving::kNo) {
    // It takes no part in the new generation, whose members must hear so: an ABORT under the new secrets.
    membership_ = membership;
    const auto code = leaving_ >= Leaving::kBarrier ? ErrorCode::kClosed : ErrorCode::kAborted;
    return fail_job({code, "left while the job began a new generation", options_.job}, nullptr, now);
  }
  if (record != record_) {
    if (record_ != GenerationRecord{})
      stream_.fail_all(
          {ErrorCode::kAborted, "the job began a new generation: some rank joined anew", options_.job});
    if (!stream_.start(membership))
      return close({ErrorCode::kSystem,
                    "no memory for the history of results: lower window or elements of the job",
                    options_.job});
  }
  // The same epoch again (a REJECT that was none of the box's): timers and window go on where they were.
  if (!membership_ || record != record_ || membership.epoch != membership_->epoch) {
    stream_.enter_epoch(membership);
    ++statistics_.epochs;
    live_ = 0;  // who had left an earlier epoch says nothing of this one
  }
  membership_ = membership;
  record_ = record;
  state_ = EngineState::kRunning;
  unjoined_ = 0;
  join_.stop();
  heard_ = now;
  heartbeat_due_ = now + membership.heartbeat_period();
}

std::optional<Refused> WorkerEngine::on_reject(const Header& header, TimeNs now) {
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (state_ == EngineState::kClosed || !membership_) return Refused::kState;
  switch (RejectReason{header.slot.host()}) {
    case RejectReason::kWaiting:
      if (const auto wrong = check_current(header)) return wrong;
      return stream_.on_waiting(header);
    case RejectReason::kEpoch:
    case RejectReason::kJob:
      break;
    default:
      return Refused::kReason;
  }
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  ++statistics_.rejects;
  // Once LEAVE was said nothing is owed to anybody, and the job may be gone: LEAVE's own tries bound the
  // rest.
  const bool said_leave = leaving_ == Leaving::kSaying && leave_.tries() != 0;
  if (state_ == EngineState::kRunning && !said_leave) start_joining(now);
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::on_query(const Header& header) {
  if (const auto wrong = check_current(header)) return wrong;
  return stream_.on_query(header);
}

// The box passes it on in the server's name, under its own cookie.
std::optional<Refused> WorkerEngine::on_resend(const Header& header) {
  if (server_index(header.rank_id()) >= kMaxServers) return Refused::kRank;
  if (const auto wrong = check_current(header)) return wrong;
  return stream_.on_resend(header);
}

std::optional<Refused> WorkerEngine::on_echo(const Header& header, TimeNs now) {
  if (const auto wrong = check_from_box(header)) return wrong;
  if (header.type == PacketType::kLeave) {
    if (leaving_ != Leaving::kSaying || leave_.tries() == 0) return Refused::kState;
    close({ErrorCode::kClosed, "left the job"});
    return std::nullopt;
  }
  heard_ = now;
  live_ = header.contributors.host();
  ++statistics_.heartbeat_echoes;
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::on_abort(const Datagram& datagram) {
  if (const auto wrong = check_from_box(datagram.header)) return wrong;
  if (state_ == EngineState::kClosed) {  // the answer to our own
    if (abort_.due() == kNever) return Refused::kState;
    abort_.stop();
    return std::nullopt;
  }
  const std::string text = printable(datagram.payload);
  close({ErrorCode::kAborted, text.empty() ? "the box aborted the job and gave no reason" : text,
         options_.job});
  return std::nullopt;
}

}  // namespace tally
