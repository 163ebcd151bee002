// Receiving half of the chunk stream: what a RESULT must prove before a value of it is used, and what others
// say of losses.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "engine/chunk_codec.h"
#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"
#include "tally/rows.h"

namespace tally::engine {

constexpr std::uint8_t kBadResultsPerChunk = 3;
constexpr TimeNs kPatienceWithPeers = kSecond;

std::optional<Refused> ChunkStream::on_result(const Datagram& datagram, TimeNs now, std::size_t box) {
  const auto index = index_of(datagram.header.chunk_id());
  if (!index || *index < window_.lowest()) return Refused::kLate;
  if (!started_ || !window_.contains(*index)) return Refused::kNotWaited;
  Flight& flight = window_.at(*index);
  if (flight.state == FlightState::kDone) return Refused::kLate;
  if (!flight.offered || box_of(*index) != box) return Refused::kNotWaited;
  if (flight.state == FlightState::kIdle) put_on_way(flight);
  if (says_gone(datagram.header)) return on_gone(datagram.header, flight, now);
  if (const auto wrong = judge(datagram, flight)) return wrong;
  const bool rows = (datagram.header.flags & kFlagSparse) != 0;
  accept(datagram.header, rows ? history_.dense(flight.index, datagram.header) : datagram.payload, flight,
         now);
  return std::nullopt;
}

// Wrong although it comes from the box and names what is waited for. Not healing by itself, it must not hang
// the operation: the third for one chunk fails it by name.
Refused ChunkStream::strike(Flight& flight, Refused why) {
  if (++flight.bad_results == kBadResultsPerChunk) {
    const OperationId id = flight.operation->id();
    failure_ = StreamFailure{
        id,
        {ErrorCode::kCorrupt, "operation " + std::to_string(static_cast<std::uint64_t>(id)) +
                                  ": three results of chunk " + std::to_string(raw(wire(flight.index))) +
                                  " were wrong, the last by its " + std::string(name_of(why))}};
  }
  return why;
}

// A peer's ANSWER that names nobody: it had the result and has forgotten it.
bool ChunkStream::says_gone(const Header& header) const noexcept {
  return membership_.stragglers && (header.flags & kFlagIncomplete) != 0 && header.contributors.host() == 0;
}

// The others are so far ahead that the box refuses this chunk as stale. As long as one of them may still have
// the result it is worth asking; after that it is nowhere. Who still has it is behind the others, and may be
// slow to answer.
std::optional<Refused> ChunkStream::on_gone(const Header& header, Flight& flight, TimeNs now) {
  if (header.elements.host() != 0 || header.sum1.host() != 0 || header.sum2.host() != 0) return Refused::kSum;
  // From now on there are only QUERYs, and they count afresh: everybody is asked twice before it is given up.
  if (!flight.gone) flight.queries = 0;
  flight.gone = true;
  way_at(flight).rto.forget_back_off();
  if (gone_since_ == kNever) gone_since_ = now;
  if (flight.queries < 2 * (membership_.world - 1)) {
    window_.make_ready(flight);  // the next one is asked at once: this answer shows that the path is good
    return std::nullopt;
  }
  if (now - gone_since_ < kPatienceWithPeers) return std::nullopt;  // its timer asks
  const OperationId id = flight.operation->id();
  failure_ = StreamFailure{
      id,
      {ErrorCode::kFellBehind, "operation " + std::to_string(static_cast<std::uint64_t>(id)) +
                                   ": fell behind: the other ranks went on without this one, and chunk " +
                                   std::to_string(raw(wire(flight.index))) +
                                   " is older than what any of them remembers"}};
  return std::nullopt;
}

// All members, or, where the job says so, some of them under INCOMPLETE.
std::optional<Refused> ChunkStream::judge_contributors(const Header& header) const noexcept {
  const std::uint64_t ranks = header.contributors.host();
  const std::uint64_t members = membership_.members();
  if ((header.flags & kFlagIncomplete) == 0)
    return ranks == members ? std::nullopt : std::optional(Refused::kContributors);
  if (!membership_.stragglers) return Refused::kIncomplete;
  const bool some = ranks != 0 && ranks != members && (ranks & ~members) == 0;
  return some ? std::nullopt : std::optional(Refused::kContributors);
}

// ranks: that are in the result.
std::optional<Refused> ChunkStream::judge_form(const Header& header, Flight& flight, std::uint64_t ranks) {
  const EngineOperation& operation = *flight.operation;
  const bool is_in_it = (ranks & bit_of(self_)) != 0;  // else its exponent may be above the maximum
  if (header.elements.host() != operation.wire_elements(flight.index - operation.first()) ||
      header.dtype != static_cast<std::uint8_t>(operation.dtype()) ||
      header.total.host() != operation.total())
    return strike(flight, Refused::kShape);
  if (flight.exponent == kNoExponent ? header.exponent != kNoExponent
                                     : (is_in_it && header.exponent < flight.exponent) ||
                                           header.exponent == kNoExponent || !valid_exponent(header.exponent))
    return strike(flight, Refused::kExponent);
  return std::nullopt;
}

// The sums come last: they cost a pass over the payload, in which it also goes into the history.
std::optional<Refused> ChunkStream::judge(const Datagram& datagram, Flight& flight) {
  const Header& header = datagram.header;
  const bool sparse = (header.flags & kFlagSparse) != 0;
  if (sparse && !membership_.sparse) return Refused::kFlags;
  if (const auto wrong = judge_contributors(header)) return wrong;
  const std::uint64_t ranks = header.contributors.host();
  if (const auto wrong = judge_form(header, flight, ranks)) return wrong;
  const EngineOperation& operation = *flight.operation;
  const Chunk chunk = header.chunk_id();
  std::byte* const room = history_.room(flight.index);
  const std::uint32_t n = datagram.payload.empty() ? 0 : header.elements.host();
  const bool halves = operation.values_of_word() == 2;
  kernels::Sums sums;
  if (sparse) {
    unpack_rows(datagram.payload.data(), room, rows_of(n, header.dtype), datagram.payload.size());
    sums = halves ? kernels_.halves.sums(room, n) : kernels_.sums(room, n);
  } else {
    sums = halves ? kernels_.halves.copy_sums(datagram.payload.data(), room, n)
                  : kernels_.copy_sums(datagram.payload.data(), room, n);
  }
  if (header.sum1.host() - keyed(membership_.keys_of(ranks), chunk) == sums.sum1 &&
      header.sum2.host() == sums.sum2)
    return std::nullopt;
  return strike(flight, Refused::kSum);
}

// Zeros of several chunks at once. Each that has no result yet must be one of which zeros are the sum.
std::optional<Refused> ChunkStream::on_zero_run(const Datagram& datagram, TimeNs now) {
  if (!membership_.sparse) return Refused::kType;
  const Header& header = datagram.header;
  const auto base = index_of(header.chunk_id());
  if (!started_) return Refused::kNotWaited;
  if (!base) return Refused::kLate;
  const std::uint64_t chunks = header.contributors.host();
  if (!run_sums(*base, chunks, membership_.key_sum, datagram.payload).are_of(header)) return Refused::kSum;
  const RunExponents exponents = run_exponents(header, datagram.payload);
  Header one = header;  // as the RESULT of each
  one.type = PacketType::kResult;
  one.flags = kFlagZero;
  one.contributors = Be<std::uint64_t>{membership_.members()};
  one.sum2 = Be<std::uint32_t>{0};
  const auto index_at = [&](std::uint64_t rest) {
    return *base + static_cast<std::uint64_t>(std::countr_zero(rest)) * membership_.shards;
  };
  std::uint64_t open = 0;
  const std::int8_t* exponent = exponents.data();
  for (std::uint64_t rest = chunks; rest != 0; rest &= rest - 1) {
    const std::uint64_t index = index_at(rest);
    one.exponent = *exponent++;
    if (index < window_.lowest()) continue;
    if (!window_.contains(index)) return Refused::kNotWaited;
    Flight& flight = window_.at(index);
    if (flight.state == FlightState::kDone) continue;
    if (!flight.offered || !flight.nothing) return Refused::kNotWaited;
    if (const auto wrong = judge_form(one, flight, membership_.members())) return wrong;
    open |= rest & -rest;
  }
  if (open == 0) return Refused::kLate;
  exponent = exponents.data();
  bool first = true;
  for (std::uint64_t rest = chunks; rest != 0 && !failure_; rest &= rest - 1) {
    one.exponent = *exponent++;
    if ((open & rest & -rest) == 0) continue;
    Flight& flight = window_.at(index_at(rest));
    one.chunk = Be<std::uint32_t>{raw(wire(flight.index))};
    one.sum1 = Be<std::uint32_t>{keyed(membership_.key_sum, wire(flight.index))};
    accept(one, {}, flight, now, std::exchange(first, false));
  }
  return std::nullopt;
}

void ChunkStream::accept(const Header& header, std::span<const std::byte> values, Flight& flight, TimeNs now,
                         bool first) {
  EngineOperation& operation = *flight.operation;
  const std::uint64_t m = flight.index - operation.first();
  history_.keep(flight.index, header);
  const std::uint64_t ranks = header.contributors.host();
  if (ranks != membership_.members()) ++statistics_.incomplete;
  bool no_number = operation.primes(m) && header.exponent == kNotANumber;
  if (const auto data = operation.data_chunk(m)) {
    const ElementRange range = operation.range(*data);
    const bool numbers = decode_chunk(operation, range, exponent_of(operation, *data), shift_of(operation),
                                      values, kernels_, membership_.workers_in(ranks));
    no_number = no_number || (operation.exact() && !numbers);  // of others the exponent said so before
    if (ranks != membership_.members()) operation.stats.partial.push_back({range.first, range.count, ranks});
  }
  if (no_number && operation.options().non_finite == NonFinite::kFail) refuse_not_a_number(operation, m);
  if ((header.flags & kFlagOverflow) != 0) {
    operation.stats.overflow = true;
    ++statistics_.overflows;
  }
  // Karn's rule. A question in between does not matter, for its answer says that it is a repetition; but who
  // asks without being told may have waited for somebody's repair. Sent again after the longest timeout, it is
  // the last sending that is answered: where memory is so scarce that every chunk is sent often, nothing else
  // would ever end the back-off.
  const bool again = (header.flags & kFlagRetransmit) != 0;
  const bool once = flight.contributed == 1 && !again;
  const bool repaired = flight.held || (flight.sends != 1 && !box_tells());
  std::optional<TimeNs> rtt;
  if (once && !repaired && first) {
    rtt = now - flight.contributed_at;
  } else if (flight.paused) {
    rtt = now - flight.sent_at;
  }
  StreamBox& box = box_at(flight);
  Way& way = way_at(flight);
  Rto& rto = way.rto;
  if (rtt) {
    rto.sample(*rtt);
    statistics_.srtt = box.traffic.srtt = rto.srtt();
  } else {
    rto.result_without_sample();
  }
  if (flight.early != 0) rto.asked_for(again || flight.contributed > 1);
  std::optional<TimeNs> waited;
  if (flight.early != 0 && once && !flight.held) waited = now - flight.contributed_at;
  rto.made_by((header.flags & kFlagServed) != 0, rtt, waited);
  // Asked for, and made without this rank: its timers ran out because it is behind, not because of the path.
  const bool asked_for = flight.queries != 0 || flight.early != 0;
  if (asked_for && (ranks & bit_of(self_)) == 0) rto.forget_back_off();
  answered_at_ = box.answered_at = way.answered_at = now;
  if (flight.gone) gone_since_ = kNever;
  statistics_.rto = box.traffic.rto = rto.timeout();
  ++statistics_.results;
  ++box.traffic.results;
  if (missing_index_ == flight.index) missing_ = 0;
  unblock(flight);
  if (first) heed(header, flight.index, now);
  window_.delivered(flight, lane_of(flight), now);
  window_.done(flight);  // recycles the flight: not used below
  // What was just refused is no success, also if it was the last.
  if (--operation.remaining == 0 && !failure_) complete(operation, now);
}

// A RESULT as it was first made says which of those before it in its shard were, too; none of these is below
// `lowest`. What is only a few chunks before it may just have changed its order on the way. Where slots are
// shared, what it does not name may be at a server.
void ChunkStream::heed(const Header& header, std::uint64_t index, TimeNs now) noexcept {
  if ((header.flags & kFlagRetransmit) != 0) return;
  const Flight& made = window_.at(index);
  const std::uint32_t shards = box_at(made).shards;
  const std::uint32_t shard = shard_at(box_at(made), index);
  std::uint64_t i = std::min<std::uint64_t>(32, (index - window_.lowest()) / shards);
  for (; i >= FlightWindow::kLeastLead; --i) {
    Flight& flight = window_.at(index - i * shards);
    if (flight.state != FlightState::kSent || !goes_to(flight, made.box, shard)) continue;
    if ((header.before() >> (i - 1) & 1) != 0) {
      window_.finished(flight);
    } else if (box_tells()) {
      window_.unfinished(flight, now);
    }
  }
}

// Another rank asked for it, or has another option than this one.
void ChunkStream::refuse_not_a_number(const EngineOperation& operation, std::uint64_t data_chunk) {
  const ElementRange range = operation.range(data_chunk);
  const auto place = operation.place_of(range.first);
  failure_ = StreamFailure{
      operation.id(),
      {ErrorCode::kQuantise,
       "operation " + std::to_string(static_cast<std::uint64_t>(operation.id())) + ": of the " +
           std::to_string(range.count) + " elements from offset " + std::to_string(place.offset) +
           " of tensor " + std::to_string(place.span) + " on, another rank has one that is NaN, Inf" +
           (operation.exact() ? "" : " or above 2^126") + "; all ranks may ask for non_finite: propagate"}};
}

// The result of chunk m brings E(m): data chunk m, which is chunk p + m, may have waited for it.
void ChunkStream::unblock(const Flight& finished) noexcept {
  const EngineOperation& operation = *finished.operation;
  const std::uint64_t m = finished.index - operation.first();
  if (!operation.primes(m)) return;
  const std::uint64_t waiting = finished.index + operation.priming();
  if (!window_.contains(waiting)) return;
  Flight& flight = window_.at(waiting);
  if (flight.state == FlightState::kBlocked && box_at(flight).open) window_.make_ready(flight);
}

void ChunkStream::complete(const EngineOperation& operation, TimeNs now) {
  const auto at = std::find_if(operations_.begin(), operations_.end(),
                               [&](const auto& other) { return other.get() == &operation; });
  (*at)->stats.finished = now;
  (*at)->name_contributors(membership_.members());
  if (taken_up_ == &operation) taken_up_ = nullptr;
  if (operation.reported) completions_.push_back({operation.id(), operation.stats});
  operations_.erase(at);
  find_first_expiry();
}

std::optional<Refused> ChunkStream::on_waiting(const Header& header, TimeNs now, std::size_t box) noexcept {
  const auto index = index_of(header.chunk_id());
  if (!index || *index < window_.lowest()) return Refused::kLate;
  if (!started_ || !window_.contains(*index)) return Refused::kNotWaited;
  Flight& flight = window_.at(*index);
  if (flight.state == FlightState::kDone) return Refused::kLate;
  if (!flight.offered || box_of(*index) != box) return Refused::kNotWaited;
  ++statistics_.waiting;
  const std::uint64_t there = header.contributors.host();
  const bool asked = std::exchange(flight.asking, false);
  if (asked && flight.state == FlightState::kSent && !flight.gone) {
    if ((there & bit_of(self_)) == 0) {
      window_.make_ready(flight);
    } else if (box_tells()) {
      window_.await_repair(flight, now);
    }
  }
  if (there == 0) return std::nullopt;  // nobody knows
  // The oldest chunk is the one that everything waits for; later ones may lack ranks that are only behind.
  if (missing_ == 0 || *index <= missing_index_) {
    missing_ = membership_.members() & ~there;
    missing_index_ = *index;
  }
  return std::nullopt;
}

// What the box has not got is sent again at once, if it is the last that was sent of its chunk. A sequence may be that
// of a run, of which its first chunk, and what that has become, tells where the others are.
std::optional<Refused> ChunkStream::on_nack(const Header& header, std::size_t box) noexcept {
  const std::uint32_t shard = header.total.host();
  StreamBox& of = boxes_[box];
  if (!started_ || shard >= of.shards) return Refused::kNotWaited;
  ++statistics_.nacks;
  ++of.traffic.nacks;
  for (std::uint64_t rest = header.contributors.host(); rest != 0; rest &= rest - 1) {
    const std::uint32_t sequence = header.sequence() + static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint64_t base = window_.numbered(box, number_of(sequence, shard, of.shards)).index;
    for (std::uint32_t i = 0; i < (membership_.sparse ? kMostOfRun : 1); ++i) {
      Flight& flight = window_.at(base + i * std::uint64_t{of.shards});
      if (flight.state == FlightState::kSent && flight.sequence == sequence && !flight.gone &&
          goes_to(flight, box, shard))
        window_.make_ready(flight);
    }
  }
  return std::nullopt;
}

std::optional<Refused> ChunkStream::on_query(const Header& header, std::size_t box) noexcept {
  const Rank asker = header.rank_id();
  const bool is_here = raw(asker) < membership_.ranks() && asker != self_;
  if (!(is_here || membership_.place.is_of_another(asker)) || header.contributors.host() != bit_of(self_))
    return Refused::kPeer;
  const auto index = index_of(header.chunk_id());
  if (!index || (history_.find(*index) == nullptr && !forgotten(*index))) {
    ++statistics_.queries_silent;
    return std::nullopt;
  }
  if (!answers_.push({*index, asker, static_cast<std::uint8_t>(box)})) ++statistics_.answers_dropped;
  return std::nullopt;
}

// A server lacks this rank. What is in flight it gets again; of what is finished the whole sum, by way of the
// box. What was not sent in this epoch yet will be, in its turn.
std::optional<Refused> ChunkStream::on_resend(const Header& header, std::size_t box) noexcept {
  if ((header.contributors.host() & bit_of(self_)) == 0) return Refused::kPeer;
  const auto index = index_of(header.chunk_id());
  const OwedAnswer owed{index.value_or(0), header.rank_id(), static_cast<std::uint8_t>(box)};
  if (index && history_.find(*index) != nullptr) {
    if (!answers_.push(owed)) ++statistics_.answers_dropped;
  } else if (!index || in_flight(*index) == nullptr) {
    ++statistics_.resends_silent;
  } else if (!direct_.push(owed)) {
    ++statistics_.resends_dropped;
  }
  return std::nullopt;
}

Flight* ChunkStream::in_flight(std::uint64_t index) noexcept {
  if (!started_ || !window_.contains(index)) return nullptr;
  Flight& flight = window_.at(index);
  return flight.state == FlightState::kSent ? &flight : nullptr;
}

}  // namespace tally::engine
