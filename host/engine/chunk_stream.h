#pragma once
// The chunks of one generation: operations get numbers, numbers become contributions inside the anchored
// window, results go to the program and into the history, history answers peers. Knows nothing of joining;
// its owner tells it the epoch and when data may flow. Of a job over several boxes the plan says which way a chunk
// takes: to which box, and who finishes it. The order of packets, and round trips, mean something within one way, and
// what waits for one keeps no chunk of another one waiting.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
#include "tally/net.h"
#include "tally/plan.h"
#include "tally/rows.h"
#include "tally/zero_run.h"

namespace tally::engine {

// Answers owed to peers and servers, first come first served. Small on purpose: a worker that is asked faster
// than it can answer forgets, and the peer asks another or again.

struct OwedAnswer {
  std::uint64_t index = 0;  // of the chunk
  Rank asker{};             // a peer or a server
  std::uint8_t box = 0;     // through which it asked
};

using AnswerQueue = BoundedQueue<OwedAnswer, 128>;  // two askers per rank of the largest job

// Where a datagram goes: a box in the order of WorkerEngine::boxes(), and its UDP port.
struct Destination {
  std::uint16_t box = 0;
  std::uint16_t port = kBasePort;
};

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
  ChunkStream(std::uint8_t priority, TimeNs rto_floor, const kernels::Kernels& kernels,
              EngineStatistics& statistics)
      : priority_(priority), rto_floor_(rto_floor), kernels_(kernels), statistics_(statistics) {
    ways_.emplace_back(rto_floor);
  }

  // A generation begins; operations that wait get their numbers. false: no memory for the history.
  [[nodiscard]] bool start(const Membership& membership);
  // Within the generation: everything without a result is offered again. Also after start(). boxes: addresses, the
  // home first, as places_of() has them; of the others chunks wait until they are opened.
  void enter_epoch(const Membership& membership, std::span<const Ipv6> boxes);
  // box: behind the home. It knows this rank: data may flow. And: nothing is sent to it any more in this epoch.
  void open_box(std::size_t box, JobId job, std::uint32_t shards) noexcept;
  void shut_box(std::size_t box) noexcept;
  // The generation ends and every operation with it: `error`, but `culprit` gets its own.
  void fail_all(const Error& error, const StreamFailure* culprit = nullptr);

  void submit(std::unique_ptr<EngineOperation> operation);
  [[nodiscard]] std::size_t pending() const noexcept { return operations_.size(); }
  [[nodiscard]] std::optional<Completion> next_completion();

  // Datagrams of the current epoch, sender and cookie already checked; box: that they came from.
  [[nodiscard]] std::optional<Refused> on_result(const Datagram& datagram, TimeNs now, std::size_t box = 0);
  [[nodiscard]] std::optional<Refused> on_zero_run(const Datagram& datagram, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_waiting(const Header& header, TimeNs now,
                                                  std::size_t box = 0) noexcept;
  [[nodiscard]] std::optional<Refused> on_nack(const Header& header, std::size_t box = 0) noexcept;
  [[nodiscard]] std::optional<Refused> on_query(const Header& header, std::size_t box = 0) noexcept;
  [[nodiscard]] std::optional<Refused> on_resend(const Header& header, std::size_t box = 0) noexcept;

  // The next due datagram; 0 when nothing is due, or when failure() is set.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now, Destination& to);
  [[nodiscard]] TimeNs deadline() const noexcept;  // of transmit()
  // The caller, who was to come at `awaited`, did not run until now: what has arrived meanwhile comes before
  // timers and questions. But not again where nothing but that was waited for: who is always late would never
  // repair anything.
  void was_away(TimeNs awaited, TimeNs now) noexcept {
    if (awaited > patient_until_) patient_until_ = now + kLeastEarly;
  }
  // The newest result of the epoch that came from the home.
  [[nodiscard]] std::optional<TimeNs> answered_at() const noexcept { return boxes_.front().answered_at; }
  [[nodiscard]] const BoxTraffic& traffic(std::size_t box) const noexcept { return boxes_[box].traffic; }
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

  // A box that chunks go to.
  struct StreamBox {
    Ipv6 address{};
    std::optional<TimeNs> answered_at;  // newest result of the epoch
    JobId job{};                        // as this box names it
    std::uint32_t shards = 1;
    bool open = false;
    BoxTraffic traffic;
    std::array<std::uint32_t, kMaxShards> sequences{};  // of the newest contribution of the epoch
  };

  // Through a box, and to who finishes the chunks behind it: a queue in front of one server tells nothing of the
  // next one, and of a box that finishes alone.
  struct Way {
    static constexpr std::uint8_t kAtBox = 0xFF;  // finished there
    static constexpr std::uint8_t kAnywhere =
        0xFE;  // by whomever: there are too many ways to tell them apart
    explicit Way(TimeNs rto_floor) noexcept : rto(rto_floor) {}
    Ipv6 address{};  // of the box
    std::uint8_t box = 0;
    std::uint8_t end = kAnywhere;  // or the number of a server
    Rto rto;
    std::optional<TimeNs> answered_at;  // newest result of the epoch
    std::uint32_t window = 0;           // the part of the window that its groups of chunks are
  };
  static constexpr std::size_t kMostWays = kMaxPlanBoxes;

  [[nodiscard]] std::uint8_t way_of(std::uint64_t index) const noexcept {
    return routes_ ? (*routes_)[plan_group(wire(index))] : std::uint8_t{0};
  }
  [[nodiscard]] std::uint8_t box_of(std::uint64_t index) const noexcept { return ways_[way_of(index)].box; }
  void put_on_way(Flight& flight) const noexcept {
    flight.way = way_of(flight.index);
    flight.box = ways_[flight.way].box;
  }
  [[nodiscard]] std::uint32_t shard_at(const StreamBox& box, std::uint64_t index) const noexcept {
    return routes_ ? shard_of_slot(membership_.slot_of(wire(index)), box.shards)
                   : membership_.shard_of(wire(index));
  }
  [[nodiscard]] std::uint32_t lane_of(const Flight& flight) const noexcept {
    return kMaxShards * flight.way + shard_at(box_at(flight), flight.index);
  }
  [[nodiscard]] bool goes_to(const Flight& flight, std::size_t box, std::uint32_t shard) const noexcept {
    return flight.box == box && shard_at(boxes_[box], flight.index) == shard;
  }
  [[nodiscard]] StreamBox& box_at(const Flight& flight) noexcept { return boxes_[flight.box]; }
  [[nodiscard]] const StreamBox& box_at(const Flight& flight) const noexcept { return boxes_[flight.box]; }
  [[nodiscard]] Way& way_at(const Flight& flight) noexcept { return ways_[flight.way]; }
  [[nodiscard]] const Way& way_at(const Flight& flight) const noexcept { return ways_[flight.way]; }
  void put_destination(std::uint64_t index, std::uint8_t box, Destination& to) const noexcept {
    to.box = box;
    to.port = static_cast<std::uint16_t>(kBasePort + shard_at(boxes_[box], index));
  }
  void put_boxes(std::span<const Ipv6> boxes);
  void put_ways();
  [[nodiscard]] std::vector<Way> ways_of(const Plan& plan);

  // Sequences of all shards of a box in one row, in which those that were used lately are close together.
  [[nodiscard]] static std::uint64_t number_of(std::uint32_t sequence, std::uint32_t shard,
                                               std::uint32_t shards) noexcept {
    return std::uint64_t{sequence} * shards + shard;
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
  [[nodiscard]] Due timed_due(std::size_t way, TimeNs now) noexcept;
  [[nodiscard]] Flight* in_flight(std::uint64_t index) noexcept;
  void restart_slowly(TimeNs now) noexcept;
  [[nodiscard]] TimeNs longest_timeout() const noexcept;
  [[nodiscard]] bool overtaken(const Flight& flight) const noexcept;
  // RESULTs name all that are finished before them: what is not named is not there yet.
  [[nodiscard]] bool box_tells() const noexcept {
    return membership_.world > 1 && !shares_slots(membership_.discipline);
  }
  // When the oldest sending is due: overtaken, for a question, else its timer.
  [[nodiscard]] TimeNs due_of(const Flight& oldest) const noexcept {
    const Way& way = way_at(oldest);
    if (overtaken(oldest)) return std::max(way.rto.ask_due(oldest.sent_at, way.window), patient_until_);
    const TimeNs since = window_.waits_since(oldest, lane_of(oldest));
    return std::max({way.rto.due(since), way.rto.pause_end(way.window), patient_until_});
  }
  // When a question is due for what waits for the repair of another rank's loss.
  [[nodiscard]] TimeNs repair_due(const Flight& flight) const noexcept {
    if (window_.unrepaired(flight, lane_of(flight))) return 0;
    return std::max(way_at(flight).rto.repair_due(flight.unfinished_at), patient_until_);
  }
  // When a question for it is due that was asked for before.
  [[nodiscard]] TimeNs question_due(const Flight& flight) const noexcept {
    const bool told = box_tells();
    if (told && window_.unanswered(flight, lane_of(flight))) return 0;
    const Way& way = way_at(flight);
    return std::max(way.rto.question_due(flight.sent_at, flight.early, told, way.window), patient_until_);
  }
  // The same of the lowest chunk, whose window may be at its end: then nothing follows that shows a loss.
  [[nodiscard]] TimeNs lowest_due(const Flight& flight) const noexcept {
    const Way& way = way_at(flight);
    const TimeNs moved = std::max(flight.sent_at, way.answered_at.value_or(0));
    const TimeNs due = flight.early == 0 ? way.rto.first_due(moved, way.window)
                                         : way.rto.question_due(flight.sent_at, flight.early,
                                                                box_tells() && !at_rest(), way.window);
    return std::max(due, patient_until_);
  }
  [[nodiscard]] bool at_rest() const noexcept;
  // Chunks that may be sent for the first time.
  [[nodiscard]] bool anything_new() const noexcept {
    const std::uint64_t limit = window_.limit();
    const std::uint64_t cursor = window_.cursor();
    const bool waits = cursor == zeros_.index && limit < zeros_.end && limit - cursor < least_room();
    return cursor < std::min(limit, numbered_end_) && !waits;
  }
  // After seven questions, in turn to the box, its server and peers, and again after each eight: the last one
  // had no answer. A full memory may have forgotten the chunk, and its timer stands behind the questions.
  [[nodiscard]] bool unheard(const Flight& flight) const noexcept {
    return flight.asking && !flight.gone && flight.early % 8 == 7;
  }
  [[nodiscard]] bool turn_to_query(const Flight& flight) const noexcept;
  // Whom a QUERY names.
  struct Peer {
    std::uint64_t bit = 0;                   // 0: nobody, the box alone is asked
    std::optional<std::uint32_t> elsewhere;  // the bit is another rack's: which rank there
  };
  [[nodiscard]] Peer peer_to_query(const Flight& flight) const noexcept;
  [[nodiscard]] Rank peer_here(std::uint32_t step) const noexcept;
  [[nodiscard]] Header data_header(PacketType type, std::uint64_t index, std::uint8_t box) const noexcept;
  [[nodiscard]] std::uint8_t priority_of(const EngineOperation& operation) const noexcept;
  [[nodiscard]] bool put_exponent(Flight& flight);
  [[nodiscard]] std::size_t write_contribution(Flight& flight, Cause cause, std::span<std::byte> out,
                                               TimeNs now);
  // Dense values pay for a word of one row, another row of each chunk. All rows are looked at only if that one is zeros,
  // or those of a chunk shortly before were worth it.
  [[nodiscard]] bool may_have_zero_rows(std::uint64_t index,
                                        std::span<const std::byte> values) const noexcept {
    if (looks_ != 0) return true;
    const std::uint64_t rows = values.size() / kRowBytes;
    const std::uint64_t any = (static_cast<std::uint32_t>(index) * 0x9E3779B1U) * rows >> 32;
    const std::byte* const row = values.data() + kRowBytes * any;
    return wire_at<std::uint64_t>(row) == 0 && is_zero_row(row);
  }
  // Bytes of the values in whichever form is shorter (docs/protocol_sparse.md); and chunks of which there is nothing
  // to say, in the packet of the first of them.
  [[nodiscard]] std::size_t without_zero_rows(std::span<std::byte> values) noexcept;
  [[nodiscard]] bool joins_run(const Flight& flight, const EngineOperation& operation) const noexcept;
  // The next chunk is of zeros, and the window cuts off what could be said along with it: it waits until the window has
  // moved on by a part. The first chunk without a result never waits. Where none of the last chunks were of zeros it is
  // not asked: dense values pay for a comparison.
  [[nodiscard]] bool waits_for_room() noexcept {
    if (zeros_lately_ == 0 || window_.limit() - window_.cursor() >= least_room()) return false;
    return next_is_cut_off();
  }
  [[nodiscard]] bool next_is_cut_off() noexcept;
  // Of what is sent for the first time: values that are zeros are remembered for kLately chunks. Chunks that have none,
  // which go ahead of dense values, too, say nothing.
  void note_values(const Flight& flight) noexcept;
  [[nodiscard]] std::uint32_t least_room() const noexcept {
    constexpr std::uint32_t kPart = 4;  // of the window
    return std::min(kMostOfRun * membership_.shards, membership_.window / kPart);
  }
  // What goes along with the chunk `base`: all that the run names, and their exponents. 0: an element is no number,
  // failure_ says which.
  [[nodiscard]] std::uint64_t send_along(std::uint64_t base, TimeNs now, RunExponents& exponents);
  // header: of the chunk `base` alone. Of it and what goes along; 0 as above.
  [[nodiscard]] std::size_t write_run(Header header, std::uint64_t base, std::span<std::byte> out,
                                      TimeNs now);
  [[nodiscard]] RunSums run_sums(std::uint64_t base, std::uint64_t chunks, std::uint32_t key,
                                 std::span<const std::byte> payload) const noexcept;
  [[nodiscard]] std::size_t write_query(Flight& flight, Cause cause, const Peer& peer,
                                        std::span<std::byte> out, TimeNs now);
  [[nodiscard]] std::size_t write_answer(const OwedAnswer& owed, std::span<std::byte> out) const noexcept;
  [[nodiscard]] std::size_t write_gone(const OwedAnswer& owed, std::span<std::byte> out) const noexcept;
  // The data chunk's E lacks this rank, whose own block exceeds it.
  [[nodiscard]] bool exceeds(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept;

  [[nodiscard]] std::optional<Refused> judge(const Datagram& datagram, Flight& flight);
  [[nodiscard]] std::optional<Refused> judge_form(const Header& header, Flight& flight, std::uint64_t ranks);
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
  // values: dense. first: of its packet, which tells nothing more of the others.
  void accept(const Header& header, std::span<const std::byte> values, Flight& flight, TimeNs now,
              bool first = true);
  void heed(const Header& header, std::uint64_t index, TimeNs now) noexcept;
  void complete(const EngineOperation& operation, TimeNs now);
  void find_first_expiry() noexcept;

  Rank self_{};  // as bitmaps have it
  std::uint8_t priority_;
  TimeNs rto_floor_;
  const kernels::Kernels& kernels_;
  EngineStatistics& statistics_;
  Membership membership_;  // of the current epoch
  Header of_epoch_;        // what all datagrams of this rank have in common in it
  bool started_ = false;
  // Zeros come in company: what one chunk had is looked for in so many chunks behind it.
  static constexpr std::uint32_t kLately = 16;
  std::uint32_t looks_ = 0;  // chunks whose rows are looked at, as those of one before them were worth it
  // A chunk that waits for room, and the end of its operation.
  struct Zeros {
    std::uint64_t index = ~std::uint64_t{0};
    std::uint64_t end = 0;
  };
  Zeros zeros_;
  std::uint32_t zeros_lately_ = 0;  // chunks after the last one of zeros for which it counts
  std::array<int, 2> shifts_{};     // sum_shift(world, dtype), for words and for halves
  FlightWindow window_;
  ResultHistory history_;
  // Of this epoch, one at least of each.
  std::vector<StreamBox> boxes_ = std::vector<StreamBox>(1);
  std::vector<Way> ways_;
  std::unique_ptr<std::array<std::uint8_t, kPlanGroups>> routes_;  // way of each group; nullptr: there is one
  std::optional<TimeNs> answered_at_;                              // newest result of the epoch
  TimeNs patient_until_ = 0;                                       // no timer is believed before
  TimeNs gone_since_ = kNever;  // of those that peers have forgotten none came since
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
