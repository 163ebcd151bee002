#pragma once
// The server's membership in one job: its seat at the home, those at the other boxes of the job's plan, what of it
// people should hear, and what it counts. A server outlives its jobs: when one was aborted or all its workers have
// left, it waits for the next.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/datagram.h"
#include "engine/guest_seat.h"
#include "engine/seat.h"
#include "kernels/kernels.h"
#include "ps/ps_options.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::ps {

// What a datagram means for the sums of the job. kBoxes: at another box of the plan the server has become a member, or
// is none any more.
enum class MemberNews : std::uint8_t { kNone, kSameEpoch, kEpoch, kBoxes, kEnded };

class ServerMember {
 public:
  // job: index in options.jobs. kernels, events and statistics must outlive the member.
  ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels, PsEventLog& events,
               PsJobStatistics& statistics);

  // JOINED, CHALLENGE, PLAN, REJECT, HEARTBEAT or ABORT of a box: 0 is the home, others are as in guests(). What is
  // refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const engine::Datagram& datagram, std::size_t box, TimeNs now,
                                               MemberNews& news);
  // Data: job, epoch and result cookie are this epoch's at that box.
  [[nodiscard]] std::optional<Refused> check_current(const Header& header, std::size_t box) const noexcept {
    return box == 0 ? seat_.check_current(header) : guests_.at(box).check_current(header);
  }
  // It was right, and of the box's own making.
  void heard(std::size_t box, TimeNs now) noexcept {
    if (box != 0) guests_.at(box).heard(now);
  }

  // Tells control of the home that the job cannot go on, and why; repeated until the epoch ends, a few times, during
  // which later words are not heard.
  void abort(const std::string& why, TimeNs now);

  // kBoxes, if one has just become lost.
  [[nodiscard]] MemberNews time_out(TimeNs now);
  // The caller did not run for `time` until now: that was not the silence of boxes whose limit is short.
  void was_away(TimeNs time, TimeNs now) noexcept;
  // 0: nothing is due. box: where it goes.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, Ipv6& box);
  [[nodiscard]] TimeNs deadline() const noexcept {
    const TimeNs home = joining() ? seat_.due() : std::min(seat_.due(), seat_.silent_at());
    return std::min(home, guests_due_);
  }

  [[nodiscard]] const engine::Seat& seat() const noexcept { return seat_; }
  [[nodiscard]] const engine::GuestSeats& guests() const noexcept { return guests_; }
  // Where datagrams of a box come from: 0, the home of the newest epoch; all zero, where the transport knows it.
  [[nodiscard]] const Ipv6& address(std::size_t box) const noexcept {
    return box == 0 ? home_ : membership()->plan->plan.boxes[guests_.at(box).box()];
  }
  // Which of the plan's boxes; without a plan 0. The home may be none of them: PlannedText::kNoBox.
  [[nodiscard]] BoxIndex in_plan(std::size_t box) const noexcept {
    if (box != 0) return guests_.at(box).box();
    return membership()->plan ? membership()->home_box : BoxIndex{0};
  }
  // The newest epoch entered; nullopt: none, or its job has ended.
  [[nodiscard]] const std::optional<engine::Membership>& membership() const noexcept {
    return seat_.membership();
  }
  [[nodiscard]] bool joining() const noexcept { return seat_.state() == engine::SeatState::kJoining; }
  [[nodiscard]] std::uint64_t missing() const noexcept { return seat_.missing(); }  // ranks, while forming
  [[nodiscard]] Rank rank() const noexcept { return seat_.options().rank; }
  [[nodiscard]] const std::string& name() const noexcept { return seat_.options().job; }

 private:
  [[nodiscard]] std::optional<Refused> on_guest(const engine::Datagram& datagram, std::size_t box, TimeNs now,
                                                MemberNews& news);
  [[nodiscard]] std::optional<Refused> on_offer(const engine::SeatNews& heard, TimeNs now, MemberNews& news);
  void on_refused(const std::string& text);
  void say_once(const std::string& text);
  void join_again(TimeNs now);
  [[nodiscard]] bool time_out_guests(TimeNs now);
  void lost(std::size_t box, const std::string& why, TimeNs now);
  void report(std::string text) { events_.push({job_, std::move(text)}); }

  engine::Seat seat_;
  engine::GuestSeats guests_;
  TimeNs guests_due_ = kNever;  // or earlier than it is
  Ipv6 home_{};
  std::size_t path_bytes_;
  std::size_t job_;
  PsEventLog& events_;
  PsJobStatistics& statistics_;
  std::string
      refusal_;  // why it is no member, as was said last; empty again when the box says something else
};

}  // namespace tally::ps
