#pragma once
// A parameter server of the native protocol (docs/protocol_server.md, 11.7) for many jobs at once, as a pure
// state machine: no socket, no clock, no thread. Bytes and time go in, datagrams go out.
//
// Contract for the caller, as with WorkerEngine:
//  * One thread at a time; time never goes back. All times are of the same monotonic clock.
//  * Loop: receive() each datagram; transmit() until it returns 0; sleep until deadline() or input. After
//    transmit() returned 0, deadline() is later than `now`. Time-outs happen inside transmit().
//  * A datagram is a UDP payload: 56-byte header and payload. transmit() writes it into memory the caller
//    lends and names the UDP destination port (kBasePort + shard) and the box's address; receive() is told the
//    address that a datagram came from. Who has one box need not know any: options.boxes is empty, and all
//    addresses are all zero.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "ps/ps_job.h"
#include "ps/ps_options.h"
#include "ps/server_member.h"
#include "ps/state_timers.h"
#include "server/merge_table.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::ps {

struct PsDestination {
  Ipv6 box{};  // as in PsOptions::boxes, in a plan, or as a box named another one
  std::uint16_t port = 0;
};

class PsEngine {
 public:
  // Joining: the first JOINs are due at once. Takes options.memory from the heap. kInvalidArgument names the
  // option that is out of range, kSystem: no such memory. `kernels` must outlive the engine.
  static Result<std::unique_ptr<PsEngine>> create(const PsOptions& options, const kernels::Kernels& kernels);
  PsEngine(const PsEngine&) = delete;
  PsEngine& operator=(const PsEngine&) = delete;
  ~PsEngine() = default;

  // Takes one datagram. Trusts nothing: what is refused changes one counter of refused().
  void receive(std::span<const std::byte> datagram, TimeNs now, const Ipv6& from);
  void receive(std::span<const std::byte> datagram, TimeNs now) { receive(datagram, now, first_); }

  // Writes the next due datagram into `out` and returns its bytes; 0: nothing is due now. `out` must hold
  // max_datagram_bytes(); a smaller one gets nothing.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, PsDestination& to);
  // The same for a caller that knows one box.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& destination_port) {
    PsDestination to;
    const std::size_t bytes = transmit(out, now, to);
    destination_port = to.port;
    return bytes;
  }

  // Earliest time at which transmit() may send something or time something out without further input; 0 when
  // that is already so.
  [[nodiscard]] TimeNs deadline() const noexcept { return queue_.empty() && !owed_ ? due_ : 0; }
  // Greater from when on a job has a plan, whose pages a server passes on.
  [[nodiscard]] std::size_t max_datagram_bytes() const noexcept {
    return planned_ ? engine::max_planned_bytes(elements_) : engine::max_datagram_bytes(elements_);
  }

  // By index in PsOptions::jobs.
  [[nodiscard]] std::size_t jobs() const noexcept { return seats_.size(); }
  [[nodiscard]] const ServerMember& member(std::size_t job) const noexcept { return seats_[job].member; }
  [[nodiscard]] const PsJobStatistics& statistics(std::size_t job) const noexcept {
    return seats_[job].statistics;
  }
  [[nodiscard]] const PsRefused& refused() const noexcept { return refused_; }
  [[nodiscard]] const server::MergeCounters& memory() const noexcept { return table_.counters(); }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return table_.capacity(); }  // states
  [[nodiscard]] std::optional<PsEvent> next_event() { return events_.pop(); }

 private:
  using Lines = std::unique_ptr<jobs::Line[]>;  // NOLINT(modernize-avoid-c-arrays)

  struct Seat {
    Seat(const PsOptions& options, std::uint16_t job, const PsShared& shared, PsEventLog& events)
        : member(options, job, shared.kernels, events, statistics),
          sums(shared, job, member.rank(), statistics) {}
    PsJobStatistics statistics;
    ServerMember member;
    PsJob sums;
    [[nodiscard]] TimeNs deadline() const noexcept { return std::min(member.deadline(), sums.deadline()); }
  };

  PsEngine(const PsOptions& options, Lines memory, std::size_t lines, const kernels::Kernels& kernels);

  // A seat at a box: 0 is the seat's home, others are its guests().
  struct Place {
    Seat* seat = nullptr;
    std::uint8_t box = 0;
  };
  // What runs at a box. A seat that entered an epoch later wins an id.
  struct Ids {
    std::array<Place, kMaxJobs + 1> by_id{};  // the box's ids
    std::vector<Place> guests;                // in no order
  };

  [[nodiscard]] std::optional<Refused> dispatch(std::span<const std::byte> datagram, TimeNs now,
                                                const Ipv6& from);
  [[nodiscard]] std::optional<Refused> dispatch_control(const engine::Datagram& datagram, TimeNs now,
                                                        const Ipv6& from);
  [[nodiscard]] std::optional<Refused> dispatch_knock(const engine::Datagram& datagram, TimeNs now,
                                                      const Ipv6& from);
  [[nodiscard]] std::optional<Refused> to_member(const Place& at, const engine::Datagram& datagram,
                                                 TimeNs now);
  [[nodiscard]] Seat* seat_of_plan(const engine::Datagram& datagram) noexcept;
  [[nodiscard]] Ids* ids_at(const Ipv6& box) noexcept;
  void enter(Seat& seat);
  void follow_boxes(Seat& seat);
  void list_places(Seat& seat);
  void forget_places(const Seat& seat);
  void notice_absence(TimeNs now) noexcept;
  void time_out(TimeNs now);

  const kernels::Kernels& kernels_;
  std::uint16_t elements_;
  Lines memory_;
  server::MergeTable table_;
  StateTimerPool timers_;
  SendQueue queue_;
  std::optional<Owed> owed_;  // taken from the queue, and written in part
  PsEventLog events_;
  std::deque<Seat> seats_;  // never moved: they refer to their own statistics
  Ipv6 first_;              // box of options.boxes, or all zero
  Ids at_first_;            // of that box
  std::map<Ipv6, Ids> at_;  // of all others that some seat knows
  bool planned_ = false;    // some job had a plan
  PsRefused refused_{};
  TimeNs due_ = 0;  // of all seats, or earlier
  TimeNs ran_at_ = kNever;
};

}  // namespace tally::ps
