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

std::string abort_text(Rank rank, const RankNames& names, std::string_view said) {
  return rank_text(rank, names) + ": " + (said.empty() ? "gave no reason" : text::cleaned(said));
}

}  // namespace

void NativeLife::close(JobPhase phase) {
  box_.publisher.clear(id_);
  release_slots();
  for (MemberState& m : members_) vacate(m);
  term_ = {};
  offer_ = {};
  offer_version_ = 0;
  limit_to(kNoLimit);
  returning_since_ = kNever;
  leave_parent(PacketType::kAbort, reason_);  // if nothing was said yet
  enter(phase);
}

// Tells every member that has not left, `except` the one that knows. Members that may not know the term's
// epoch also get the text as the answer to their newest JOIN; servers only where no term was alive.
void NativeLife::abort(std::string_view text, std::optional<Rank> except) {
  reason_ = bounded(text);
  leave_parent(PacketType::kAbort, reason_);
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
  leave_parent(PacketType::kLeave, {});
  close(JobPhase::kEnded);
}

// Fresh forming: answers the workers of `which` with a refusal and frees their places. Servers go on waiting.
void NativeLife::refuse_waiting(std::uint64_t which, std::string_view text) {
  reason_ = bounded(text);
  leave_parent(PacketType::kAbort, reason_);
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

TimeNs NativeLife::lease_end(Rank rank) const noexcept {
  return silence_end(rank, phase_ == JobPhase::kForming ? patience() : lease());
}

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

std::uint64_t NativeLife::returning_ranks() const {
  std::uint64_t returning = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (members_[r].joined && !is_zero(members_[r].reported)) returning |= bit_of(Rank{r});
  }
  return returning;
}

// Fresh forming: it waits for others in these places.
void NativeLife::free_places(const std::vector<Rank>& which, const std::string& why) {
  cancel_offer();
  box_.slots_changed = true;  // nobody makes room for it any more
  leave_parent(PacketType::kAbort, why);
  for (const Rank r : which) member(r).joined = member(r).repeated = false;
}

void NativeLife::tick_fresh(TimeNs now) {
  if (const auto silent = silent_ranks(now); !silent.empty())
    free_places(silent, silence_text(silent, lease(), now));
  const std::uint64_t returning = returning_ranks();
  if (returning == 0) returning_since_ = kNever;
  if (returning != 0 && !complete() && !offered() && after(returning_since_, patience()) <= now) {
    const std::string text =
        "the job's generation cannot go on: " + members_text(missing(), missing_servers(), names()) +
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
  reason_ = silence_text(silent, lease(), now) + " while the job was draining";
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
    if (const auto silent = silent_ranks(now); !silent.empty()) abort(silence_text(silent, lease(), now));
  } else if (phase_ == JobPhase::kDraining) {
    tick_draining(now);
  } else if (phase_ == JobPhase::kForming) {
    tick_fresh(now);
  }
  if (seat_) tick_parent(now);
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
  if (!seat_) return next;
  return std::min({next, seat_->due(), needs_parent() ? seat_->silent_at() : kNever});
}

// The row goes; every member that has not left is called back.
void NativeLife::begin_reforming(TimeNs now) {
  box_.publisher.clear(id_);
  enter(JobPhase::kForming);
  if (seat_) seat_->recall();
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
  if (config_.has_parent()) return;  // which is told, and renews
  const bool due = serial_difference(h.chunk_id(), term_.base) >= kRenewAfter;
  if (due && phase_ == JobPhase::kRunning) begin_reforming(now);
}

// What members cannot use: plans do without, until the owner says otherwise.
void NativeLife::leave_out(std::uint64_t boxes) {
  const std::vector<Ipv6>& addresses = config_.boxes->addresses;
  for (; boxes != 0; boxes &= boxes - 1) {
    const Ipv6& gone = term_.plan->plan.boxes[static_cast<std::size_t>(std::countr_zero(boxes))];
    const auto at = std::find(addresses.begin(), addresses.end(), gone);
    left_out_ |= std::uint64_t{1} << (at - addresses.begin());
  }
}

// Whoever has heard nothing of a box, or is unknown to one that it was enlisted at, cannot go on in this epoch.
void NativeLife::lost(Rank rank, std::uint64_t gone, TimeNs now) {
  leave_out(gone);
  touch();
  if (phase_ == JobPhase::kRunning) return begin_reforming(now);
  // While the job drains everybody has all that a box could give.
  if (reforming()) call_back(rank);
}

// Bits of boxes that the plan does not have, or of the one that it was said to.
bool NativeLife::makes_no_sense(const LostPayload& lost) const {
  const auto boxes = static_cast<std::uint16_t>(term_.plan->plan.boxes.size());
  std::uint64_t others = members_of(boxes);
  const BoxIndex own = term_.plan->index_of(own_address());
  if (own != PlannedText::kNoBox) others &= ~(std::uint64_t{1} << own);
  const std::uint64_t named = lost.gone.host() | lost.forgot.host();
  return named == 0 || (named & ~others) != 0;
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
  if (h.type == PacketType::kLost && !term_.plan) return box_.count(MembershipDrop::kType);
  if (const auto no = objection_to(packet, source)) return box_.count(*no);
  const bool loses = h.type == PacketType::kLost;
  const auto said = loses ? wire_at<LostPayload>(packet.payload.data()) : LostPayload{};
  if (loses && makes_no_sense(said)) return box_.count(MembershipDrop::kField);
  MemberState& m = member(h.rank_id());
  m.counter = packet.counter;
  if (h.type == PacketType::kAbort) {
    // Also while the members are called back: the old epoch is the only one they know.
    // Its sender gets the ABORT too: it repeats its own until it does.
    box_.accept(h.type);
    m.confirmed = true;
    abort(abort_text(h.rank_id(), names(), packet.text));
  } else if (h.type == PacketType::kLeave && reforming()) {
    // It holds the result of the last barrier, so every rank is leaving and lacks at most that one.
    box_.accept(h.type);
    m.left = true;
    box_.outbox.send_echo(h, term_, present(), session_key(h.rank_id()), m.binding);
    end();
  } else if (loses) {
    box_.accept(h.type);
    if (active()) {
      confirm(h.rank_id());
      m.heard(now);
    }
    lost(h.rank_id(), said.gone.host(), now);
  } else if (!active()) {
    box_.count(MembershipDrop::kEpoch);
    // The box of a rack lives while its workers come back to it.
    if (config_.ranks_are_racks()) m.heard(now);
    call_back(h.rank_id());
  } else {
    box_.accept(h.type);
    confirm(h.rank_id());
    m.heard(now);
    h.type == PacketType::kLeave ? leave(h) : heartbeat(h, now);
  }
}

void NativeLife::withdraw(std::string_view reason) {
  abort(reason);
  if (seat_) say_to_parent(0);  // for the last time
}

// Another box is the home from now on, and adopts the generation from what its members say: they are told to join,
// and hear here where. Who waits without an epoch asks again by itself.
void NativeLife::hand_over() {
  for (const Rank r : ranks_) {
    if (alive() && !member(r).left) call_back(r);
  }
  box_.publisher.clear(id_);
  release_slots();
}

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
