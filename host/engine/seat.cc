#include "engine/seat.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "text/text.h"

namespace tally::engine {
namespace {

auth::Key secret_of(std::uint64_t seed) noexcept {
  EngineRandom random(seed);
  return auth::box_key(std::array{random.next(), random.next(), random.next(), random.next()});
}

}  // namespace

Seat::Seat(EngineOptions options, const kernels::Kernels& kernels)
    : options_(std::move(options)),
      kernels_(kernels),
      secret_(secret_of(options_.seed)),
      job_key_(auth::job_key(options_.job, options_.token)),
      counter_(auth::word(secret_, 0) >> 1) {
  join_.start(0);
}

std::optional<Refused> Seat::receive(const Datagram& datagram, TimeNs now, SeatNews& news) {
  const Header& header = datagram.header;
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (header.type == PacketType::kAbort) return on_abort(datagram, news);
  if (state_ == SeatState::kClosed) return Refused::kState;
  if (header.type == PacketType::kJoined) return on_joined(datagram, now, news);
  if (header.type == PacketType::kChallenge) return on_challenge(datagram, now);
  if (header.type == PacketType::kReject) return on_reject(datagram, now, news);
  if (const auto wrong = check_current(header)) return wrong;
  const bool left = header.type == PacketType::kLeave;
  if (left && !said_leave()) return Refused::kState;
  if (const auto wrong = check_session(datagram)) return wrong;
  heard_ = now;
  answered_ = counter_;
  news.kind = left ? SeatNews::Kind::kLeft : SeatNews::Kind::kEcho;
  return std::nullopt;
}

// The next JOIN brings it, and goes out at once: the first time since one was due, so that who makes up
// CHALLENGEs on the path doubles the JOINs and no more.
std::optional<Refused> Seat::on_challenge(const Datagram& datagram, TimeNs now) {
  const auto said = wire_at<ChallengePayload>(datagram.payload.data());
  if (state_ != SeatState::kJoining) return Refused::kState;
  if (!awaits(said.nonce.host())) return Refused::kNonce;
  challenge_ = said.challenge;
  if (challenged_) return std::nullopt;
  challenged_ = hurried_ = true;
  join_.hurry(now);
  return std::nullopt;
}

std::optional<Refused> Seat::check_session(const Datagram& datagram) {
  if (!auth::verify(membership_->session, datagram.header, datagram.payload)) return Refused::kTag;
  const std::uint64_t counter = wire_at<CountedPayload>(datagram.payload.data()).counter.host();
  if (counter <= heard_counter_) return Refused::kReplay;
  heard_counter_ = counter;
  return std::nullopt;
}

std::optional<Refused> Seat::on_joined(const Datagram& datagram, TimeNs now, SeatNews& news) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (state_ != SeatState::kJoining || nonce_ == 0) return Refused::kState;
  if (!awaits(joined.fixed.nonce.host())) return Refused::kNonce;
  const bool refused = joined.fixed.status == JoinStatus::kRefused;
  const bool proven = auth::verify(job_key_, datagram.header, datagram.payload);
  if (!proven && !refused) return Refused::kTag;
  if (!proven && membership_) {
    told_ = text::cleaned(joined.text);
    news.kind = SeatNews::Kind::kTold;
    news.text = told_;
    return std::nullopt;
  }
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      if (const auto offer = to_membership(datagram.header, joined.fixed, options_, job_key_))
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
      news.text = text::cleaned(joined.text);
      return std::nullopt;
    case JoinStatus::kElsewhere:
      break;
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

std::optional<Refused> Seat::on_reject(const Datagram& datagram, TimeNs now, SeatNews& news) {
  const Header& header = datagram.header;
  if (!membership_) return Refused::kState;
  const RejectReason why{header.slot.host()};
  if (why != RejectReason::kEpoch && why != RejectReason::kJob) return Refused::kReason;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  if (datagram.payload.empty()) {
    if (state_ != SeatState::kRunning) return Refused::kState;
    const TimeNs beat = std::max(now, hint_from_);
    if (beat < heartbeat_due_) {
      heartbeat_due_ = beat;
      hint_from_ = beat + kHintPause;
    }
    news.kind = SeatNews::Kind::kHint;
    return std::nullopt;
  }
  if (why == RejectReason::kEpoch) {
    if (const auto wrong = check_session(datagram)) return wrong;
  } else {  // the box does not know the session: its answer bears the counter of what it answers
    if (!auth::verify(job_key_, header, datagram.payload)) return Refused::kTag;
    const std::uint64_t counter = wire_at<CountedPayload>(datagram.payload.data()).counter.host();
    if (counter <= answered_ || counter > counter_ || counter_ - counter >= kAnswerable)
      return Refused::kReplay;
    answered_ = counter_;
  }
  news.kind = SeatNews::Kind::kCalled;
  return std::nullopt;
}

std::optional<Refused> Seat::on_abort(const Datagram& datagram, SeatNews& news) {
  if (const auto wrong = check_current(datagram.header)) return wrong;
  const bool closed = state_ == SeatState::kClosed;
  if (closed && abort_due() == kNever) return Refused::kState;
  if (const auto wrong = check_session(datagram)) return wrong;
  if (!closed) {  // else it is the answer to our own
    news.kind = SeatNews::Kind::kAborted;
    news.text = text::cleaned(auth::body_of(datagram.payload).subspan(sizeof(CountedPayload)));
  }
  abort_.stop();
  return std::nullopt;
}

void Seat::enter(const Membership& offer, TimeNs now) {
  if (!membership_ || membership_->epoch != offer.epoch) {
    abort_.stop();
    heard_counter_ = 0;
  }
  answered_ = counter_;
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
  told_.clear();
  challenged_ = hurried_ = false;
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
    return say(PacketType::kHeartbeat, *membership_, numbers.next, options_.job, out);
  }
  leave_.said(now);
  return say(PacketType::kLeave, *membership_, numbers.next, {}, out);
}

Said Seat::say_join(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now) {
  challenged_ = std::exchange(hurried_, false);
  join_.said(now);
  do nonce_ = auth::word(secret_, ++nonces_);
  while (nonce_ == 0);
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
  join.challenge = challenge_;
  wire_put(out.data() + kHeaderBytes, join);
  std::memcpy(out.data() + kHeaderBytes + sizeof join, options_.job.data(), options_.job.size());
  Header header;
  header.type = PacketType::kJoin;
  header.rank = Be{raw(options_.rank)};
  return say_with_tag(header, sizeof join + options_.job.size(), job_key_, out);
}

Said Seat::say(PacketType type, const Membership& as, Chunk next, std::string_view text,
               std::span<std::byte> out) noexcept {
  Header header;
  header.type = type;
  header.job = Be{raw(as.job)};
  header.rank = Be{raw(options_.rank)};
  header.epoch = Be{raw(as.epoch)};
  header.chunk = Be{raw(next)};
  header.cookie = Be{raw(as.cookie)};
  wire_put(out.data() + kHeaderBytes, CountedPayload{Be{++counter_}});
  std::ranges::copy(std::as_bytes(std::span{text}), out.begin() + kHeaderBytes + sizeof(CountedPayload));
  // A box that has lost the session must know whom it answers; so the key is the job's, and the process is
  // told.
  const bool beats = type == PacketType::kHeartbeat;
  if (beats) header.contributors = Be{options_.instance};
  const auth::Key& key = beats ? job_key_ : as.session;
  return say_with_tag(header, sizeof(CountedPayload) + text.size(), key, out);
}

Said Seat::say_with_tag(const Header& header, std::size_t body, const auth::Key& key,
                        std::span<std::byte> out) const noexcept {
  const auto said = out.subspan(kHeaderBytes, body);
  wire_put(said.data() + body, auth::tag_of(key, header, said));
  return {seal_control(header, body + kTagBytes, out, kernels_), header.type};
}

}  // namespace tally::engine
