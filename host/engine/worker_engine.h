#pragma once
// The worker of the native protocol (docs/protocol.md, 5 to 10) as a pure state machine: no socket, no clock,
// no thread. Bytes and time go in, datagrams and completions come out; the same code runs under UDP, DPDK,
// a fuzzer and the simulator.
//
// Contract for the caller:
//  * One thread at a time; time never goes back. All times are of the same monotonic clock.
//  * Loop: receive() each datagram; transmit() until it returns 0; take next_completion() until empty; sleep
//    until deadline() or input. After transmit() returned 0, deadline() is later than `now`. Time-outs
//    (lease, operations) happen inside transmit(), so call it at deadline() also when nothing is to be sent.
//  * A caller that comes much later than deadline() was starved or stopped: that time does not count as the
//    box's silence, and no timer is believed before what has arrived meanwhile could be received.
//  * A datagram is a UDP payload: 56-byte header and payload. transmit() writes it into memory the caller
//    lends and names the UDP destination port (kBasePort + shard) and the box, as an index into boxes(); where there
//    is one box, its address is the transport's business.
//  * Spans of an operation stay the caller's, alive and untouched from submission to completion. Input and
//    output are the same memory (in place) or do not overlap. After an error the output is unspecified.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"
#include "engine/guest_seat.h"
#include "engine/seat.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "tally/engine_statistics.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

// While it joins, operations are queued. Closed: see why_closed(); only rejoin() leads out.
using EngineState = SeatState;

class WorkerEngine {
 public:
  // Joining: the first JOIN is due at once. kInvalidArgument names the option that is out of range.
  // `kernels` must outlive the engine.
  static Result<std::unique_ptr<WorkerEngine>> create(EngineOptions options, const kernels::Kernels& kernels);
  WorkerEngine(const WorkerEngine&) = delete;
  WorkerEngine& operator=(const WorkerEngine&) = delete;
  ~WorkerEngine() = default;

  // Takes one datagram. Trusts nothing: what is refused changes one counter of statistics().refused. box: whose
  // address it came from, as an index into boxes().
  void receive(std::span<const std::byte> datagram, TimeNs now, std::size_t box = 0) noexcept;

  // Writes the next due datagram into `out` and returns its bytes; 0: nothing is due now. `out` must hold
  // max_datagram_bytes(); a smaller one gets nothing.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, Destination& to);
  // The same for a caller that knows one box: all that is said goes there.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& destination_port) {
    Destination to;
    const std::size_t bytes = transmit(out, now, to);
    destination_port = to.port;
    return bytes;
  }

  // Addresses of the boxes that it speaks to. 0: where it joins, the home of the job, all zero if options.boxes was
  // empty; behind it, while an epoch has a plan, the plan's other boxes. The list, or what guest() knows, is another one when
  // boxes_version() is: after receive(), or after transmit(), whose datagram is of the list that follows.
  [[nodiscard]] std::span<const Ipv6> boxes() const noexcept { return boxes_; }
  [[nodiscard]] std::uint32_t boxes_version() const noexcept { return boxes_version_; }
  // Of boxes()[box]. The home's MAC is in membership(). box: 1..boxes().size() - 1.
  [[nodiscard]] const GuestSeat& guest(std::size_t box) const noexcept { return guests_.at(box); }
  [[nodiscard]] const BoxTraffic& traffic(std::size_t box) const noexcept { return stream_.traffic(box); }

  // Earliest time at which transmit() may send something or time something out without further input; 0 when
  // that is already so, kNever if never.
  [[nodiscard]] TimeNs deadline() const noexcept;

  // Upper bound of every datagram this engine writes. It follows from the elements it wished for; greater from when on
  // an epoch has a plan, if that is for more than one box, whose pages it passes on.
  [[nodiscard]] std::size_t max_datagram_bytes() const noexcept {
    const std::uint16_t elements = seat_.options().elements;
    return guests_.size() == 0 ? engine::max_datagram_bytes(elements) : max_planned_bytes(elements);
  }

  // Sums element by element over all ranks. All ranks issue the same operations in the same order. A list of
  // segments is one operation over their concatenation; segments may be empty, and so may the list. Errors:
  // kInvalidArgument (no such priority, what only floats have), kClosed (closed or leaving).
  Result<OperationId> allreduce(ElementType type, std::vector<Segment> segments, TimeNs now,
                                const OperationOptions& options = {});
  // Output spans have the sizes of the input spans; else kInvalidArgument.
  Result<OperationId> allreduce(std::span<const std::span<const float>> in,
                                std::span<const std::span<float>> out, TimeNs now,
                                const OperationOptions& options = {});
  Result<OperationId> allreduce(std::span<const std::span<const std::int32_t>> in,
                                std::span<const std::span<std::int32_t>> out, TimeNs now,
                                const OperationOptions& options = {});
  // In place.
  Result<OperationId> allreduce(std::span<const std::span<float>> spans, TimeNs now,
                                const OperationOptions& options = {});
  Result<OperationId> allreduce(std::span<const std::span<std::int32_t>> spans, TimeNs now,
                                const OperationOptions& options = {});
  Result<OperationId> allreduce(std::span<float> values, TimeNs now, const OperationOptions& options = {});
  Result<OperationId> allreduce(std::span<std::int32_t> values, TimeNs now,
                                const OperationOptions& options = {});

  // Complete when every rank has issued it, whatever the job says of stragglers: an operation without values.
  Result<OperationId> barrier(TimeNs now, const OperationOptions& options = {});

  // The next finished operation, in order of finishing; each is handed out once.
  [[nodiscard]] std::optional<Completion> next_completion() { return stream_.next_completion(); }
  [[nodiscard]] std::size_t pending_operations() const noexcept;  // submitted and not finished

  // Fails everything pending with kAborted and the reason, tells control (which tells the other ranks),
  // closes.
  void abort(std::string_view reason, TimeNs now);

  // Orderly end: no new operations; when all results are in, a barrier; then LEAVE, repeated until the box
  // echoes it or five were sent; then closed with kClosed.
  void leave(TimeNs now);

  // Only when closed (otherwise kInvalidArgument): joins again as a new membership, with a fresh generation.
  Result<void> rejoin(TimeNs now);

  [[nodiscard]] EngineState state() const noexcept { return seat_.state(); }
  [[nodiscard]] const Error& why_closed() const noexcept { return why_closed_; }  // meaningful when closed
  // The newest JOINED(running); nullopt before the first. While joining again: the former one.
  [[nodiscard]] const std::optional<Membership>& membership() const noexcept { return seat_.membership(); }
  // Bitmap of ranks that progress waits for, as far as the box said: joining: not joined yet; running: absent
  // from the oldest chunk that a REJECT(waiting) spoke of. 0: unknown or none.
  [[nodiscard]] std::uint64_t missing() const noexcept {
    return state() == EngineState::kJoining ? seat_.missing() : stream_.missing();
  }
  // In a job of racks bitmaps are of the own rack: what the program calls rank 0 of them.
  [[nodiscard]] std::uint32_t first_rank() const noexcept { return seat_.first_rank(); }
  [[nodiscard]] std::uint64_t live() const noexcept { return live_; }  // bitmap in the last heartbeat echo
  [[nodiscard]] const EngineStatistics& statistics() const noexcept { return statistics_; }

 private:
  enum class Leaving : std::uint8_t { kNo, kDraining, kBarrier, kSaying };

  WorkerEngine(EngineOptions options, const kernels::Kernels& kernels);

  Result<OperationId> submit(ElementType type, std::vector<Segment> segments, TimeNs now,
                             const OperationOptions& options);
  void add(ElementType type, Dtype dtype, std::vector<Segment> segments, TimeNs now,
           const OperationOptions& options, bool reported);

  // Receiving, by type. What is refused changes nothing.
  [[nodiscard]] std::optional<Refused> dispatch(const Datagram& datagram, TimeNs now, std::size_t box);
  [[nodiscard]] std::optional<Refused> on_control(const Datagram& datagram, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_guest(const Datagram& datagram, TimeNs now, std::size_t box);
  void on_offer(const SeatNews& news, TimeNs now);
  void on_refused(const SeatNews& news);

  // Sending.
  void notice_absence(TimeNs now) noexcept;
  void time_out(TimeNs now);
  [[nodiscard]] TimeNs doubtful_at() const noexcept;
  void ask_again(TimeNs now);
  void tell_lost(TimeNs now);
  void list_boxes();
  [[nodiscard]] std::size_t transmit_control(std::span<std::byte> out, TimeNs now, Destination& to);

  [[nodiscard]] bool somebody_left() const noexcept;
  void settle(TimeNs now);  // after any input: failures of the stream, next step of leaving
  void close(Error error);
  void fail_job(const Error& error, const StreamFailure* culprit, TimeNs now);  // closes and tells control

  Seat seat_;
  const kernels::Kernels& kernels_;
  EngineStatistics statistics_;
  GuestSeats guests_;
  ChunkStream stream_;
  std::vector<Ipv6> boxes_;
  std::uint32_t boxes_version_ = 0;
  std::uint32_t address_version_ = 0;  // of the seat, as boxes_ has it
  std::uint64_t lost_in_epoch_ = 0;    // boxes of the plan
  Error why_closed_{};
  std::uint64_t last_operation_ = 0;
  TimeNs joining_since_ = 0;
  TimeNs ran_at_ = kNever;  // when the caller came last; kNever: not yet
  std::uint64_t live_ = 0;
  Leaving leaving_ = Leaving::kNo;
};

}  // namespace tally::engine
