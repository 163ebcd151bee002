// How an epoch ends. For good: aborted with a reason, or left by everyone; the row is cleared, the lines are
// freed, and the term is remembered for members who have not heard. Or for a new one of the same generation:
// the members are called back.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "members/box_state.h"
#include "members/native_life.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::members {
namespace {

// When numbers have advanced so far a new epoch begins: well before 2^30, where a packet of this epoch as old
// as half the number space would look new (docs/protocol.md, 12).
constexpr std::int32_t kRenewAfter = std::int32_t{1} << 29;

void vacate(MemberState& m) noexcept {
  m.joined = m.left = m.confirmed = m.repeated = false;
  m.answer_at = 0;
}

bool knows_secret(const Term& term, const Header& h) noexcept {
  return raw(h.epoch_id()) != 0 && h.epoch_id() == term.epoch &&
         Cookie{h.cookie.host()} == term.contribution.at(place_of(h.rank_id()));
}

std::string abort_text(Rank rank, std::string_view said) {
  return rank_text(rank) + ": " + (said.empty() ? "gave no reason" : text::cleaned(said));
}

}  // namespace

void NativeLife::remember(bool aborted, std::string_view text) {
  if (term_.epoch == Epoch{}) return;
  gone_.term = term_;
  gone_.aborted = aborted;
  gone_.text = text;
  for (std::size_t i = 0; i < kMaxPlaces; ++i) {
    gone_.bindings[i] = members_[i].binding;
    gone_.instances[i] = members_[i].instance;
  }
}

void NativeLife::close(JobPhase phase) {
  box_.publisher.clear(id_);
  release_slots();
  for (MemberState& m : members_) vacate(m);
  term_ = {};
  offer_ = {};
  offer_version_ = 0;
  limit_to(kNoLimit);
  returning_since_ = kNever;
  enter(phase);
}

// Tells every member that has not left, `except` the one that knows. Members that may not know the term's
// epoch also get the text as the answer to their newest JOIN; servers only where no term was alive.
void NativeLife::abort(std::string_view text, std::optional<Rank> except) {
  reason_ = bounded(text);
  const bool told = term_.epoch != Epoch{};
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    if (m.left || except == r || (!m.joined && !reforming())) continue;
    if (told) box_.outbox.send_abort(id_, term_, reason_, session_key(r), m.binding);
    // A server outlives the epochs of its job: it comes back to the next one.
    const bool final = !is_server(r) || !told;
    if (m.joined && !m.confirmed && final) box_.answer_refused(m.nonce, reason_, &key_, m.binding);
  }
  remember(true, reason_);
  close(JobPhase::kAborted);
}

// Every rank has left, or fell silent after the first LEAVE. Servers do not leave: they are called back.
void NativeLife::end() {
  remember(false, "the job ended: every other rank has left");
  for (std::uint32_t i = 0; i < config_.external_servers(); ++i) call_back(server_rank(i));
  close(JobPhase::kEnded);
}

// Fresh forming: answers the workers of `which` with a refusal and frees their places. Servers go on waiting.
void NativeLife::refuse_waiting(std::uint64_t which, std::string_view text) {
  reason_ = bounded(text);
  box_.slots_changed = true;  // if it waited, others may grow
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    MemberState& m = members_[r];
    if (!m.joined || (which & bit_of(Rank{r})) == 0) continue;
    box_.answer_refused(m.nonce, reason_, &key_, m.binding);
    vacate(m);
  }
  if (joined() == 0) returning_since_ = kNever;
  touch();
  if (deserted()) enter(JobPhase::kDeclared);
}

TimeNs NativeLife::heard_at(Rank rank) const noexcept {
  const MemberState& m = member(rank);
  if (is_server(rank) || !m.joined || !active() || !box_.last_seen) return m.last_seen;
  return std::max(m.last_seen, box_.last_seen(id_, rank));
}

TimeNs NativeLife::lease_end(Rank rank) const noexcept {
  const TimeNs most = phase_ == JobPhase::kForming ? patience() : config_.lease;
  const TimeNs heard = heard_at(rank);
  return after(after(heard, most), std::min(box_.unheard.since(heard), most));
}

void NativeLife::touch() { box_.touch(id_); }

// Ranks whose silence matters now.
bool NativeLife::watched(Rank rank) const noexcept {
  // Whoever is still here while the job drains lacks nothing that a server could give.
  if (is_server(rank) && phase_ == JobPhase::kDraining) return false;
  const MemberState& m = member(rank);
  return !m.left && (m.joined || reforming());
}

std::vector<Rank> NativeLife::silent_ranks(TimeNs now) const {
  std::vector<Rank> silent;
  for (const Rank r : ranks_) {
    if (watched(r) && lease_end(r) <= now) silent.push_back(r);
  }
  return silent;
}

std::string NativeLife::silence_text(const std::vector<Rank>& silent, TimeNs now) const {
  std::string text;
  for (const Rank r : silent) {
    const MemberState& m = member(r);
    if (!text.empty()) text += "; ";
    text += rank_text(r) + " at " + address_text(m.binding.address) + " was silent for " +
            seconds_text(now - heard_at(r));
  }
  return text + " (lease " + seconds_text(config_.lease) + ")";
}

std::uint64_t NativeLife::returning_ranks() const {
  std::uint64_t returning = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (members_[r].joined && !is_zero(members_[r].reported)) returning |= bit_of(Rank{r});
  }
  return returning;
}

void NativeLife::tick_fresh(TimeNs now) {
  if (const auto silent = silent_ranks(now); !silent.empty()) {
    cancel_offer();
    box_.slots_changed = true;  // nobody makes room for it any more
    for (const Rank r : silent) member(r).joined = member(r).repeated = false;
  }
  const std::uint64_t returning = returning_ranks();
  if (returning == 0) returning_since_ = kNever;
  if (returning != 0 && !complete() && !offered() && after(returning_since_, patience()) <= now) {
    const std::string text =
        "the job's generation cannot go on: " + members_text(missing(), missing_servers()) +
        " did not come back within " + seconds_text(patience());
    // The refusal may be lost, or cross a JOIN and be none of its answers: whoever still speaks of this
    // generation is told again.
    gone_ = {};
    gone_.term.record = members_[static_cast<std::size_t>(std::countr_zero(returning))].reported;
    gone_.text = text;
    refuse_waiting(returning, text);
    returning_since_ = kNever;
  }
  if (deserted()) enter(JobPhase::kDeclared);
}

void NativeLife::tick_draining(TimeNs now) {
  const auto silent = silent_ranks(now);
  if (silent.empty()) return;
  for (const Rank r : silent) member(r).left = true;
  reason_ = silence_text(silent, now) + " while the job was draining";
  if (left() == everyone()) end();
}

// What silence does to a job.
//
// running      a silent rank aborts the job, which names it: a server too
// draining     it counts as having left: whoever is still here has its contributions already, and needs no
//              server
// re-forming   as running: its generation cannot go on without it
// fresh        it loses its place, and forming waits for somebody else. (Also how the replayed JOIN of a dead
//              process that nobody here remembers heals: nothing follows it, so its lease runs out. If
//              forming was complete with it, that is the running job's case.)
//
// Fresh, with ranks that bring a living generation from before control lost its state: those are refused when
// the others did not come within a lease of the first. They cannot be aborted: nobody here knows their
// cookies. Ranks that bring nothing wait for as long as they like.
void NativeLife::tick(TimeNs now) {
  confirm_seen();
  if (now < box_.agenda.of(id_)) return;
  touch();
  if (phase_ == JobPhase::kRunning || reforming()) {
    if (const auto silent = silent_ranks(now); !silent.empty()) abort(silence_text(silent, now));
  } else if (phase_ == JobPhase::kDraining) {
    tick_draining(now);
  } else if (phase_ == JobPhase::kForming) {
    tick_fresh(now);
  }
}

TimeNs NativeLife::deadline() const noexcept {
  if (phase_ == JobPhase::kForming && !reforming() && deserted()) return 0;
  TimeNs next = kNever;
  for (const Rank r : ranks_) {
    if (watched(r)) next = std::min(next, lease_end(r));
  }
  if (phase_ == JobPhase::kForming && !complete() && !offered()) {
    next = std::min(next, after(returning_since_, patience()));
  }
  return next;
}

// Tells one member of the living term to join anew.
void NativeLife::call_back(Rank rank) {
  box_.outbox.send_reject(id_, term_, session_key(rank), member(rank).binding);
}

// The row goes; every member that has not left is called back.
void NativeLife::begin_reforming(TimeNs now) {
  box_.publisher.clear(id_);
  enter(JobPhase::kForming);
  for (const Rank r : ranks_) {
    MemberState& m = member(r);
    m.joined = m.repeated = false;
    m.answer_at = 0;
    m.heard(now);
    if (!m.left) call_back(r);
  }
}

// Once more those that have not come: what they were told may be lost.
void NativeLife::call_missing() {
  for (const Rank r : ranks_) {
    if (!member(r).joined && !member(r).left) call_back(r);
  }
}

bool NativeLife::said_by(const Term& term, std::uint64_t instance, const auth::Key& session,
                         const ControlPacket& packet) noexcept {
  const bool beats = packet.header.type == PacketType::kHeartbeat;
  if (beats && packet.header.contributors.host() != instance) return false;
  return auth::verify(beats ? term.key : session, packet.header, packet.payload);
}

// A member of the term that ended last, which has not heard of its end. Its counter is not looked at: the
// answer to an old packet says nothing new, and goes where the new one's would; copies get it ten times a
// second at most.
bool NativeLife::answer_gone(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  const Header& h = packet.header;
  const std::size_t place = place_of(h.rank_id());
  if (!knows_secret(gone_.term, h) || gone_.bindings.at(place) != source) return false;
  const auth::Key session = session_key_of(gone_.term, h.rank_id(), gone_.instances.at(place));
  if (!said_by(gone_.term, gone_.instances.at(place), session, packet)) {
    box_.count(MembershipDrop::kTag);
    return true;
  }
  if (gone_.aborted) {
    box_.count(MembershipDrop::kAborted);
    if (box_.farewells.take(source, now))
      box_.outbox.send_abort(id_, gone_.term, gone_.text, session, source);
    return true;
  }
  if (h.type != PacketType::kLeave) return false;
  box_.accept(PacketType::kLeave);
  if (!box_.farewells.take(source, now)) return true;
  box_.outbox.send_echo(h, gone_.term, 0, session, source);
  return true;
}

std::optional<MembershipDrop> NativeLife::objection_to(const ControlPacket& packet,
                                                       const jobs::Binding& source) const {
  const Header& h = packet.header;
  const MemberState& m = member(h.rank_id());
  if (!knows_secret(term_, h)) return MembershipDrop::kCookie;
  if (m.binding != source) return MembershipDrop::kSource;
  if (!said_by(term_, m.instance, session_key(h.rank_id()), packet)) return MembershipDrop::kTag;
  if (packet.counter <= m.counter) return MembershipDrop::kReplay;
  return std::nullopt;
}

void NativeLife::leave(const Header& h) {
  MemberState& m = member(h.rank_id());
  m.left = true;
  enter(JobPhase::kDraining);
  touch();
  box_.outbox.send_echo(h, term_, present(), session_key(h.rank_id()), m.binding);
  if (left() == everyone()) end();
}

void NativeLife::heartbeat(const Header& h, TimeNs now) {
  box_.outbox.send_echo(h, term_, present(), session_key(h.rank_id()), member(h.rank_id()).binding);
  if (is_server(h.rank_id())) return;
  member(h.rank_id()).next = h.chunk_id();
  const bool due = serial_difference(h.chunk_id(), term_.base) >= kRenewAfter;
  if (due && phase_ == JobPhase::kRunning) begin_reforming(now);
}

void NativeLife::from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  tick(now);
  const Header& h = packet.header;
  if (!has_rank(h.rank_id())) return box_.count(MembershipDrop::kRank);
  // A server ends with the epoch, by ABORT, or by its silence.
  if (is_server(h.rank_id()) && h.type == PacketType::kLeave) return box_.count(MembershipDrop::kType);
  if (h.epoch_id() != term_.epoch || term_.epoch == Epoch{}) {
    if (!answer_gone(packet, source, now)) box_.reject(packet, source, now, MembershipDrop::kEpoch);
    return;
  }
  if (const auto no = objection_to(packet, source)) return box_.count(*no);
  MemberState& m = member(h.rank_id());
  m.counter = packet.counter;
  if (h.type == PacketType::kAbort) {
    // Also while the members are called back: the old epoch is the only one they know.
    // Its sender gets the ABORT too: it repeats its own until it does.
    box_.accept(h.type);
    m.confirmed = true;
    abort(abort_text(h.rank_id(), packet.text));
  } else if (h.type == PacketType::kLeave && reforming()) {
    // It holds the result of the last barrier, so every rank is leaving and lacks at most that one.
    box_.accept(h.type);
    m.left = true;
    box_.outbox.send_echo(h, term_, present(), session_key(h.rank_id()), m.binding);
    end();
  } else if (!active()) {
    box_.count(MembershipDrop::kEpoch);
    call_back(h.rank_id());
  } else {
    box_.accept(h.type);
    confirm(h.rank_id());
    m.heard(now);
    h.type == PacketType::kLeave ? leave(h) : heartbeat(h, now);
  }
}

void NativeLife::withdraw(std::string_view reason) { abort(reason); }

// What a core saw after the members were told bears the epoch they were told. (Not so what control heard: a
// JOIN that is repeated says that its JOINED was lost.)
void NativeLife::confirm_seen() {
  if (!active() || !box_.last_seen) return;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    const MemberState& m = members_[r];
    if (m.joined && !m.confirmed && box_.last_seen(id_, Rank{r}) > running_since_) confirm(Rank{r});
  }
}

void NativeLife::disagree(Epoch epoch, std::string_view text, TimeNs now) {
  tick(now);
  if (active() && term_.epoch == epoch) abort(text);
}

Result<void> NativeLife::give_up(std::string_view said, TimeNs now) {
  const std::string reason = "ended by an operator: " + text::cleaned(said);
  tick(now);
  if (alive()) {
    abort(reason);
    return {};
  }
  if (phase_ != JobPhase::kForming || joined() == 0)
    return fail(ErrorCode::kInvalidArgument, "nobody is in it: it is " + std::string(name_of(phase_)),
                "job '" + config_.name + "'");
  cancel_offer();
  refuse_waiting(joined(), reason);
  return {};
}

void NativeLife::restart(TimeNs now) {
  // Who has left will not come back, and who remains lacks nothing but the result of the last barrier.
  if (phase_ == JobPhase::kDraining) return end();
  if (active()) begin_reforming(now);
  if (offered()) offer_version_ = box_.await(id_);
}

}  // namespace tally::members
