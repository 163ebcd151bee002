#include "engine/seat.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/text.h"

namespace tally::engine {

Seat::Seat(EngineOptions options, const kernels::Kernels& kernels)
    : speaker_(std::move(options), kernels), counters_(speaker_.new_counters()) {
  if (!this->options().boxes.empty()) address_ = this->options().boxes.front();
  knock_.start(0);
}

std::optional<Refused> Seat::receive(const Datagram& datagram, TimeNs now, SeatNews& news) {
  const Header& header = datagram.header;
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (header.type == PacketType::kAbort) return on_abort(datagram, news);
  if (state_ == SeatState::kClosed) return Refused::kState;
  if (header.type == PacketType::kJoined) return on_joined(datagram, now, news);
  if (header.type == PacketType::kChallenge) return on_challenge(datagram, now);
  if (header.type == PacketType::kReject) return on_reject(datagram, now, news);
  if (header.type == PacketType::kPlan) return on_plan(datagram, now, news);
  if (const auto wrong = check_current(header)) return wrong;
  const bool left = header.type == PacketType::kLeave;
  if (left && !said_leave()) return Refused::kState;
  if (const auto wrong = counters_.check_session(membership_->session, datagram)) return wrong;
  heard_ = now;
  counters_.answered();
  news.kind = left ? SeatNews::Kind::kLeft : SeatNews::Kind::kEcho;
  return std::nullopt;
}

std::optional<Refused> Seat::on_challenge(const Datagram& datagram, TimeNs now) {
  if (state_ != SeatState::kJoining) return Refused::kState;
  if (const auto wrong = knock_.on_challenge(datagram, now)) return wrong;
  unanswered_ = 0;
  return std::nullopt;
}

std::optional<Refused> Seat::on_joined(const Datagram& datagram, TimeNs now, SeatNews& news) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (state_ != SeatState::kJoining || !knock_.said()) return Refused::kState;
  if (!awaits(joined.fixed.nonce.host())) return Refused::kNonce;
  const bool refused = joined.fixed.status == JoinStatus::kRefused;
  const bool proven = auth::verify(speaker_.job_key(), datagram.header, datagram.payload);
  if (!proven && !refused) return Refused::kTag;
  unanswered_ = 0;
  // A box that does not know the job cannot prove anything; another one may know it.
  const bool another = !proven && ++refused_ < candidates().size();
  if (!proven && (membership_ || another)) {
    told_ = text::cleaned(joined.text);
    news.kind = SeatNews::Kind::kTold;
    news.text = told_;
    if (another) {
      ask_another();
      knock_.turn(now);
    }
    return std::nullopt;
  }
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      if (const auto offer = to_membership(datagram.header, joined, options(), speaker_.job_key()))
        return on_offer(*offer, joined.fixed.missing.host() & offer->members(), now, news);
      break;
    case JoinStatus::kForming:
      missing_ = joined.fixed.missing.host();
      if ((datagram.header.flags & kFlagRacks) != 0)
        if (const auto place = read_racks(joined.text)) first_rank_ = place->first;
      heard_ = now;
      news.kind = SeatNews::Kind::kForming;
      return std::nullopt;
    case JoinStatus::kRefused:
      claims_ = false;  // which may be what the box minds
      missing_ = 0;
      knock_.put_off(now + kLastRepeat);
      news.kind = SeatNews::Kind::kRefused;
      news.text = text::cleaned(joined.text);
      return std::nullopt;
    case JoinStatus::kElsewhere:
      return on_elsewhere(joined.text, now);
  }
  return Refused::kJoined;
}

std::optional<Refused> Seat::on_offer(const Membership& offer, std::uint64_t anew, TimeNs now,
                                      SeatNews& news) {
  if (offer.generation == forsaken_) {
    unended_ = offer;
    return std::nullopt;
  }
  news.offer = offer;
  if (offer.plan_bytes != 0) {
    if (!plan_ || plan_->id != offer.plan_id || plan_->bytes.size() != offer.plan_bytes) {
      // The box must hear of this rank before the lease is over; should pages not come, JOIN does it.
      knock_.put_off(now + kLastRepeat);
      fetch_.start(offer.plan_id, offer.plan_bytes, now);
      pending_ = offer;
      pending_anew_ = anew;
      heard_ = now;
      return std::nullopt;
    }
    const Plan& plan = plan_->plan;
    const bool fits = plan.world() == offer.world &&
                      (offer.home_box < plan.boxes.size() || offer.home_box == PlannedText::kNoBox);
    if (!fits) return Refused::kJoined;
    news.offer.plan = plan_;
  }
  news.anew = anew;
  news.kind = !membership_ || membership_->record() != offer.record() ? SeatNews::Kind::kNewGeneration
              : membership_->epoch != offer.epoch                     ? SeatNews::Kind::kNewEpoch
                                                                      : SeatNews::Kind::kSameEpoch;
  return std::nullopt;
}

// A few boxes may be asked one after the other at once, if each knows a home; who is sent in a circle goes on with
// the interval of JOIN. Nobody's home is no answer: if none is found the silence limit passes.
std::optional<Refused> Seat::on_elsewhere(std::span<const std::byte> text, TimeNs now) {
  if (text.size() != sizeof(Ipv6)) return Refused::kJoined;
  const auto home = wire_at<Ipv6>(text.data());
  if (home == Ipv6{} || home.front() == 0xFF) return Refused::kJoined;
  move_to(home);
  if (hops_ < kMostHops) {
    ++hops_;
    knock_.turn(now);
  }
  return std::nullopt;
}

std::optional<Refused> Seat::on_plan(const Datagram& datagram, TimeNs now, SeatNews& news) {
  if (state_ != SeatState::kJoining || !pending_) return Refused::kState;
  std::shared_ptr<const EpochPlan> whole;
  if (const auto wrong = fetch_.receive(datagram, speaker_, now, whole)) return wrong;
  heard_ = now;
  knock_.put_off(now + kLastRepeat);
  if (!whole) return std::nullopt;
  plan_ = std::move(whole);
  const Membership offer = *std::exchange(pending_, std::nullopt);
  return on_offer(offer, pending_anew_, now, news);
}

// The home, if it is known, is among those that the program named or that the plan has, or was named by one of them.
std::vector<Ipv6> Seat::candidates() const {
  std::vector<Ipv6> all;
  const auto add = [&all](const Ipv6& box) {
    if (std::find(all.begin(), all.end(), box) == all.end()) all.push_back(box);
  };
  for (const Ipv6& box : options().boxes) add(box);
  if (plan_)
    for (const Ipv6& box : plan_->plan.boxes) add(box);
  add(address_);
  return all;
}

void Seat::ask_another() {
  const auto all = candidates();
  const auto here = std::find(all.begin(), all.end(), address_);
  move_to(here + 1 == all.end() ? all.front() : *(here + 1));
}

void Seat::move_to(const Ipv6& address) {
  if (address == address_) return;
  address_ = address;
  ++address_version_;
  unanswered_ = 0;
  pending_.reset();
  fetch_.stop();
  knock_.forget();
  counters_.move(speaker_.new_counters());
}

std::optional<Refused> Seat::on_reject(const Datagram& datagram, TimeNs now, SeatNews& news) {
  const Header& header = datagram.header;
  const RejectReason why{header.slot.host()};
  if (pending_ && header.epoch_id() == pending_->epoch && !datagram.payload.empty()) {
    // Called back from an epoch whose plan is still on its way: nobody needs its pages any more.
    if (why != RejectReason::kEpoch) return Refused::kReason;
    if (header.job_id() != pending_->job) return Refused::kJob;
    if (!auth::verify(pending_->session, header, datagram.payload)) return Refused::kTag;
    join_again(now);
    return std::nullopt;
  }
  if (!membership_) return Refused::kState;
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
    if (const auto wrong = counters_.check_session(membership_->session, datagram)) return wrong;
  } else if (const auto wrong = counters_.check_unknown(speaker_.job_key(), datagram)) {
    return wrong;
  }
  news.kind = SeatNews::Kind::kCalled;
  return std::nullopt;
}

std::optional<Refused> Seat::on_abort(const Datagram& datagram, SeatNews& news) {
  if (const auto wrong = check_current(datagram.header)) return wrong;
  const bool closed = state_ == SeatState::kClosed;
  if (closed && abort_due() == kNever) return Refused::kState;
  if (const auto wrong = counters_.check_session(membership_->session, datagram)) return wrong;
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
    counters_.new_session();
    lost_gone_ = lost_forgot_ = 0;
  }
  counters_.answered();
  membership_ = offer;
  first_rank_ = offer.place.first;
  claims_ = true;
  state_ = SeatState::kRunning;
  missing_ = 0;
  pending_.reset();
  fetch_.stop();
  knock_.stop();
  heard_ = now;
  heartbeat_due_ = now + offer.heartbeat_period();
  lost_due_ = lost_gone_ != 0 || lost_forgot_ != 0 ? now : kNever;
}

void Seat::join_again(TimeNs now) {
  state_ = SeatState::kJoining;
  missing_ = 0;
  told_.clear();
  hops_ = unanswered_ = refused_ = 0;
  pending_.reset();
  fetch_.stop();
  knock_.start(now);
}

void Seat::join_anew(TimeNs now) {
  membership_.reset();
  unended_.reset();
  giving_up_ = 0;
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
    if (!unended_)
      return knock_.due() <= now ? say_join(out, numbers, now) : fetch_.transmit(speaker_, out, now);
    const Membership as = *std::exchange(unended_, std::nullopt);
    return say(PacketType::kAbort, as, {}, "gave up its membership and joins anew", out);
  }
  if (state_ == SeatState::kClosed && giving_up_ != 0) {
    --giving_up_;
    giving_up_due_ = now + kGivingUpPeriod;
    return say_join_for(0, out, {}, now);
  }
  if (abort_due() <= now) {
    abort_.said(now);
    return say(PacketType::kAbort, *membership_, numbers.next, abort_text_, out);
  }
  if (heartbeat_due_ <= now) {
    heartbeat_due_ = now + membership_->heartbeat_period();
    if (lost_gone_ != 0 || lost_forgot_ != 0) lost_due_ = now;
    return say(PacketType::kHeartbeat, *membership_, numbers.next, options().job, out);
  }
  if (lost_due_ <= now) {
    lost_due_ = kNever;
    return say_lost(out);
  }
  leave_.said(now);
  return say(PacketType::kLeave, *membership_, numbers.next, {}, out);
}

void Seat::tell_lost(std::uint64_t gone, std::uint64_t forgot, TimeNs now) noexcept {
  if (gone == lost_gone_ && forgot == lost_forgot_) return;
  lost_gone_ = gone;
  lost_forgot_ = forgot;
  lost_due_ = now;
}

Said Seat::say_join(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now) {
  if (unanswered_ >= kUnanswered) ask_another();
  ++unanswered_;
  if (!knock_.hurried()) hops_ = 0;
  return say_join_for(options().elements, out, numbers, now);
}

Said Seat::say_join_for(std::uint16_t elements, std::span<std::byte> out, const SeatNumbers& numbers,
                        TimeNs now) {
  const Knock::Words words = knock_.next(speaker_, now);
  JoinPayload join;
  join.instance = Be{options().instance};
  join.nonce = Be{words.nonce};
  join.attempt = Be{words.attempt};
  if (membership_ && claims_) {
    join.lowest = Be{raw(numbers.lowest)};
    join.next = Be{raw(numbers.next)};
    join.last = membership_->record();
  }
  join.world = Be{options().world};
  join.elements = Be{elements};
  join.name_bytes = static_cast<std::uint8_t>(options().job.size());
  join.challenge = words.challenge;
  wire_put(out.data() + kHeaderBytes, join);
  std::memcpy(out.data() + kHeaderBytes + sizeof join, options().job.data(), options().job.size());
  Header header;
  header.type = PacketType::kJoin;
  header.rank = Be{raw(options().rank)};
  if (options().sparse) header.contributors = Be{kFeatureSparse};
  return speaker_.say(header, sizeof join + options().job.size(), speaker_.job_key(), out);
}

Header Seat::own_header(PacketType type, const Membership& as) const noexcept {
  Header header;
  header.type = type;
  header.job = Be{raw(as.job)};
  header.rank = Be{raw(as.rank)};
  header.epoch = Be{raw(as.epoch)};
  header.cookie = Be{raw(as.cookie)};
  return header;
}

Said Seat::say(PacketType type, const Membership& as, Chunk next, std::string_view text,
               std::span<std::byte> out) noexcept {
  Header header = own_header(type, as);
  header.chunk = Be{raw(next)};
  wire_put(out.data() + kHeaderBytes, CountedPayload{Be{counters_.next()}});
  std::ranges::copy(std::as_bytes(std::span{text}), out.begin() + kHeaderBytes + sizeof(CountedPayload));
  // A box that has lost the session must know whom it answers; so the key is the job's, and the process is
  // told.
  const bool beats = type == PacketType::kHeartbeat;
  if (beats) header.contributors = Be{options().instance};
  const auth::Key& key = beats ? speaker_.job_key() : as.session;
  return speaker_.say(header, sizeof(CountedPayload) + text.size(), key, out);
}

Said Seat::say_lost(std::span<std::byte> out) noexcept {
  LostPayload lost;
  lost.counter = Be{counters_.next()};
  lost.gone = Be{lost_gone_};
  lost.forgot = Be{lost_forgot_};
  wire_put(out.data() + kHeaderBytes, lost);
  return speaker_.say(own_header(PacketType::kLost, *membership_), sizeof lost, membership_->session, out);
}

}  // namespace tally::engine
