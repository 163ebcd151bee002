#pragma once
// The server's membership in one job: its seat, what of it people should hear, and what it counts. A server
// outlives its jobs: when one was aborted or all its workers have left, it waits for the next.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/datagram.h"
#include "engine/seat.h"
#include "kernels/kernels.h"
#include "ps/ps_options.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::ps {

// What a datagram means for the sums of the job.
enum class MemberNews : std::uint8_t { kNone, kSameEpoch, kEpoch, kEnded };

class ServerMember {
 public:
  // job: index in options.jobs. kernels, events and statistics must outlive the member.
  ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels, PsEventLog& events,
               PsJobStatistics& statistics);

  // JOINED, REJECT, HEARTBEAT or ABORT. What is refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const engine::Datagram& datagram, TimeNs now,
                                               MemberNews& news);

  // Tells control that the job cannot go on, and why; repeated until the epoch ends, a few times, during
  // which later words are not heard.
  void abort(const std::string& why, TimeNs now);

  void time_out(TimeNs now);
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now);  // 0: nothing is due
  [[nodiscard]] TimeNs deadline() const noexcept {
    return joining() ? seat_.due() : std::min(seat_.due(), seat_.silent_at());
  }

  [[nodiscard]] const engine::Seat& seat() const noexcept { return seat_; }
  // The newest epoch entered; nullopt: none, or its job has ended.
  [[nodiscard]] const std::optional<engine::Membership>& membership() const noexcept {
    return seat_.membership();
  }
  [[nodiscard]] bool joining() const noexcept { return seat_.state() == engine::SeatState::kJoining; }
  [[nodiscard]] std::uint64_t missing() const noexcept { return seat_.missing(); }  // ranks, while forming
  [[nodiscard]] Rank rank() const noexcept { return seat_.options().rank; }
  [[nodiscard]] const std::string& name() const noexcept { return seat_.options().job; }

 private:
  [[nodiscard]] std::optional<Refused> on_offer(const engine::SeatNews& heard, TimeNs now, MemberNews& news);
  void on_refused(const std::string& text);
  void report(std::string text) { events_.push({job_, std::move(text)}); }

  engine::Seat seat_;
  std::size_t job_;
  PsEventLog& events_;
  PsJobStatistics& statistics_;
  std::string refusal_;  // the newest one reported, until the box says something else
};

}  // namespace tally::ps
