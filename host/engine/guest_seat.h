#pragma once
// The membership of one rank, a worker's or a server's, at the boxes of a plan that are not the home (docs/protocol_boxes.md, 17.3).
// They are told what the home said of the epoch: ENLIST until the box says running, pages of the plan that it lacks,
// HEARTBEAT from then on, LEAVE. Pure, as Seat, which is the membership at the home: what is heard here of
// boxes that are lost, its owner has the home told of. A seat is for one epoch; the next one takes seats of its own.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "auth/auth.h"
#include "engine/conversation.h"
#include "engine/datagram.h"
#include "engine/plan_pages.h"
#include "engine/worker_join.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/plan.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

enum class GuestState : std::uint8_t {
  kEnlisting,
  kRunning,  // the box knows this rank: data may flow
  kGone,     // says nothing, or refuses
  kForgot,   // lives, and does not know the epoch any more
  kClosed,
};

// What a datagram of the box tells the owner.
struct GuestNews {
  enum class Kind : std::uint8_t {
    kNone,
    kRunning,  // from now on data may flow
    kRefused,  // gone: `text`
    kForgot,
    kHint,  // REJECT of a data core, which anybody may forge: a HEARTBEAT is due
    kEcho,
    kAborted,  // the job cannot go on: `text`, which may be empty. The home is to be told so
  };
  Kind kind = Kind::kNone;
  std::string text;  // printable
};

class GuestSeat {
 public:
  // The first ENLIST is due at once. home: of an epoch with its plan; box: another one than the home. Both
  // outlive the seat.
  GuestSeat(Speaker& speaker, const Membership& home, BoxIndex box, TimeNs now);

  // JOINED, CHALLENGE, REJECT of an epoch or job, HEARTBEAT or ABORT of this box. What is refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const Datagram& datagram, TimeNs now, GuestNews& news);

  // Job (the box's), epoch and result cookie are this epoch's.
  [[nodiscard]] std::optional<Refused> check_current(const Header& header) const noexcept {
    if (raw(job_) == 0 || state_ == GuestState::kClosed) return Refused::kState;
    if (header.job_id() != job_) return Refused::kJob;
    if (header.epoch_id() != home_->epoch) return Refused::kEpoch;
    if (Cookie{header.cookie.host()} != home_->result_cookie) return Refused::kCookie;
    return std::nullopt;
  }
  // A RESULT of the epoch came from it.
  void heard(TimeNs now) noexcept { heard_ = now; }
  // The caller did not run for `time` until now: that was not the box's silence.
  void was_away(TimeNs time, TimeNs now) noexcept { heard_ = std::min(heard_ + time, now); }
  // Gone, if it was silent for too long. Whether it just became so.
  bool time_out(TimeNs now) noexcept;
  // LEAVE is due, once; then closed.
  void leave() noexcept;
  // Says nothing more: the epoch is over.
  void close() noexcept { state_ = GuestState::kClosed; }

  // Writes what is due to `out`, which holds max_datagram_bytes() of a member with a plan. next: first chunk
  // never offered.
  [[nodiscard]] Said transmit(std::span<std::byte> out, Chunk next, TimeNs now);
  [[nodiscard]] TimeNs due() const noexcept;
  // When the box counts as gone; kNever: it is lost already.
  [[nodiscard]] TimeNs silent_at() const noexcept { return alive() ? heard_ + silence_limit() : kNever; }
  // A tenth of the lease; heartbeats are a quarter of it apart.
  [[nodiscard]] TimeNs silence_limit() const noexcept { return std::max(home_->lease / 10, kLeastSilence); }
  [[nodiscard]] TimeNs heartbeat_period() const noexcept { return std::max(silence_limit() / 4, kLeastBeat); }

  [[nodiscard]] GuestState state() const noexcept { return state_; }
  [[nodiscard]] bool running() const noexcept { return state_ == GuestState::kRunning; }
  [[nodiscard]] BoxIndex box() const noexcept { return box_; }  // of the plan
  // What JOINED(running) said; the job is 0 before.
  [[nodiscard]] JobId job() const noexcept { return job_; }
  [[nodiscard]] std::uint32_t shards() const noexcept { return shards_; }
  [[nodiscard]] const Mac& mac() const noexcept { return mac_; }

 private:
  static constexpr TimeNs kLeastSilence = 500 * kMillisecond;
  static constexpr TimeNs kLeastBeat = 100 * kMillisecond;

  [[nodiscard]] bool alive() const noexcept {
    return state_ == GuestState::kEnlisting || state_ == GuestState::kRunning;
  }
  [[nodiscard]] std::optional<Refused> on_joined(const Datagram& datagram, TimeNs now, GuestNews& news);
  [[nodiscard]] std::optional<Refused> on_reject(const Datagram& datagram, TimeNs now, GuestNews& news);
  [[nodiscard]] Said say_enlist(std::span<std::byte> out, TimeNs now);
  [[nodiscard]] Said say_counted(PacketType type, Chunk next, std::span<std::byte> out) noexcept;

  Speaker* speaker_;
  const Membership* home_;
  auth::Key session_;
  Knock knock_;
  Counters counters_;
  TimeNs heard_;  // an answer, or when ENLIST was first said
  bool enlisted_ = false;
  TimeNs heartbeat_due_ = kNever;
  TimeNs hint_from_ = 0;     // before it hints change nothing
  std::uint64_t pages_ = 0;  // that the box lacks, and is sent next
  TimeNs pushed_from_ = 0;   // before it ENLIST waits for its interval, also behind pages
  JobId job_{};
  std::uint32_t shards_ = 1;
  Mac mac_{};
  GuestState state_ = GuestState::kEnlisting;
  bool leaving_ = false;
  BoxIndex box_;
};

// The seats of an epoch at all boxes of its plan but the home, and the order of the boxes for transports: 0 is the
// box that is joined, behind it come the others of the plan as the plan has them.
class GuestSeats {
 public:
  explicit GuestSeats(Speaker& speaker) : speaker_(speaker) {}
  GuestSeats(const GuestSeats&) = delete;
  GuestSeats& operator=(const GuestSeats&) = delete;

  // A new epoch; one without a plan has no guests. The seats of the former one say nothing more.
  void enter(const Membership& home, TimeNs now);
  // Called back: nobody enlists or beats until resume(), which is for the same epoch, or enter().
  void suspend() noexcept { suspended_ = true; }
  void resume(TimeNs now) noexcept;
  void leave() noexcept;  // of all: what is said to them is LEAVE, once each
  void close() noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return seats_.size(); }
  // box: 1..size().
  [[nodiscard]] GuestSeat& at(std::size_t box) noexcept { return seats_[box - 1]; }
  [[nodiscard]] const GuestSeat& at(std::size_t box) const noexcept { return seats_[box - 1]; }
  // Of the same box.
  [[nodiscard]] const Ipv6& address(std::size_t box) const noexcept {
    return home_.plan->plan.boxes[at(box).box()];
  }
  // Where a box of the plan stands in that order.
  [[nodiscard]] std::uint8_t place_of(BoxIndex box) const noexcept { return places_[box]; }

  [[nodiscard]] Said transmit(std::span<std::byte> out, Chunk next, TimeNs now, std::uint16_t& box);
  // Of transmit() and time_out().
  [[nodiscard]] TimeNs due() const noexcept;
  // Whether some box has just become lost, by time; of a datagram GuestNews says it.
  bool time_out(TimeNs now) noexcept;
  void was_away(TimeNs time, TimeNs now) noexcept;
  // Bitmaps of the plan's boxes, for LOST.
  [[nodiscard]] std::uint64_t gone() const noexcept { return in(GuestState::kGone); }
  [[nodiscard]] std::uint64_t forgot() const noexcept { return in(GuestState::kForgot); }

 private:
  [[nodiscard]] std::uint64_t in(GuestState state) const noexcept;

  Speaker& speaker_;
  Membership home_;
  std::deque<GuestSeat> seats_;
  std::vector<std::uint8_t> places_;
  std::size_t turn_ = 0;  // who is looked at first: nobody's pages keep another one waiting
  bool suspended_ = false;
};

}  // namespace tally::engine
