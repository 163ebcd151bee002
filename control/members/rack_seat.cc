#include "members/rack_seat.h"

#include <iterator>
#include <span>
#include <utility>

#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "members/control_packet.h"
#include "members/resident_job.h"
#include "text/text.h"

namespace tally::members {
namespace {

using engine::Datagram;

engine::EngineOptions speaker_of(const NativeConfig& config, std::uint64_t seed) {
  engine::EngineOptions options;
  options.job = config.name;
  options.token = config.token;
  options.seed = seed;
  return options;
}

// What is not proved, or comes again.
MembershipDrop unproven(Refused why) noexcept {
  return why == Refused::kReplay ? MembershipDrop::kReplay : MembershipDrop::kTag;
}

std::string list_text(std::span<const std::uint8_t> workers) {
  std::string text = "[";
  for (const std::uint8_t n : workers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(n);
  }
  return text += "]";
}

}  // namespace

RackSeat::RackSeat(const NativeConfig& config, std::uint64_t seed, std::uint64_t calendar)
    : name_(config.name),
      racks_(*config.racks),
      speaker_(speaker_of(config, seed), kernels::best_kernels()),
      counters_(0),
      calendar_(calendar) {}

bool RackSeat::serves(const NativeConfig& config) const noexcept {
  return config.name == name_ && config.racks == racks_ && config.token == speaker_.options().token;
}

bool RackSeat::current(const Header& header) const noexcept {
  return term_ && header.job_id() == term_->job && header.epoch_id() == term_->epoch &&
         (header.type == PacketType::kReject || Cookie{header.cookie.host()} == term_->result);
}

bool RackSeat::bids_farewell(const Header& header) const noexcept {
  return farewell_ && header.job_id() == farewell_->as.job && header.epoch_id() == farewell_->as.epoch &&
         Cookie{header.cookie.host()} == farewell_->as.result;
}

bool RackSeat::awaits(const Datagram& datagram) const noexcept {
  const Header& h = datagram.header;
  if (h.type == PacketType::kJoined || h.type == PacketType::kChallenge)
    return knock_.awaits(wire_at<Be<std::uint64_t>>(datagram.payload.data()).host());
  return current(h) || bids_farewell(h);
}

std::optional<MembershipDrop> RackSeat::receive(const Datagram& datagram, const jobs::Binding& source,
                                                TimeNs now, ParentNews& news) {
  const Header& h = datagram.header;
  if (h.type == PacketType::kJoined) return on_joined(datagram, source, now, news);
  if (h.type == PacketType::kChallenge) {
    if (!asks() || knock_.on_challenge(datagram, now)) return MembershipDrop::kOldAttempt;
    place_ = source;  // anybody may say it; who says no more than that is forgotten after kUnanswered
    return std::nullopt;
  }
  if (!current(h)) return on_farewell(datagram);
  if (h.type == PacketType::kReject) return on_reject(datagram, now, news);
  if (h.type == PacketType::kLeave) return MembershipDrop::kType;  // it did not say that it leaves
  if (const auto wrong = counters_.check_session(term_->session, datagram)) return unproven(*wrong);
  if (h.type == PacketType::kAbort) {
    news.kind = ParentNews::Kind::kAborted;
    news.text = text::cleaned(auth::body_of(datagram.payload).subspan(sizeof(CountedPayload)));
    term_.reset();
    farewell_.reset();
    knock_.stop();
    state_ = State::kIdle;
    return std::nullopt;
  }
  heard_ = now;
  counters_.answered();
  if (state_ == State::kMember && !std::exchange(confirmed_, true)) news.kind = ParentNews::Kind::kConfirmed;
  return std::nullopt;
}

std::optional<MembershipDrop> RackSeat::on_farewell(const Datagram& datagram) {
  if (!bids_farewell(datagram.header)) return MembershipDrop::kEpoch;
  // An ABORT of the parent ends a LEAVE, too. All else it said before, and its counters are not kept any more.
  const PacketType type = datagram.header.type;
  if (type != PacketType::kAbort && type != farewell_->type) return MembershipDrop::kType;
  if (!auth::verify(farewell_->as.session, datagram.header, datagram.payload)) return MembershipDrop::kTag;
  farewell_.reset();
  return std::nullopt;
}

std::optional<MembershipDrop> RackSeat::on_reject(const Datagram& datagram, TimeNs now, ParentNews& news) {
  if (datagram.payload.empty()) return MembershipDrop::kLength;  // of a data core: anybody could say it
  const RejectReason why{datagram.header.slot.host()};
  if (why != RejectReason::kEpoch && why != RejectReason::kJob) return MembershipDrop::kType;
  const auto wrong = why == RejectReason::kEpoch ? counters_.check_session(term_->session, datagram)
                                                 : counters_.check_unknown(speaker_.job_key(), datagram);
  if (wrong) return unproven(*wrong);
  heard_ = now;
  if (state_ == State::kAsking) return std::nullopt;  // the answer to its JOIN is another epoch
  news.kind = ParentNews::Kind::kCalled;
  if (has_epoch()) state_ = State::kRecalled;
  return std::nullopt;
}

std::optional<MembershipDrop> RackSeat::on_joined(const Datagram& datagram, const jobs::Binding& source,
                                                  TimeNs now, ParentNews& news) {
  engine::Joined joined;
  if (engine::read_joined(datagram.payload, joined)) return MembershipDrop::kLength;
  if (!asks()) return MembershipDrop::kOldAttempt;
  const bool proven = auth::verify(speaker_.job_key(), datagram.header, datagram.payload);
  const bool refused = joined.fixed.status == JoinStatus::kRefused;
  if (!proven && !refused) return MembershipDrop::kTag;
  if (proven) {
    unanswered_ = 0;
    place_ = source;
    heard_ = now;
  }
  if (refused) {
    // Anybody can say it: it is believed where nothing is to be lost.
    told_ = text::cleaned(joined.text);
    if (!proven && !is_zero(brings_)) return std::nullopt;
    // Of what no worker knows: they go on waiting.
    news.kind = brings_ != claim_.last ? ParentNews::Kind::kCalled : ParentNews::Kind::kRefused;
    news.text = told_;
    term_.reset();
    knock_.stop();
    state_ = State::kIdle;
    return std::nullopt;
  }
  if (joined.fixed.status == JoinStatus::kForming) {
    missing_ = joined.fixed.missing.host();
    return std::nullopt;
  }
  if (joined.fixed.status != JoinStatus::kRunning) return MembershipDrop::kField;
  return on_running(datagram, source, now, news);
}

std::optional<MembershipDrop> RackSeat::on_running(const Datagram& datagram, const jobs::Binding& source,
                                                   TimeNs now, ParentNews& news) {
  engine::Joined said;
  if (engine::read_joined(datagram.payload, said)) return MembershipDrop::kLength;
  const JoinedPayload& p = said.fixed;
  const std::span<const std::uint8_t> workers(racks_.workers);
  if (datagram.header.flags != kFlagRacks || said.text.size() < sizeof(RacksText))
    return MembershipDrop::kFlags;
  const auto racks = wire_at<RacksText>(said.text.data());
  const auto list = said.text.subspan(sizeof racks);
  const std::span<const std::uint8_t> told(reinterpret_cast<const std::uint8_t*>(list.data()), list.size());

  ParentTerm t;
  t.job = datagram.header.job_id();
  t.epoch = datagram.header.epoch_id();
  t.cookie = Cookie{p.cookie.host()};
  t.result = Cookie{datagram.header.cookie.host()};
  t.record = p.record;
  t.window = p.window.host();
  t.shards = p.shards;
  t.most_advanced = racks.most_advanced;
  t.lease = p.lease_ms.host() * kMillisecond;
  t.binding = source;
  const std::uint32_t largest = p.record.largest_window.host();
  const std::uint32_t elements = p.record.elements.host();
  const bool good = raw(t.job) >= 1 && raw(t.job) <= kMaxJobs && raw(t.epoch) != 0 &&
                    raw(t.generation()) != 0 && is_window(t.window) && is_window(largest) &&
                    t.window <= largest && is_window(p.record.lookahead.host()) &&
                    p.record.lookahead.host() <= largest && elements >= kMinElements &&
                    valid_elements(elements) && elements <= claim_.elements && t.shards >= 1 &&
                    t.shards <= kMaxShards && t.lease != 0 && p.discipline == Discipline::kPool &&
                    p.results == ResultsMode::kUnicast && racks.racks == told.size() && racks.zero == 0 &&
                    racks.most_advanced < racks.racks && racks.rack == *racks_.rack;
  if (!good) return MembershipDrop::kField;
  t.session = auth::session_key(speaker_.job_key(), t.generation(), t.epoch, t.result, t.cookie,
                                claim_.instance, Rank{*racks_.rack});
  if (!std::ranges::equal(told, workers)) {
    const std::string text = "its racks are " + list_text(told) + " at the parent and " + list_text(workers) +
                             " at the box of rack " + std::to_string(*racks_.rack);
    term_ = t;
    depart(PacketType::kAbort, text);
    news = {ParentNews::Kind::kRefused, text};
    return std::nullopt;
  }
  // The parent never heard that workers of this rack gave it up.
  if (t.generation() == forsaken_) {
    farewell_ = Farewell{PacketType::kAbort, t, "gave up its membership and joins anew", {}};
    farewell_->repeat.start(now);
    return std::nullopt;
  }
  const bool same = term_ && term_->epoch == t.epoch;
  if (!same) {
    counters_.new_session();
    confirmed_ = used_ = false;
  }
  counters_.answered();
  term_ = t;
  state_ = State::kMember;
  missing_ = 0;
  told_.clear();
  knock_.stop();
  heartbeat_due_ = confirmed_ ? now + t.heartbeat_period() : now;
  news.kind = same ? ParentNews::Kind::kSame : ParentNews::Kind::kOffered;
  return std::nullopt;
}

void RackSeat::use() noexcept {
  if (!has_epoch()) return;
  used_ = true;
  if (claim_.last == term_->record) return;
  claim_.last = brings_ = term_->record;
  claim_.elements = term_->record.elements.host();
  claim_.lowest = Chunk{term_->record.first_chunk.host()};
}

void RackSeat::ask(const RackClaim& claim, TimeNs now) {
  const bool same = claim_.same(claim);
  const bool goes_on = asks() && !used_ && same;
  if (claim.instance != claim_.instance) {
    depart(PacketType::kAbort, "another process came in the place of one of its workers");
    forsaken_ = {};
  }
  claim_ = claim;
  if (goes_on) return;
  brings_ = same && term_ && !used_ ? term_->record : claim.last;
  used_ = false;
  confirmed_ = false;
  heard_ = now;
  missing_ = 0;
  told_.clear();
  state_ = State::kAsking;
  knock_.start(now);
}

void RackSeat::depart(PacketType how, std::string_view text) {
  if (term_) {
    if (how == PacketType::kAbort) forsaken_ = term_->generation();
    farewell_ = Farewell{how, *term_, std::string(text.substr(0, kMaxTextBytes)), {}};
    farewell_->repeat.start(0);
  }
  term_.reset();
  confirmed_ = used_ = false;
  knock_.stop();
  state_ = State::kIdle;
}

TimeNs RackSeat::doubtful_at() const noexcept {
  return state_ == State::kMember ? after(heard_, term_->lease / 2) : kNever;
}

TimeNs RackSeat::silent_at() const noexcept {
  if (state_ == State::kIdle) return kNever;
  const TimeNs limit = term_ ? term_->lease : kBeforeFirst;
  return after(heard_, state_ == State::kMember ? limit : std::max(limit, kJoinPatience));
}

TimeNs RackSeat::due() const noexcept {
  TimeNs due = farewell_ ? farewell_->repeat.due() : kNever;
  if (asks()) due = std::min(due, knock_.due());
  if (state_ == State::kMember || state_ == State::kRecalled)
    due = std::min({due, heartbeat_due_, doubtful_at()});
  return due;
}

std::optional<ToParent> RackSeat::say(Chunk next, TimeNs now) {
  if (farewell_ && farewell_->repeat.due() <= now) {
    farewell_->repeat.said(now);
    const ToParent said = counted(farewell_->type, farewell_->as, next, farewell_->text);
    if (farewell_->repeat.tries() >= kFarewells) farewell_.reset();
    return said;
  }
  if (doubtful_at() <= now) {
    claim_.next = next;
    brings_ = term_->record;
    state_ = State::kDoubting;
    knock_.start(now);
  }
  if (asks() && knock_.due() <= now) return join(now);
  const bool beats = state_ == State::kMember || state_ == State::kRecalled;
  if (!beats || heartbeat_due_ > now) return std::nullopt;
  heartbeat_due_ = now + term_->heartbeat_period();
  return counted(PacketType::kHeartbeat, *term_, next, name_);
}

ToParent RackSeat::join(TimeNs now) {
  if (++unanswered_ > kUnanswered) place_.reset();
  const engine::Knock::Words words = knock_.next(speaker_, now);
  // Newer than all that a box in its place said before; and if its clock was set back, it is so in time.
  const auto by_calendar = static_cast<std::uint32_t>((calendar_ + now) / kAttemptUnit);
  ++attempt_;
  if (first_ || static_cast<std::int32_t>(by_calendar - attempt_) > 0) attempt_ = by_calendar;
  first_ = false;
  counters_.advance(calendar_ + now);
  JoinPayload join;
  join.instance = Be{claim_.instance};
  join.nonce = Be{words.nonce};
  join.attempt = Be{attempt_};
  join.last = brings_;
  if (!is_zero(brings_)) {
    // Who knows nothing of it begins at its first chunk.
    const Chunk lowest = claim_.last == brings_ ? claim_.lowest : Chunk{brings_.first_chunk.host()};
    join.lowest = Be{raw(lowest)};
    join.next = Be{raw(serial_difference(claim_.next, lowest) > 0 ? claim_.next : lowest)};
  }
  join.world = Be{static_cast<std::uint16_t>(racks_.workers.size())};
  join.elements = Be{claim_.elements};
  join.name_bytes = static_cast<std::uint8_t>(name_.size());
  join.rack_workers = racks_.workers[*racks_.rack];
  join.challenge = words.challenge;
  std::vector<std::byte> body(sizeof join);
  wire_put(body.data(), join);
  std::ranges::copy(std::as_bytes(std::span(name_)), std::back_inserter(body));
  Header header;
  header.type = PacketType::kJoin;
  if (state_ == State::kDoubting) header.epoch = Be{raw(term_->epoch)};  // which it has not lost
  return addressed(header, std::move(body), speaker_.job_key());
}

ToParent RackSeat::counted(PacketType type, const ParentTerm& as, Chunk next, std::string_view text) {
  const bool beats = type == PacketType::kHeartbeat;
  Header header;
  header.type = type;
  header.job = Be{raw(as.job)};
  header.epoch = Be{raw(as.epoch)};
  header.cookie = Be{raw(as.cookie)};
  header.chunk = Be{raw(next)};
  if (beats) header.contributors = Be{claim_.instance};
  std::vector<std::byte> body(sizeof(CountedPayload));
  wire_put(body.data(), CountedPayload{Be{counters_.next()}});
  std::ranges::copy(std::as_bytes(std::span(text)), std::back_inserter(body));
  return addressed(header, std::move(body), beats ? speaker_.job_key() : as.session);
}

ToParent RackSeat::addressed(Header header, std::vector<std::byte> body, const auth::Key& key) const {
  header.rank = Be{std::uint16_t{*racks_.rack}};
  const jobs::Binding unknown{.address = racks_.parent, .mac = kBroadcastMac, .udp_port = kBasePort};
  return {header, std::move(body), key, place_.value_or(unknown), !place_};
}

ParentState RackSeat::state() const noexcept {
  switch (state_) {
    case State::kIdle:
      return ParentState::kNotAsked;
    case State::kAsking:
      return ParentState::kJoining;
    case State::kDoubting:
      return used_ ? ParentState::kDoubted : ParentState::kJoining;
    case State::kMember:
      return confirmed_ ? ParentState::kRunning : ParentState::kJoining;
    case State::kRecalled:
      break;
  }
  return ParentState::kCalledBack;
}

}  // namespace tally::members
