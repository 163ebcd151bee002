#include "ps/server_member.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/worker_join.h"

namespace tally::ps {

constexpr std::uint32_t kFarewells = 5;  // ABORTs without an answer

ServerMember::ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels,
                           PsEventLog& events, PsJobStatistics& statistics)
    : job_(job),
      kernels_(kernels),
      events_(events),
      statistics_(statistics),
      random_(mix64(options.seed + job)) {
  const PsJobOptions& which = options.jobs[job];
  options_.job = which.job;
  options_.token = which.token;
  options_.rank = server_rank(which.index);
  options_.world = 0;  // the box tells it
  options_.elements = options.elements;
  options_.instance = options.instance;
  join_.start(0);
}

std::optional<Refused> ServerMember::receive(const engine::Datagram& datagram, TimeNs now, MemberNews& news) {
  const Header& header = datagram.header;
  news = MemberNews::kNone;
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  switch (header.type) {
    case PacketType::kJoined:
      return on_joined(datagram, now, news);
    case PacketType::kReject:
      return on_reject(header, now);
    case PacketType::kAbort:
      return on_abort(datagram, now, news);
    default:
      break;
  }
  if (const auto wrong = check_current(header)) return wrong;
  heard_ = now;
  ++statistics_.heartbeat_echoes;
  return std::nullopt;
}

std::optional<Refused> ServerMember::check_current(const Header& header) const noexcept {
  if (!membership_) return Refused::kState;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  if (Cookie{header.cookie.host()} != membership_->result_cookie) return Refused::kCookie;
  return std::nullopt;
}

std::optional<Refused> ServerMember::on_joined(const engine::Datagram& datagram, TimeNs now,
                                               MemberNews& news) {
  engine::Joined joined;
  if (const auto wrong = engine::read_joined(datagram.payload, joined)) return wrong;
  if (!joining_ || nonce_ == 0) return Refused::kState;
  if (joined.fixed.nonce.host() != nonce_) return Refused::kNonce;
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      return on_running(datagram.header, joined.fixed, now, news);
    case JoinStatus::kForming:
      missing_ = joined.fixed.missing.host();
      refusal_.clear();
      return std::nullopt;
    case JoinStatus::kRefused:
      on_refused(engine::printable(joined.text), now);
      return std::nullopt;
  }
  return Refused::kJoined;
}

// A server has no business with a job whose slots are its own.
std::optional<Refused> ServerMember::on_running(const Header& header, const JoinedPayload& joined, TimeNs now,
                                                MemberNews& news) {
  const auto membership = engine::read_membership(header, joined, options_.elements);
  if (!membership || !shares_slots(membership->discipline)) return Refused::kJoined;
  const bool same_generation = membership->generation == entered_;
  const bool same_epoch = same_generation && membership_ && membership_->epoch == membership->epoch;
  membership_ = *membership;
  record_ = joined.record;
  entered_ = membership->generation;
  joining_ = false;
  missing_ = 0;
  refusal_.clear();
  join_.stop();
  heard_ = now;
  heartbeat_due_ = now + membership->heartbeat_period();
  news = MemberNews::kSameEpoch;
  if (same_epoch) return std::nullopt;
  abort_.stop();
  abort_text_.clear();
  ++statistics_.epochs;
  if (!same_generation) ++statistics_.generations;
  news = MemberNews::kEpoch;
  report(PsEventKind::kRunning, "runs with " + std::to_string(membership->world) + " workers, " +
                                    std::to_string(membership->elements) + " elements, span " +
                                    std::to_string(2 * membership->largest_window));
  return std::nullopt;
}

// Not final: a server waits for its job to be declared, and for the one before it to lose its lease. It says
// nothing of what it was in, which may be what the box minds.
void ServerMember::on_refused(const std::string& text, TimeNs now) {
  ++statistics_.refusals;
  record_ = {};
  missing_ = 0;
  join_.put_off(now + engine::kLastRepeat);
  if (text == refusal_) return;
  refusal_ = text;
  report(PsEventKind::kRefused, "the box refuses it, asking again each second: " + text);
}

// Anybody may forge it, so it costs one JOIN; sums go on meanwhile.
std::optional<Refused> ServerMember::on_reject(const Header& header, TimeNs now) {
  if (!membership_) return Refused::kState;
  const RejectReason why{header.slot.host()};
  if (why != RejectReason::kEpoch && why != RejectReason::kJob) return Refused::kReason;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  ++statistics_.rejects;
  if (joining_) return std::nullopt;
  report(PsEventKind::kCalled, "the box calls its members together");
  start_joining(now);
  return std::nullopt;
}

std::optional<Refused> ServerMember::on_abort(const engine::Datagram& datagram, TimeNs now,
                                              MemberNews& news) {
  if (const auto wrong = check_current(datagram.header)) return wrong;
  ++statistics_.aborts;
  const std::string text = engine::printable(datagram.payload);
  report(PsEventKind::kAborted, text.empty() ? "was aborted" : "was aborted: " + text);
  membership_.reset();
  record_ = {};
  entered_ = {};
  abort_.stop();
  news = MemberNews::kEnded;
  start_joining(now);
  return std::nullopt;
}

void ServerMember::start_joining(TimeNs now) {
  joining_ = true;
  nonce_ = 0;
  missing_ = 0;
  join_.start(now);
}

void ServerMember::abort(std::string why, TimeNs now) {
  if (!abort_text_.empty()) return;
  abort_text_ = std::move(why);
  report(PsEventKind::kMismatch, "aborts it: " + abort_text_);
  abort_.start(now);
}

void ServerMember::time_out(TimeNs now) {
  if (abort_.tries() >= kFarewells && abort_.due() <= now) {
    abort_.stop();
    abort_text_.clear();  // nobody heard it: the next mismatch of the epoch is told again
  }
  if (joining_ || heard_ + membership_->lease > now) return;
  ++statistics_.silences;
  report(PsEventKind::kSilent,
         "the box has not answered for " + std::to_string(membership_->lease / kMillisecond) + " ms");
  start_joining(now);
}

TimeNs ServerMember::deadline() const noexcept {
  if (joining_) return join_.due();
  return std::min({heartbeat_due_, heard_ + membership_->lease, abort_.due()});
}

std::size_t ServerMember::transmit(std::span<std::byte> out, TimeNs now) {
  if (joining_) return join_.due() <= now ? write_join(out, now) : 0;
  if (abort_.due() <= now) return write_abort(out, now);
  if (heartbeat_due_ > now) return 0;
  heartbeat_due_ = now + membership_->heartbeat_period();
  ++statistics_.heartbeats;
  return engine::seal_control(own_header(PacketType::kHeartbeat), 0, out, kernels_);
}

Header ServerMember::own_header(PacketType type) const noexcept {
  Header header;
  header.type = type;
  header.job = Be<std::uint16_t>{raw(membership_->job)};
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  header.epoch = Be<std::uint32_t>{raw(membership_->epoch)};
  header.cookie = Be<std::uint64_t>{raw(membership_->cookie)};
  return header;
}

std::size_t ServerMember::write_abort(std::span<std::byte> out, TimeNs now) {
  abort_.said(now);
  const std::size_t bytes = std::min(abort_text_.size(), kMaxTextBytes);
  std::memcpy(out.data() + kHeaderBytes, abort_text_.data(), bytes);
  return engine::seal_control(own_header(PacketType::kAbort), bytes, out, kernels_);
}

std::size_t ServerMember::write_join(std::span<std::byte> out, TimeNs now) {
  join_.said(now);
  nonce_ = random_.next_nonzero();
  ++statistics_.joins;
  const engine::JoinFacts facts{nonce_, ++attempt_, {}, {}, record_};
  Header header;
  header.type = PacketType::kJoin;
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  const std::size_t payload = tally::engine::write_join(options_, facts, out.subspan(kHeaderBytes));
  return engine::seal_control(header, payload, out, kernels_);
}

}  // namespace tally::ps
