#pragma once
// The chunks of one generation: operations get numbers, numbers become contributions inside the anchored
// window, results go to the program and into the history, history answers peers. Knows nothing of joining;
// its owner tells it the epoch and when data may flow.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/datagram.h"
#include "engine/engine_operation.h"
#include "engine/flight_window.h"
#include "engine/result_history.h"
#include "engine/rto.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "tally/bounded_queue.h"
#include "tally/engine_statistics.h"
#include "tally/error.h"
#include "tally/ids.h"

namespace tally::engine {

// Answers owed to peers and servers, first come first served. Small on purpose: a worker that is asked faster
// than it can answer forgets, and the peer asks another or again.

struct OwedAnswer {
  std::uint64_t index = 0;  // of the chunk
  Rank asker{};             // a peer or a server
};

using AnswerQueue = BoundedQueue<OwedAnswer, 128>;  // two askers per rank of the largest job

struct Completion {
  OperationId id{};
  Result<OperationStats> result;
};

// What ends the generation at this worker: the operation at fault and why.
struct StreamFailure {
  OperationId id{};
  Error error;
};

class ChunkStream {
 public:
  // `priority`: its class is that of operations that choose none. `kernels` and `statistics` must outlive the
  // stream.
  ChunkStream(Rank self, std::uint8_t priority, TimeNs rto_floor, const kernels::Kernels& kernels,
              EngineStatistics& statistics)
      : self_(self), priority_(priority), kernels_(kernels), statistics_(statistics), rto_(rto_floor) {}

  // A generation begins; operations that wait get their numbers. false: no memory for the history.
  [[nodiscard]] bool start(const Membership& membership);
  // Within the generation: everything without a result is offered again. Also after start().
  void enter_epoch(const Membership& membership) noexcept;
  // The generation ends and every operation with it: `error`, but `culprit` gets its own.
  void fail_all(const Error& error, const StreamFailure* culprit = nullptr);

  void submit(std::unique_ptr<EngineOperation> operation);
  [[nodiscard]] std::size_t pending() const noexcept { return operations_.size(); }
  [[nodiscard]] std::optional<Completion> next_completion();

  // Datagrams of the current epoch, sender and cookie already checked.
  [[nodiscard]] std::optional<Refused> on_result(const Datagram& datagram, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_waiting(const Header& header, TimeNs now) noexcept;
  [[nodiscard]] std::optional<Refused> on_nack(const Header& header) noexcept;
  [[nodiscard]] std::optional<Refused> on_query(const Header& header) noexcept;
  [[nodiscard]] std::optional<Refused> on_resend(const Header& header) noexcept;

  // The next due datagram; 0 when nothing is due, or when failure() is set.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& port);
  [[nodiscard]] TimeNs deadline() const noexcept;  // of transmit()
  // The caller, who was to come at `awaited`, did not run until now: what has arrived meanwhile comes before
  // timers and questions. But not again where nothing but that was waited for: who is always late would never
  // repair anything.
  void was_away(TimeNs awaited, TimeNs now) noexcept {
    if (awaited > patient_until_) patient_until_ = now + kLeastEarly;
  }
  // The newest result of the epoch.
  [[nodiscard]] std::optional<TimeNs> answered_at() const noexcept { return answered_at_; }
  [[nodiscard]] TimeNs first_expiry() const noexcept {
    return first_expiry_;
  }  // of an operation's own deadline
  [[nodiscard]] const EngineOperation* expired(TimeNs now) const noexcept;

  // Set by on_result and transmit; the owner answers with fail_all, which clears it.
  [[nodiscard]] const std::optional<StreamFailure>& failure() const noexcept { return failure_; }

  [[nodiscard]] Chunk lowest_chunk() const noexcept { return wire(window_.lowest()); }
  [[nodiscard]] Chunk next_chunk() const noexcept { return wire(window_.offered_end()); }
  [[nodiscard]] std::uint64_t missing() const noexcept { return missing_; }

 private:
  [[nodiscard]] Chunk wire(std::uint64_t index) const noexcept {
    return membership_.first_chunk + static_cast<std::uint32_t>(index);
  }
  // Index of a wire number near the window, or nothing if it lies before the generation's first chunk.
  [[nodiscard]] std::optional<std::uint64_t> index_of(Chunk chunk) const noexcept;

  // Sequences of all shards in one row, in which those that were used lately are close together.
  [[nodiscard]] std::uint64_t number_of(std::uint32_t sequence, std::uint32_t shard) const noexcept {
    return std::uint64_t{sequence} * membership_.shards + shard;
  }
  void number(EngineOperation& operation) noexcept;
  [[nodiscard]] EngineOperation* operation_of(std::uint64_t index) noexcept;
  [[nodiscard]] bool blocked(const Flight& flight) const noexcept;
  void unblock(const Flight& finished) noexcept;
  // E(j); meaningless for int32. Only for a data chunk that is not blocked.
  [[nodiscard]] int exponent_of(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept;

  enum class Cause : std::uint8_t { kNew, kTimer, kEarly, kWanted, kServer };
  struct Due {
    Flight* flight = nullptr;
    Cause cause = Cause::kNew;
  };
  [[nodiscard]] Due next_due(TimeNs now) noexcept;
  [[nodiscard]] Flight* in_flight(std::uint64_t index) noexcept;
  void restart_slowly(TimeNs now) noexcept;
  [[nodiscard]] bool overtaken(const Flight& flight) const noexcept;
  // RESULTs name all that are finished before them: what is not named is not there yet.
  [[nodiscard]] bool box_tells() const noexcept {
    return membership_.world > 1 && !shares_slots(membership_.discipline);
  }
  // When the oldest sending is due: overtaken, for a question, else its timer.
  [[nodiscard]] TimeNs due_of(const Flight& oldest) const noexcept {
    if (overtaken(oldest)) return std::max(rto_.ask_due(oldest.sent_at, membership_.window), patient_until_);
    const TimeNs since = window_.waits_since(oldest, membership_.shard_of(wire(oldest.index)));
    return std::max({rto_.due(since), rto_.pause_end(membership_.window), patient_until_});
  }
  // When a question is due for what waits for the repair of another rank's loss.
  [[nodiscard]] TimeNs repair_due(const Flight& flight) const noexcept {
    if (window_.unrepaired(flight, membership_.shard_of(wire(flight.index)))) return 0;
    return std::max(rto_.repair_due(flight.unfinished_at), patient_until_);
  }
  // When a question for it is due that was asked for before.
  [[nodiscard]] TimeNs question_due(const Flight& flight) const noexcept {
    const bool told = box_tells();
    if (told && window_.unanswered(flight, membership_.shard_of(wire(flight.index)))) return 0;
    return std::max(rto_.question_due(flight.sent_at, flight.early, told, membership_.window),
                    patient_until_);
  }
  // The same of the lowest chunk, whose window may be at its end: then nothing follows that shows a loss.
  [[nodiscard]] TimeNs lowest_due(const Flight& flight) const noexcept {
    const TimeNs moved = std::max(flight.sent_at, answered_at_.value_or(0));
    const TimeNs due = flight.early == 0 ? rto_.first_due(moved, membership_.window)
                                         : rto_.question_due(flight.sent_at, flight.early,
                                                             box_tells() && !at_rest(), membership_.window);
    return std::max(due, patient_until_);
  }
  [[nodiscard]] bool at_rest() const noexcept;
  // After seven questions, in turn to the box, its server and peers, and again after each eight: the last one
  // had no answer. A full memory may have forgotten the chunk, and its timer stands behind the questions.
  [[nodiscard]] bool unheard(const Flight& flight) const noexcept {
    return flight.asking && !flight.gone && flight.early % 8 == 7;
  }
  [[nodiscard]] bool turn_to_query(const Flight& flight) const noexcept;
  [[nodiscard]] Rank peer_to_query(const Flight& flight) const noexcept;
  [[nodiscard]] Header data_header(PacketType type, std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint8_t priority_of(const EngineOperation& operation) const noexcept;
  [[nodiscard]] bool put_exponent(Flight& flight);
  [[nodiscard]] std::size_t write_contribution(Flight& flight, Cause cause, std::span<std::byte> out,
                                               TimeNs now);
  // peers: the bit of the one that is asked; 0: the box alone.
  [[nodiscard]] std::size_t write_query(Flight& flight, Cause cause, std::uint64_t peers,
                                        std::span<std::byte> out, TimeNs now);
  [[nodiscard]] std::size_t write_answer(const OwedAnswer& owed, std::span<std::byte> out) const noexcept;
  [[nodiscard]] std::size_t write_gone(const OwedAnswer& owed, std::span<std::byte> out) const noexcept;
  // The data chunk's E lacks this rank, whose own block exceeds it.
  [[nodiscard]] bool exceeds(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept;

  [[nodiscard]] std::optional<Refused> judge(const Datagram& datagram, Flight& flight);
  [[nodiscard]] std::optional<Refused> judge_contributors(const Header& header) const noexcept;
  [[nodiscard]] bool says_gone(const Header& header) const noexcept;
  [[nodiscard]] std::optional<Refused> on_gone(const Header& header, Flight& flight, TimeNs now);
  // With stragglers a peer may ask for what lies further back than any history.
  [[nodiscard]] bool forgotten(std::uint64_t index) const noexcept {
    return membership_.stragglers && index < window_.lowest() && history_.find(index) == nullptr;
  }
  [[nodiscard]] int shift_of(const EngineOperation& operation) const noexcept {
    return shifts_[operation.values_of_word() - 1];
  }
  void refuse_not_a_number(const EngineOperation& operation, std::uint64_t data_chunk);
  [[nodiscard]] Refused strike(Flight& flight, Refused why);
  void accept(const Datagram& datagram, Flight& flight, TimeNs now);
  void heed(const Header& header, std::uint64_t index, TimeNs now) noexcept;
  void complete(const EngineOperation& operation, TimeNs now);
  void find_first_expiry() noexcept;

  Rank self_;
  std::uint8_t priority_;
  const kernels::Kernels& kernels_;
  EngineStatistics& statistics_;
  Membership membership_;  // of the current epoch
  Header of_epoch_;        // what all datagrams of this rank have in common in it
  bool started_ = false;
  std::array<int, 2> shifts_{};  // sum_shift(world, dtype), for words and for halves
  FlightWindow window_;
  std::array<std::uint32_t, kMaxShards> sequences_{};  // of the newest contribution of the epoch
  ResultHistory history_;
  Rto rto_;
  std::optional<TimeNs> answered_at_;  // newest result of the epoch
  TimeNs patient_until_ = 0;           // no timer is believed before
  TimeNs gone_since_ = kNever;         // of those that peers have forgotten none came since
  AnswerQueue answers_;
  AnswerQueue direct_;                                       // contributions owed to servers
  std::deque<std::unique_ptr<EngineOperation>> operations_;  // in order of submission and of number
  std::uint64_t numbered_end_ = 0;                           // index the next operation begins at
  EngineOperation* taken_up_ = nullptr;                      // the operation of the newest chunk taken up
  std::deque<Completion> completions_;
  TimeNs first_expiry_ = kNever;
  std::optional<StreamFailure> failure_;
  std::uint64_t missing_ = 0;        // in the last REJECT(waiting) of the oldest chunk it was said of
  std::uint64_t missing_index_ = 0;  // the chunk it spoke of
};

}  // namespace tally::engine
