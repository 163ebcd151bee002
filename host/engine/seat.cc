#include "engine/seat.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tally::engine {

Seat::Seat(EngineOptions options, const kernels::Kernels& kernels)
    : options_(std::move(options)), kernels_(kernels), random_(options_.seed) {
  join_.start(0);
}

std::optional<Refused> Seat::receive(const Datagram& datagram, TimeNs now, SeatNews& news) {
  const Header& header = datagram.header;
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (header.type == PacketType::kAbort) return on_abort(datagram, news);
  if (state_ == SeatState::kClosed) return Refused::kState;
  if (header.type == PacketType::kJoined) return on_joined(datagram, now, news);
  if (header.type == PacketType::kReject) return on_reject(header, news);
  if (const auto wrong = check_current(header)) return wrong;
  if (header.type == PacketType::kLeave) {
    if (!said_leave()) return Refused::kState;
    news.kind = SeatNews::Kind::kLeft;
    return std::nullopt;
  }
  heard_ = now;
  news.kind = SeatNews::Kind::kEcho;
  return std::nullopt;
}

std::optional<Refused> Seat::on_joined(const Datagram& datagram, TimeNs now, SeatNews& news) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (state_ != SeatState::kJoining || nonce_ == 0) return Refused::kState;
  if (!awaits(joined.fixed.nonce.host())) return Refused::kNonce;
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      if (const auto offer = to_membership(datagram.header, joined.fixed, options_))
        return on_offer(*offer, joined.fixed.missing.host() & offer->members(), news);
      break;
    case JoinStatus::kForming:
      missing_ = joined.fixed.missing.host();
      heard_ = now;
      news.kind = SeatNews::Kind::kForming;
      return std::nullopt;
    case JoinStatus::kRefused:
      claims_ = false;  // which may be what the box minds
      missing_ = 0;
      join_.put_off(now + kLastRepeat);
      news.kind = SeatNews::Kind::kRefused;
      news.text = printable(joined.text);
      return std::nullopt;
  }
  return Refused::kJoined;
}

std::optional<Refused> Seat::on_offer(const Membership& offer, std::uint64_t anew, SeatNews& news) {
  if (offer.generation == forsaken_) {
    unended_ = offer;
    return std::nullopt;
  }
  news.offer = offer;
  news.anew = anew;
  news.kind = !membership_ || membership_->record() != offer.record() ? SeatNews::Kind::kNewGeneration
              : membership_->epoch != offer.epoch                     ? SeatNews::Kind::kNewEpoch
                                                                      : SeatNews::Kind::kSameEpoch;
  return std::nullopt;
}

std::optional<Refused> Seat::on_reject(const Header& header, SeatNews& news) const {
  if (!membership_) return Refused::kState;
  const RejectReason why{header.slot.host()};
  if (why != RejectReason::kEpoch && why != RejectReason::kJob) return Refused::kReason;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  news.kind = SeatNews::Kind::kCalled;
  return std::nullopt;
}

std::optional<Refused> Seat::on_abort(const Datagram& datagram, SeatNews& news) {
  if (const auto wrong = check_current(datagram.header)) return wrong;
  if (state_ == SeatState::kClosed) {  // the answer to our own
    if (abort_due() == kNever) return Refused::kState;
  } else {
    news.kind = SeatNews::Kind::kAborted;
    news.text = printable(datagram.payload);
  }
  abort_.stop();
  return std::nullopt;
}

void Seat::enter(const Membership& offer, TimeNs now) {
  if (!membership_ || membership_->epoch != offer.epoch) abort_.stop();
  membership_ = offer;
  claims_ = true;
  state_ = SeatState::kRunning;
  missing_ = 0;
  join_.stop();
  heard_ = now;
  heartbeat_due_ = now + offer.heartbeat_period();
}

void Seat::join_again(TimeNs now) {
  state_ = SeatState::kJoining;
  missing_ = 0;
  nonce_ = 0;
  join_.start(now);
}

void Seat::join_anew(TimeNs now) {
  membership_.reset();
  unended_.reset();
  leave_.stop();
  abort_.stop();
  heard_ = now;
  join_again(now);
}

bool Seat::abort(std::string_view why, TimeNs now) {
  const bool over = abort_.due() == kNever || (abort_.tries() >= kFarewells && abort_.due() <= now);
  if (!membership_ || !over) return false;
  abort_text_ = why.substr(0, kMaxTextBytes);
  abort_.start(now);
  return true;
}

Said Seat::transmit(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now) {
  if (due() > now) return {};
  if (state_ == SeatState::kJoining) {
    if (!unended_) return say_join(out, numbers, now);
    const Membership as = *std::exchange(unended_, std::nullopt);
    return say(PacketType::kAbort, as, {}, "gave up its membership and joins anew", out);
  }
  if (abort_due() <= now) {
    abort_.said(now);
    return say(PacketType::kAbort, *membership_, numbers.next, abort_text_, out);
  }
  if (heartbeat_due_ <= now) {
    heartbeat_due_ = now + membership_->heartbeat_period();
    return say(PacketType::kHeartbeat, *membership_, numbers.next, {}, out);
  }
  leave_.said(now);
  return say(PacketType::kLeave, *membership_, numbers.next, {}, out);
}

Said Seat::say_join(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now) {
  join_.said(now);
  nonce_ = random_.next_nonzero();
  JoinPayload join;
  join.instance = Be{options_.instance};
  join.nonce = Be{nonce_};
  join.attempt = Be{++attempt_};
  if (membership_ && claims_) {
    join.lowest = Be{raw(numbers.lowest)};
    join.next = Be{raw(numbers.next)};
    join.last = membership_->record();
  }
  join.world = Be{options_.world};
  join.elements = Be{options_.elements};
  join.name_bytes = static_cast<std::uint8_t>(options_.job.size());
  join.token_bytes = static_cast<std::uint8_t>(options_.token.size());
  std::byte* at = out.data() + kHeaderBytes;
  std::memcpy(at, &join, sizeof join);
  at += sizeof join;
  std::memcpy(at, options_.job.data(), options_.job.size());
  at += options_.job.size();
  std::memcpy(at, options_.token.data(), options_.token.size());
  Header header;
  header.type = PacketType::kJoin;
  header.rank = Be{raw(options_.rank)};
  const std::size_t payload = sizeof join + options_.job.size() + options_.token.size();
  return {seal_control(header, payload, out, kernels_), header.type};
}

Said Seat::say(PacketType type, const Membership& as, Chunk next, std::string_view text,
               std::span<std::byte> out) const noexcept {
  Header header;
  header.type = type;
  header.job = Be{raw(as.job)};
  header.rank = Be{raw(options_.rank)};
  header.epoch = Be{raw(as.epoch)};
  header.chunk = Be{raw(next)};
  header.cookie = Be{raw(as.cookie)};
  std::ranges::copy(std::as_bytes(std::span{text}), out.begin() + kHeaderBytes);
  return {seal_control(header, text.size(), out, kernels_), type};
}

}  // namespace tally::engine
