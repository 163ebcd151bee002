#pragma once
// The membership of one rank in one job, a worker's or a server's: JOIN until the box says running, HEARTBEAT
// from then on, LEAVE, ABORT, and JOIN again. Pure: datagrams and time in, datagrams and news out; time never
// goes back. A datagram is believed only as far as its secrets reach (docs/protocol.md, 4.1): a JOINED must
// echo the newest nonce and bear the tag of who knows the token, everything else of control a tag of this
// session and a counter that is new. What has no tag is a hint: a refusal, and a REJECT of a data core.
// What news mean is the owner's to decide: whether it takes an offer, comes when called, stays when refused.
//
// Of a job over several boxes it is the seat at the home (docs/protocol_boxes.md), which it finds by what other boxes
// say, and an offer comes when its plan is here. GuestSeats are for the plan's other boxes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "engine/conversation.h"
#include "engine/datagram.h"
#include "engine/engine_operation.h"
#include "engine/plan_pages.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

enum class SeatState : std::uint8_t {
  kJoining,  // waits for JOINED(running), the first time or for a new epoch
  kRunning,
  kClosed,  // says nothing but its ABORT, hears nothing but the answer; only join_anew() leads out
};

// What a datagram of the box tells the owner.
struct SeatNews {
  enum class Kind : std::uint8_t {
    kNone,
    kForming,        // missing() is up to date
    kSameEpoch,      // JOINED(running): `offer` is the present epoch, nothing is lost. enter() takes it
    kNewEpoch,       // the same of the present generation under a new epoch
    kNewGeneration,  // the same of another one, or of the first: former results and numbers mean nothing
    kRefused,        // JOINED(refused): `text`. The next JOIN is a second away and claims no generation
    kTold,           // the same, from who has not shown that it is the box, to a rank that has a generation
                     // to lose: joining goes on, and told() is what was said
    kHint,           // REJECT of a data core, which anybody may forge: a HEARTBEAT is due
    kCalled,         // REJECT of control, which cannot be forged: join_again()
    kEcho,           // of a HEARTBEAT
    kLeft,           // answer to LEAVE
    kAborted,        // the box ended the job: `text`, which may be empty
  };
  Kind kind = Kind::kNone;
  Membership offer{};
  std::uint64_t anew = 0;  // kNewGeneration: the ranks that brought another one than this rank; 0: not told
  std::string text;        // printable
};

// Chunks of the generation, as JOIN and the datagrams of an epoch report them.
struct SeatNumbers {
  Chunk lowest{};  // first without a result
  Chunk next{};    // first never offered
};

class Seat {
 public:
  // Joining: the first JOIN is due at once. Of the options: job, token, rank, world, elements, instance,
  // seed, unreachable_after, boxes. kernels: outlive it.
  Seat(EngineOptions options, const kernels::Kernels& kernels);

  // JOINED, CHALLENGE, PLAN, REJECT, HEARTBEAT, LEAVE or ABORT of the box that is joined. What is refused changes
  // nothing, REJECT(waiting) is (kReason).
  [[nodiscard]] std::optional<Refused> receive(const Datagram& datagram, TimeNs now, SeatNews& news);

  // Job, epoch and result cookie are those of the newest epoch entered, also while joining again.
  [[nodiscard]] std::optional<Refused> check_current(const Header& header) const noexcept {
    if (!membership_) return Refused::kState;
    if (header.job_id() != membership_->job) return Refused::kJob;
    if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
    if (Cookie{header.cookie.host()} != membership_->result_cookie) return Refused::kCookie;
    return std::nullopt;
  }
  // It waits for a JOINED with this nonce.
  [[nodiscard]] bool awaits(std::uint64_t nonce) const noexcept {
    return state_ == SeatState::kJoining && knock_.awaits(nonce);
  }

  void enter(const Membership& offer, TimeNs now);
  // For a new epoch; the present one is valid meanwhile.
  void join_again(TimeNs now);
  // Out of the generation, for another one.
  void join_anew(TimeNs now);
  // The present generation may not go on: this rank offered values there that its owner has given up. Should
  // the box offer it after join_anew(), having never heard of its end, it is told by an ABORT.
  void forsake() noexcept {
    if (membership_) forsaken_ = membership_->generation;
  }
  // LEAVE and ABORT are repeated until answered, kFarewells times at most.
  void leave(TimeNs now) noexcept { leave_.start(now); }
  // Without an epoch there is nobody to tell. False: an earlier reason is still being told.
  bool abort(std::string_view why, TimeNs now);
  // Of a worker that closes and has not been in an epoch: its place is free for another process. Said at once and twice more,
  // and never answered; should all copies be lost, the silence that follows says the same.
  void give_up(TimeNs now) noexcept {
    if (membership_ || !knock_.said()) return;
    giving_up_ = kGivingUp;
    giving_up_due_ = now;
  }
  void close() noexcept { state_ = SeatState::kClosed; }
  // Boxes of the plan that this rank cannot use (GuestSeats): said at once when they change, and with each
  // HEARTBEAT of the epoch. Only while it runs.
  void tell_lost(std::uint64_t gone, std::uint64_t forgot, TimeNs now) noexcept;

  // Where it joins, or has joined: an address of the options, a plan's or one that a box named; all zero while there
  // are none and no box named any. The version is another one when it has changed.
  [[nodiscard]] const Ipv6& address() const noexcept { return address_; }
  [[nodiscard]] std::uint32_t address_version() const noexcept { return address_version_; }
  // For the seats at other boxes.
  [[nodiscard]] Speaker& speaker() noexcept { return speaker_; }

  // Writes what is due to `out`, which holds max_datagram_bytes().
  [[nodiscard]] Said transmit(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now);
  [[nodiscard]] TimeNs due() const noexcept {
    if (state_ == SeatState::kJoining) return unended_ ? 0 : std::min(knock_.due(), fetch_.due());
    if (state_ == SeatState::kClosed) return giving_up_ != 0 ? giving_up_due_ : abort_due();
    return std::min({heartbeat_due_, lost_due_, leave_.due(), abort_due()});
  }

  // When the box counts as gone; 0 before silent() was first asked.
  [[nodiscard]] TimeNs silent_at() const noexcept { return heard_ ? *heard_ + silence_limit() : 0; }
  [[nodiscard]] bool silent(TimeNs now) noexcept {
    if (!heard_) heard_ = now;
    return silent_at() <= now;
  }
  // The caller did not run for `time` until now: that was not the box's silence.
  void was_away(TimeNs time, TimeNs now) noexcept {
    if (heard_) heard_ = std::min(*heard_ + time, now);
  }
  // Half of it without an answer, and hints may have been lost or used up: worth a JOIN. Only while it runs.
  [[nodiscard]] TimeNs doubtful_at() const noexcept {
    const bool asks = state_ == SeatState::kRunning && !said_leave() && heard_;
    return asks ? *heard_ + membership_->lease / 2 : kNever;
  }
  [[nodiscard]] TimeNs silence_limit() const noexcept {
    const TimeNs limit = membership_ ? membership_->lease : options().unreachable_after;
    // JOINs come up to a second apart: a shorter lease must not be lost to one of them.
    return state_ == SeatState::kJoining ? std::max(limit, 3 * kLastRepeat) : limit;
  }
  [[nodiscard]] bool said_leave() const noexcept { return leave_.due() != kNever && leave_.tries() != 0; }
  [[nodiscard]] bool leave_unanswered(TimeNs now) const noexcept {
    return leave_.tries() >= kFarewells && leave_.due() <= now;
  }

  [[nodiscard]] SeatState state() const noexcept { return state_; }
  // The newest epoch entered; nullopt: none since joining anew.
  [[nodiscard]] const std::optional<Membership>& membership() const noexcept { return membership_; }
  [[nodiscard]] std::uint64_t missing() const noexcept { return missing_; }  // ranks, while forming
  // What the program calls rank 0 of bitmaps: another one than 0 in a job of racks, as far as the box said.
  [[nodiscard]] std::uint32_t first_rank() const noexcept { return first_rank_; }
  // The newest refusal that was only a hint since joining began, printable; empty: none.
  [[nodiscard]] const std::string& told() const noexcept { return told_; }
  [[nodiscard]] const EngineOptions& options() const noexcept { return speaker_.options(); }

 private:
  static constexpr std::uint32_t kFarewells = 5;
  // Copies of a farewell that nobody answers. Apart, as one pause of the box, or the end of a memif whose ring it has not
  // read yet, would lose all of a burst.
  static constexpr std::uint32_t kGivingUp = 3;
  static constexpr TimeNs kGivingUpPeriod = 50 * kMillisecond;
  static constexpr std::uint32_t kMostHops = 4;    // to other boxes, since a JOIN was last due by time
  static constexpr std::uint32_t kUnanswered = 3;  // JOINs, after which another box is asked

  [[nodiscard]] std::optional<Refused> on_joined(const Datagram& datagram, TimeNs now, SeatNews& news);
  [[nodiscard]] std::optional<Refused> on_offer(const Membership& offer, std::uint64_t anew, TimeNs now,
                                                SeatNews& news);
  [[nodiscard]] std::optional<Refused> on_elsewhere(std::span<const std::byte> text, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_plan(const Datagram& datagram, TimeNs now, SeatNews& news);
  [[nodiscard]] std::optional<Refused> on_challenge(const Datagram& datagram, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_reject(const Datagram& datagram, TimeNs now, SeatNews& news);
  [[nodiscard]] std::optional<Refused> on_abort(const Datagram& datagram, SeatNews& news);
  [[nodiscard]] std::vector<Ipv6> candidates() const;
  // Joins at the next box that may know the job, if there is another one.
  void ask_another();
  void move_to(const Ipv6& address);
  [[nodiscard]] Said say_join(std::span<std::byte> out, const SeatNumbers& numbers, TimeNs now);
  [[nodiscard]] Said say_join_for(std::uint16_t elements, std::span<std::byte> out,
                                  const SeatNumbers& numbers, TimeNs now);
  [[nodiscard]] Said say(PacketType type, const Membership& as, Chunk next, std::string_view text,
                         std::span<std::byte> out) noexcept;
  [[nodiscard]] Said say_lost(std::span<std::byte> out) noexcept;
  [[nodiscard]] Header own_header(PacketType type, const Membership& as) const noexcept;
  [[nodiscard]] TimeNs abort_due() const noexcept {
    return abort_.tries() < kFarewells ? abort_.due() : kNever;
  }

  Speaker speaker_;
  Counters counters_;
  SeatState state_ = SeatState::kJoining;
  std::optional<Membership> membership_;
  bool claims_ = false;  // the next JOIN says the generation of membership_
  Generation forsaken_{};
  std::optional<Membership> unended_;  // forsaken, and offered again
  Knock knock_;
  Ipv6 address_{};
  std::uint32_t address_version_ = 0;
  std::uint32_t hops_ = 0;
  std::uint32_t unanswered_ = 0;  // JOINs at this box since it last answered
  std::uint32_t refused_ = 0;     // boxes that refused without a tag, one after the other
  PlanFetch fetch_;
  std::optional<Membership> pending_;  // offered, and its plan is not here yet
  std::uint64_t pending_anew_ = 0;
  std::shared_ptr<const EpochPlan> plan_;  // newest
  std::uint64_t lost_gone_ = 0;
  std::uint64_t lost_forgot_ = 0;
  TimeNs lost_due_ = kNever;
  std::uint64_t missing_ = 0;
  std::uint32_t first_rank_ = 0;
  std::string told_;
  std::uint32_t giving_up_ = 0;  // copies still to be said
  TimeNs giving_up_due_ = 0;
  Backoff leave_;
  Backoff abort_;
  std::string abort_text_;
  std::optional<TimeNs> heard_;  // last answer of control, or when the waiting for one began
  TimeNs heartbeat_due_ = kNever;
  TimeNs hint_from_ = 0;  // before it hints change nothing
};

}  // namespace tally::engine
