#include "engine/guest_seat.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "text/text.h"

namespace tally::engine {

GuestSeat::GuestSeat(Speaker& speaker, const Membership& home, BoxIndex box, TimeNs now)
    : speaker_(&speaker),
      home_(&home),
      session_(auth::box_session_key(home.session, box)),
      counters_(speaker.new_counters()),
      heard_(now),
      box_(box) {
  knock_.start(now);
}

std::optional<Refused> GuestSeat::receive(const Datagram& datagram, TimeNs now, GuestNews& news) {
  const Header& header = datagram.header;
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (!alive()) return Refused::kState;
  switch (header.type) {
    case PacketType::kJoined:
      return on_joined(datagram, now, news);
    case PacketType::kChallenge:
      if (state_ != GuestState::kEnlisting) return Refused::kState;
      return knock_.on_challenge(datagram, now);
    case PacketType::kReject:
      return on_reject(datagram, now, news);
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
      break;
    default:
      return Refused::kState;
  }
  // A job that ended there says so to who enlists, and its id is not known then; the tag is of this epoch.
  const bool unnamed = header.type == PacketType::kAbort && raw(job_) == 0;
  if (unnamed && header.epoch_id() != home_->epoch) return Refused::kEpoch;
  if (!unnamed)
    if (const auto wrong = check_current(header)) return wrong;
  if (const auto wrong = counters_.check_session(session_, datagram)) return wrong;
  heard_ = now;
  counters_.answered();
  news.kind = GuestNews::Kind::kEcho;
  if (header.type == PacketType::kAbort) {
    news.kind = GuestNews::Kind::kAborted;
    news.text = text::cleaned(auth::body_of(datagram.payload).subspan(sizeof(CountedPayload)));
  }
  return std::nullopt;
}

std::optional<Refused> GuestSeat::on_joined(const Datagram& datagram, TimeNs now, GuestNews& news) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (state_ != GuestState::kEnlisting || !knock_.said()) return Refused::kState;
  if (!knock_.awaits(joined.fixed.nonce.host())) return Refused::kNonce;
  // Anybody can make a refusal without a tag. Who means it is silent from now on, and gone in a moment.
  if (!auth::verify(speaker_->job_key(), datagram.header, datagram.payload)) return Refused::kTag;
  switch (joined.fixed.status) {
    case JoinStatus::kForming: {
      heard_ = now;
      const std::uint64_t missing = joined.fixed.missing.host() & pages_of(home_->plan->bytes.size());
      pages_ = missing;
      return std::nullopt;
    }
    case JoinStatus::kRefused:
      state_ = GuestState::kGone;
      news.kind = GuestNews::Kind::kRefused;
      news.text = text::cleaned(joined.text);
      return std::nullopt;
    case JoinStatus::kRunning:
      break;
    case JoinStatus::kElsewhere:
      return Refused::kJoined;
  }
  const Header& header = datagram.header;
  const JoinedPayload& said = joined.fixed;
  const bool right =
      header.epoch_id() == home_->epoch && raw(header.job_id()) != 0 && raw(header.job_id()) <= kMaxJobs &&
      Cookie{header.cookie.host()} == home_->result_cookie && Cookie{said.cookie.host()} == home_->cookie &&
      said.record == home_->record() && said.world.host() == home_->world &&
      said.window.host() == home_->window && said.shards >= 1 && said.shards <= kMaxShards;
  if (!right) return Refused::kJoined;
  job_ = header.job_id();
  shards_ = said.shards;
  mac_ = said.box_mac;
  state_ = GuestState::kRunning;
  pages_ = 0;
  knock_.stop();
  heard_ = now;
  counters_.answered();
  heartbeat_due_ = now + heartbeat_period();
  news.kind = GuestNews::Kind::kRunning;
  return std::nullopt;
}

std::optional<Refused> GuestSeat::on_reject(const Datagram& datagram, TimeNs now, GuestNews& news) {
  const Header& header = datagram.header;
  if (state_ != GuestState::kRunning) return Refused::kState;
  const RejectReason why{header.slot.host()};
  if (why != RejectReason::kEpoch && why != RejectReason::kJob) return Refused::kReason;
  if (header.job_id() != job_) return Refused::kJob;
  if (header.epoch_id() != home_->epoch) return Refused::kEpoch;
  if (datagram.payload.empty()) {
    const TimeNs beat = std::max(now, hint_from_);
    if (beat < heartbeat_due_) {
      heartbeat_due_ = beat;
      hint_from_ = beat + kHintPause;
    }
    news.kind = GuestNews::Kind::kHint;
    return std::nullopt;
  }
  const auto wrong = why == RejectReason::kEpoch ? counters_.check_session(session_, datagram)
                                                 : counters_.check_unknown(speaker_->job_key(), datagram);
  if (wrong) return wrong;
  state_ = GuestState::kForgot;
  news.kind = GuestNews::Kind::kForgot;
  return std::nullopt;
}

bool GuestSeat::time_out(TimeNs now) noexcept {
  if (silent_at() > now) return false;
  state_ = GuestState::kGone;
  return true;
}

void GuestSeat::leave() noexcept {
  if (!leaving_ && raw(job_) != 0 && alive()) leaving_ = true;
  state_ = GuestState::kClosed;
}

TimeNs GuestSeat::due() const noexcept {
  switch (state_) {
    case GuestState::kEnlisting:
      return pages_ != 0 ? 0 : knock_.due();
    case GuestState::kRunning:
      return heartbeat_due_;
    case GuestState::kClosed:
      return leaving_ ? 0 : kNever;
    case GuestState::kGone:
    case GuestState::kForgot:
      break;
  }
  return kNever;
}

Said GuestSeat::transmit(std::span<std::byte> out, Chunk next, TimeNs now) {
  if (due() > now) return {};
  if (state_ == GuestState::kClosed) {
    leaving_ = false;
    return say_counted(PacketType::kLeave, next, out);
  }
  if (state_ == GuestState::kRunning) {
    heartbeat_due_ = now + heartbeat_period();
    return say_counted(PacketType::kHeartbeat, next, out);
  }
  if (pages_ == 0) return say_enlist(out, now);
  const auto page = static_cast<std::uint8_t>(std::countr_zero(pages_));
  pages_ &= pages_ - 1;
  if (pages_ == 0 && pushed_from_ <= now) {  // the box has them all now, if none was lost
    knock_.at_once(now);
    pushed_from_ = now + kFirstRepeat;
  }
  return say_plan(*speaker_, *home_->plan, page, out);
}

Said GuestSeat::say_enlist(std::span<std::byte> out, TimeNs now) {
  if (!std::exchange(enlisted_, true)) heard_ = now;
  const EngineOptions& options = speaker_->options();
  const Knock::Words words = knock_.next(*speaker_, now);
  EnlistPayload enlist;
  enlist.instance = Be{options.instance};
  enlist.nonce = Be{words.nonce};
  enlist.attempt = Be{words.attempt};
  enlist.window = Be{home_->window};
  enlist.result_cookie = Be{raw(home_->result_cookie)};
  enlist.record = home_->record();
  enlist.world = Be{static_cast<std::uint16_t>(home_->world)};
  enlist.lease_ms = Be{static_cast<std::uint32_t>(home_->lease / kMillisecond)};
  enlist.plan = home_->plan->id;
  enlist.plan_bytes = Be{static_cast<std::uint32_t>(home_->plan->bytes.size())};
  enlist.box = box_;
  enlist.max_priority = home_->max_priority;
  enlist.name_bytes = static_cast<std::uint8_t>(options.job.size());
  enlist.challenge = words.challenge;
  wire_put(out.data() + kHeaderBytes, enlist);
  std::memcpy(out.data() + kHeaderBytes + sizeof enlist, options.job.data(), options.job.size());
  Header header;
  header.type = PacketType::kEnlist;
  header.rank = Be{raw(options.rank)};
  header.epoch = Be{raw(home_->epoch)};
  header.cookie = Be{raw(home_->cookie)};
  return speaker_->say(header, sizeof enlist + options.job.size(), speaker_->job_key(), out);
}

Said GuestSeat::say_counted(PacketType type, Chunk next, std::span<std::byte> out) noexcept {
  const EngineOptions& options = speaker_->options();
  Header header;
  header.type = type;
  header.job = Be{raw(job_)};
  header.rank = Be{raw(options.rank)};
  header.epoch = Be{raw(home_->epoch)};
  header.chunk = Be{raw(next)};
  header.cookie = Be{raw(home_->cookie)};
  wire_put(out.data() + kHeaderBytes, CountedPayload{Be{counters_.next()}});
  std::size_t body = sizeof(CountedPayload);
  if (type != PacketType::kHeartbeat) return speaker_->say(header, body, session_, out);
  header.contributors = Be{options.instance};
  std::memcpy(out.data() + kHeaderBytes + body, options.job.data(), options.job.size());
  body += options.job.size();
  return speaker_->say(header, body, speaker_->job_key(), out);
}

void GuestSeats::enter(const Membership& home, TimeNs now) {
  home_ = home;
  seats_.clear();
  places_.clear();
  suspended_ = false;
  turn_ = 0;
  if (!home.plan) return;
  places_ = places_of(home.plan->plan, home.home_box);
  for (std::size_t box = 0; box < places_.size(); ++box)
    if (places_[box] != 0) seats_.emplace_back(speaker_, home_, static_cast<BoxIndex>(box), now);
}

// Nothing was said to them meanwhile, so their silence means nothing.
void GuestSeats::resume(TimeNs now) noexcept {
  if (!std::exchange(suspended_, false)) return;
  for (GuestSeat& seat : seats_) seat.heard(now);
}

void GuestSeats::leave() noexcept {
  suspended_ = false;
  for (GuestSeat& seat : seats_) seat.leave();
}

void GuestSeats::close() noexcept {
  for (GuestSeat& seat : seats_) seat.close();
}

Said GuestSeats::transmit(std::span<std::byte> out, Chunk next, TimeNs now, std::uint16_t& box) {
  if (suspended_) return {};
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (++turn_ >= seats_.size()) turn_ = 0;
    const Said said = seats_[turn_].transmit(out, next, now);
    if (said.bytes == 0) continue;
    box = static_cast<std::uint16_t>(turn_ + 1);
    return said;
  }
  return {};
}

TimeNs GuestSeats::due() const noexcept {
  TimeNs due = kNever;
  if (suspended_) return due;
  for (const GuestSeat& seat : seats_) due = std::min({due, seat.due(), seat.silent_at()});
  return due;
}

bool GuestSeats::time_out(TimeNs now) noexcept {
  bool lost = false;
  if (suspended_) return lost;
  for (GuestSeat& seat : seats_) lost |= seat.time_out(now);
  return lost;
}

void GuestSeats::was_away(TimeNs time, TimeNs now) noexcept {
  for (GuestSeat& seat : seats_) seat.was_away(time, now);
}

std::uint64_t GuestSeats::in(GuestState state) const noexcept {
  std::uint64_t boxes = 0;
  for (const GuestSeat& seat : seats_)
    if (seat.state() == state) boxes |= std::uint64_t{1} << seat.box();
  return boxes;
}

}  // namespace tally::engine
