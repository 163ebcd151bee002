#include "engine/chunk_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "engine/chunk_codec.h"
#include "engine/engine_operation.h"

namespace tally::engine {

bool ChunkStream::start(const Membership& membership) {
  membership_ = membership;
  window_.start(membership.largest_window);
  numbered_end_ = 0;
  if (!history_.start(membership.largest_window, membership.elements)) return false;
  started_ = true;
  for (const auto& operation : operations_) number(*operation);
  ++statistics_.generations;
  return true;
}

void ChunkStream::enter_epoch(const Membership& membership) noexcept {
  membership_ = membership;
  of_epoch_.job = Be<std::uint16_t>{raw(membership.job)};
  of_epoch_.rank = Be<std::uint16_t>{raw(self_)};
  of_epoch_.epoch = Be<std::uint32_t>{raw(membership.epoch)};
  of_epoch_.cookie = Be<std::uint64_t>{raw(membership.cookie)};
  shift_ = sum_shift(membership.world);
  window_.enter_epoch(membership.window);
  sequences_ = {};
  answered_at_.reset();
  rto_.forget_back_off();
  answers_.clear();
  direct_.clear();
  missing_ = 0;
}

void ChunkStream::fail_all(const Error& error, const StreamFailure* culprit) {
  for (const auto& operation : operations_) {
    if (!operation->reported) continue;
    const bool guilty = culprit != nullptr && culprit->id == operation->id();
    completions_.push_back({operation->id(), tl::unexpected<Error>(guilty ? culprit->error : error)});
  }
  operations_.clear();
  taken_up_ = nullptr;
  answers_.clear();
  direct_.clear();
  window_.start(0);
  numbered_end_ = 0;
  failure_.reset();
  first_expiry_ = kNever;
  missing_ = 0;
  started_ = false;
}

void ChunkStream::submit(std::unique_ptr<EngineOperation> operation) {
  if (started_) number(*operation);
  first_expiry_ = std::min(first_expiry_, operation->options().deadline);
  operations_.push_back(std::move(operation));
}

void ChunkStream::number(EngineOperation& operation) noexcept {
  operation.number(numbered_end_, membership_.elements, membership_.lookahead);
  numbered_end_ = operation.end();
}

std::optional<Completion> ChunkStream::next_completion() {
  if (completions_.empty()) return std::nullopt;
  std::optional<Completion> first(std::move(completions_.front()));
  completions_.pop_front();
  return first;
}

const EngineOperation* ChunkStream::expired(TimeNs now) const noexcept {
  if (now < first_expiry_) return nullptr;
  for (const auto& operation : operations_)
    if (operation->options().deadline <= now) return operation.get();
  return nullptr;
}

TimeNs ChunkStream::deadline() const noexcept {
  if (!answers_.empty() || !direct_.empty() || window_.any_ready() ||
      window_.cursor() < std::min(window_.limit(), numbered_end_))
    return 0;
  TimeNs due = kNever;
  if (const Flight* const oldest = window_.oldest_sent(); oldest != nullptr) due = due_of(*oldest);
  if (const Flight* const early = window_.oldest_early(); early != nullptr)
    due = std::min(due, rto_.early_due(early->sent_at));
  return due;
}

std::optional<std::uint64_t> ChunkStream::index_of(Chunk chunk) const noexcept {
  const std::int64_t ahead = serial_difference(chunk, lowest_chunk());
  if (ahead < 0 && static_cast<std::uint64_t>(-ahead) > window_.lowest()) return std::nullopt;
  return window_.lowest() + static_cast<std::uint64_t>(ahead);
}

EngineOperation* ChunkStream::operation_of(std::uint64_t index) noexcept {
  if (taken_up_ != nullptr && index - taken_up_->first() < taken_up_->stats.chunks) return taken_up_;
  const auto after =
      std::upper_bound(operations_.begin(), operations_.end(), index,
                       [](std::uint64_t i, const auto& operation) { return i < operation->first(); });
  return taken_up_ = std::prev(after)->get();
}

int ChunkStream::exponent_of(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept {
  if (operation.dtype() != Dtype::kFloat32) return kNoExponent;
  return history_.find(operation.first() + data_chunk)->exponent;
}

void ChunkStream::find_first_expiry() noexcept {
  first_expiry_ = kNever;
  for (const auto& operation : operations_)
    first_expiry_ = std::min(first_expiry_, operation->options().deadline);
}

// Receiving half of the chunk stream: what a RESULT must prove before a value of it is used.

constexpr std::uint8_t kBadResultsPerChunk = 3;

std::optional<Refused> ChunkStream::on_result(const Datagram& datagram, TimeNs now) {
  const auto index = index_of(datagram.header.chunk_id());
  if (!index || *index < window_.lowest()) return Refused::kLate;
  if (!started_ || !window_.contains(*index)) return Refused::kNotWaited;
  Flight& flight = window_.at(*index);
  if (flight.state == FlightState::kDone) return Refused::kLate;
  if (!flight.offered) return Refused::kNotWaited;
  if (says_gone(datagram.header)) return on_gone(datagram.header, flight);
  if (const auto wrong = judge(datagram, flight)) return wrong;
  accept(datagram, flight, now);
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
// the result it is worth asking; after that it is nowhere.
std::optional<Refused> ChunkStream::on_gone(const Header& header, Flight& flight) {
  if (header.slot.host() != membership_.slot_of(header.chunk_id())) return Refused::kSlot;
  if (header.elements.host() != 0 || header.sum1.host() != 0 || header.sum2.host() != 0) return Refused::kSum;
  // From now on there are only QUERYs, and they count afresh: everybody is asked twice before it is given up.
  if (!flight.gone) flight.queries = 0;
  flight.gone = true;
  rto_.forget_back_off();
  if (flight.queries < 2 * (membership_.world - 1)) return std::nullopt;
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

// The sums come last: they cost a pass over the payload, in which it also goes into the history.
std::optional<Refused> ChunkStream::judge(const Datagram& datagram, Flight& flight) {
  const Header& header = datagram.header;
  const EngineOperation& operation = *flight.operation;
  const Chunk chunk = header.chunk_id();
  if (header.slot.host() != membership_.slot_of(chunk)) return Refused::kSlot;
  if (const auto wrong = judge_contributors(header)) return wrong;
  const std::uint64_t ranks = header.contributors.host();
  const bool is_in_it = (ranks & bit_of(self_)) != 0;  // else its exponent may be above the maximum
  if (header.elements.host() != operation.wire_elements(flight.index - operation.first()) ||
      header.dtype != static_cast<std::uint8_t>(operation.dtype()) ||
      header.total.host() != operation.total())
    return strike(flight, Refused::kShape);
  if (flight.exponent == kNoExponent ? header.exponent != kNoExponent
                                     : (is_in_it && header.exponent < flight.exponent) ||
                                           header.exponent == kNoExponent || !valid_exponent(header.exponent))
    return strike(flight, Refused::kExponent);
  const kernels::Sums sums =
      kernels_.copy_sums(datagram.payload.data(), history_.room(flight.index), header.elements.host());
  if (header.sum1.host() - keyed(membership_.keys_of(ranks), chunk) == sums.sum1 &&
      header.sum2.host() == sums.sum2)
    return std::nullopt;
  return strike(flight, Refused::kSum);
}

void ChunkStream::accept(const Datagram& datagram, Flight& flight, TimeNs now) {
  EngineOperation& operation = *flight.operation;
  const std::uint64_t m = flight.index - operation.first();
  history_.keep(flight.index, datagram.header);
  const std::uint64_t ranks = datagram.header.contributors.host();
  if (ranks != membership_.members()) ++statistics_.incomplete;
  if (const auto data = operation.data_chunk(m)) {
    const ElementRange range = operation.range(*data);
    decode_chunk(operation, range, exponent_of(operation, *data), shift_, datagram.payload, kernels_,
                 static_cast<std::uint32_t>(std::popcount(ranks)));
    if (ranks != membership_.members()) operation.stats.partial.push_back({range.first, range.count, ranks});
  }
  if ((datagram.header.flags & kFlagOverflow) != 0) {
    operation.stats.overflow = true;
    ++statistics_.overflows;
  }
  if (flight.state == FlightState::kSent && flight.sends == 1) {  // Karn
    rto_.sample(now - flight.sent_at);
    statistics_.srtt = rto_.srtt();
  } else {
    rto_.result_without_sample();
  }
  // Asked for, and made without this rank: its timers ran out because it is behind, not because of the path.
  const bool asked_for = flight.queries != 0 || flight.early != 0;
  if (asked_for && (ranks & bit_of(self_)) == 0) rto_.forget_back_off();
  answered_at_ = now;
  statistics_.rto = rto_.timeout();
  ++statistics_.results;
  if (missing_index_ == flight.index) missing_ = 0;
  unblock(flight);
  window_.delivered(flight, membership_.shard_of(wire(flight.index)));
  window_.done(flight);  // recycles the flight: not used below
  if (--operation.remaining == 0) complete(operation, now);
}

// The result of chunk m brings E(m): data chunk m, which is chunk p + m, may have waited for it.
void ChunkStream::unblock(const Flight& finished) noexcept {
  const EngineOperation& operation = *finished.operation;
  const std::uint64_t m = finished.index - operation.first();
  if (!operation.primes(m)) return;
  const std::uint64_t waiting = finished.index + operation.priming();
  if (!window_.contains(waiting)) return;
  Flight& flight = window_.at(waiting);
  if (flight.state == FlightState::kBlocked) window_.make_ready(flight);
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

std::optional<Refused> ChunkStream::on_waiting(const Header& header) noexcept {
  const auto index = index_of(header.chunk_id());
  if (!index || *index < window_.lowest()) return Refused::kLate;
  if (!started_ || !window_.contains(*index)) return Refused::kNotWaited;
  Flight& flight = window_.at(*index);
  if (flight.state == FlightState::kDone) return Refused::kLate;
  if (!flight.offered) return Refused::kNotWaited;
  ++statistics_.waiting;
  const std::uint64_t there = header.contributors.host();
  const bool asked = std::exchange(flight.asking, false);
  if (asked && flight.state == FlightState::kSent && (there & bit_of(self_)) == 0) window_.make_ready(flight);
  if (there == 0) return std::nullopt;  // nobody knows
  // The oldest chunk is the one that everything waits for; later ones may lack ranks that are only behind.
  if (missing_ == 0 || *index <= missing_index_) {
    missing_ = membership_.members() & ~there;
    missing_index_ = *index;
  }
  return std::nullopt;
}

// What the box has not got is sent again at once, if it is the last that was sent of its chunk.
std::optional<Refused> ChunkStream::on_nack(const Header& header) noexcept {
  const std::uint32_t shard = header.total.host();
  if (!started_ || shard >= membership_.shards) return Refused::kNotWaited;
  ++statistics_.nacks;
  for (std::uint64_t rest = header.contributors.host(); rest != 0; rest &= rest - 1) {
    const std::uint32_t sequence = header.sequence() + static_cast<std::uint32_t>(std::countr_zero(rest));
    Flight& flight = window_.numbered(number_of(sequence, shard));
    if (flight.state == FlightState::kSent && flight.sequence == sequence && !flight.gone &&
        membership_.shard_of(wire(flight.index)) == shard)
      window_.make_ready(flight);
  }
  return std::nullopt;
}

std::optional<Refused> ChunkStream::on_query(const Header& header) noexcept {
  const std::uint16_t asker = header.rank.host();
  if (asker >= membership_.world || asker == raw(self_) || header.contributors.host() != bit_of(self_))
    return Refused::kPeer;
  const auto index = index_of(header.chunk_id());
  if (!index || (history_.find(*index) == nullptr && !forgotten(*index))) {
    ++statistics_.queries_silent;
    return std::nullopt;
  }
  if (!answers_.push({*index, Rank{asker}})) ++statistics_.answers_dropped;
  return std::nullopt;
}

// A server lacks this rank. What is in flight it gets again; of what is finished the whole sum, by way of the
// box. What was not sent in this epoch yet will be, in its turn.
std::optional<Refused> ChunkStream::on_resend(const Header& header) noexcept {
  if ((header.contributors.host() & bit_of(self_)) == 0) return Refused::kPeer;
  const auto index = index_of(header.chunk_id());
  if (index && history_.find(*index) != nullptr) {
    if (!answers_.push({*index, header.rank_id()})) ++statistics_.answers_dropped;
  } else if (!index || in_flight(*index) == nullptr) {
    ++statistics_.resends_silent;
  } else if (!direct_.push({*index, header.rank_id()})) {
    ++statistics_.resends_dropped;
  }
  return std::nullopt;
}

Flight* ChunkStream::in_flight(std::uint64_t index) noexcept {
  if (!started_ || !window_.contains(index)) return nullptr;
  Flight& flight = window_.at(index);
  return flight.state == FlightState::kSent ? &flight : nullptr;
}

// Sending half of the chunk stream: what is due, and how it looks on the wire.

namespace {

constexpr std::uint32_t kPlainSends = 4;  // the first transmission and k = 3 retransmissions, then QUERYs

// Jobs that share slots. A chunk holds its slot until the last rank has sent it, so a rank that is early by a
// step of computing would fill the memory with chunks that only wait. The first result shows that all ranks
// are there. It costs a round trip, so a pause is one RTO, which is longer; but no more than 10 ms, because
// the RTO grows with the lateness of the other ranks, against which this helps, and allows for sleepers.
constexpr std::uint32_t kRestartChunks = 4;
constexpr TimeNs kLongestGap = 10 * kMillisecond;

std::string describe(const EngineOperation& operation, const BadElement& bad) {
  const auto place = operation.place_of(bad.element);
  std::array<char, 160> text{};
  const char* const what = std::isnan(bad.value)   ? "NaN"
                           : std::isinf(bad.value) ? "Inf"
                                                   : "a magnitude above 2^127";
  std::snprintf(text.data(), text.size(), "operation %llu: %s in tensor %zu at offset %llu",
                static_cast<unsigned long long>(operation.id()), what, place.span,
                static_cast<unsigned long long>(place.offset));
  return text.data();
}

}  // namespace

std::size_t ChunkStream::transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& port) {
  while (const auto owed = answers_.pop()) {
    const bool gone = forgotten(owed->index);
    if (!gone && history_.find(owed->index) == nullptr) continue;  // overwritten since it was asked for
    port = membership_.port_of(wire(owed->index));
    ++statistics_.answers;
    return gone ? write_gone(*owed, out) : write_answer(*owed, out);
  }
  while (const auto owed = direct_.pop()) {
    Flight* const wanted = in_flight(owed->index);
    if (wanted == nullptr) continue;  // its result came meanwhile
    port = membership_.port_of(wire(wanted->index));
    return write_contribution(*wanted, Cause::kServer, out, now);
  }
  const auto [flight, cause] = next_due(now);
  if (flight == nullptr) return 0;
  port = membership_.port_of(wire(flight->index));
  if (cause == Cause::kEarly && membership_.world > 1) return write_query(*flight, 0, out, now);
  if (cause == Cause::kTimer && turn_to_query(*flight))
    return write_query(*flight, bit_of(peer_to_query(*flight)), out, now);
  return write_contribution(*flight, cause, out, now);
}

// What is lost first: it holds the window. Then what an exponent has set free, then new chunks in order.
ChunkStream::Due ChunkStream::next_due(TimeNs now) noexcept {
  if (Flight* const oldest = window_.oldest_sent(); oldest != nullptr && due_of(*oldest) <= now) {
    if (overtaken(*oldest)) return {oldest, Cause::kEarly};
    rto_.expired(oldest->sent_at, now);
    statistics_.rto = rto_.timeout();
    return {oldest, Cause::kTimer};
  }
  if (Flight* const early = window_.oldest_early(); early != nullptr && rto_.early_due(early->sent_at) <= now)
    return {early, Cause::kEarly};
  if (Flight* const ready = window_.first_ready())
    return {ready, ready->sends == 0 ? Cause::kNew : Cause::kWanted};
  restart_slowly(now);
  while (window_.cursor() < std::min(window_.limit(), numbered_end_)) {
    Flight& flight = window_.take_up();
    if (flight.state == FlightState::kDone) continue;
    if (flight.operation == nullptr) flight.operation = operation_of(flight.index);
    if (!blocked(flight)) return {&flight};
    flight.state = FlightState::kBlocked;
  }
  if (Flight* const oldest = window_.oldest_sent();
      oldest != nullptr && overtaken(*oldest) && due_of(*oldest) <= now)
    return {oldest, Cause::kEarly};  // at rest only now
  return {};
}

// The first chunk without a result is always allowed, so ranks that pause at different chunks do not wait for
// each other for ever.
void ChunkStream::restart_slowly(TimeNs now) noexcept {
  if (!shares_slots(membership_.discipline) || !window_.idle()) return;
  if (!answered_at_ || now - *answered_at_ >= std::min(rto_.timeout(), kLongestGap))
    window_.narrow(kRestartChunks);
}

bool ChunkStream::overtaken(const Flight& flight) const noexcept {
  return window_.overtaken(flight, membership_.shard_of(wire(flight.index)), at_rest());
}

// The window or the operations are at their end, until results come.
bool ChunkStream::at_rest() const noexcept {
  return !window_.any_ready() && window_.cursor() >= std::min(window_.limit(), numbered_end_);
}

// A float data chunk j waits for E(j), which the result of the operation's chunk j brings.
bool ChunkStream::blocked(const Flight& flight) const noexcept {
  const EngineOperation& operation = *flight.operation;
  const auto data = operation.data_chunk(flight.index - operation.first());
  return data && operation.dtype() == Dtype::kFloat32 && history_.find(operation.first() + *data) == nullptr;
}

// Peers are asked every second time only, so that progress never depends on them alone. Early questions and
// what the box or a server asked for do not count: no timer ran out. What a peer has forgotten the box takes
// no more: only the other peers are left.
bool ChunkStream::turn_to_query(const Flight& flight) const noexcept {
  if (flight.gone) return true;
  const std::uint32_t timed = flight.sends - flight.early - flight.wanted;
  // Where the others do not wait, more likely than its contribution a result is missing, and all that follow.
  const std::uint32_t plain = membership_.stragglers ? kPlainSends / 2 : kPlainSends;
  return membership_.world > 1 && timed >= plain && (timed - plain) % 2 == 0;
}

// The most advanced rank, then the ranks after it in turn, without this one.
Rank ChunkStream::peer_to_query(const Flight& flight) const noexcept {
  const std::uint32_t world = membership_.world;
  const std::uint32_t first = raw(membership_.most_advanced);
  const std::uint32_t self_at = (raw(self_) + world - first) % world;
  std::uint32_t step = flight.queries % (world - 1);
  if (step >= self_at) ++step;
  return Rank{static_cast<std::uint16_t>((first + step) % world)};
}

Header ChunkStream::data_header(PacketType type, std::uint64_t index) const noexcept {
  Header header = of_epoch_;
  header.type = type;
  header.chunk = Be<std::uint32_t>{raw(wire(index))};
  header.slot = Be<std::uint32_t>{membership_.slot_of(wire(index))};
  return header;
}

std::uint8_t ChunkStream::priority_of(const EngineOperation& operation) const noexcept {
  return packet_priority(operation.options().priority, priority_, membership_.max_priority,
                         operation.remaining);
}

// Block exponent that the chunk contributes. false: its block has none, failure_ says why.
bool ChunkStream::put_exponent(Flight& flight) {
  const EngineOperation& operation = *flight.operation;
  const std::uint64_t m = flight.index - operation.first();
  if (!operation.primes(m)) {
    flight.exponent = kNoExponent;
    return true;
  }
  const std::uint32_t bits = max_abs_bits(operation, operation.range(m), kernels_);
  fetch_ahead(operation, m);
  if (bits > kGreatestMagnitude) {
    const auto bad = find_bad_element(operation, operation.range(m)).value_or(BadElement{});
    failure_ = StreamFailure{operation.id(), {ErrorCode::kQuantise, describe(operation, bad)}};
    return false;
  }
  flight.exponent = static_cast<std::int8_t>(block_exponent(bits));
  return true;
}

bool ChunkStream::exceeds(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept {
  if (operation.dtype() != Dtype::kFloat32) return false;
  const Header& kept = *history_.find(operation.first() + data_chunk);
  if ((kept.contributors.host() & bit_of(self_)) != 0) return false;
  return block_exponent(max_abs_bits(operation, operation.range(data_chunk), kernels_)) > kept.exponent;
}

std::size_t ChunkStream::write_contribution(Flight& flight, Cause cause, std::span<std::byte> out,
                                            TimeNs now) {
  EngineOperation& operation = *flight.operation;
  if (!put_exponent(flight)) return 0;
  const std::uint64_t m = flight.index - operation.first();
  const std::uint32_t elements = operation.wire_elements(m);
  const std::size_t bytes = std::size_t{4} * elements;

  Header header = data_header(PacketType::kContribute, flight.index);
  header.flags = flight.offered ? kFlagRetransmit : 0;
  if (cause == Cause::kServer) header.flags |= kFlagDirect;
  const std::uint32_t shard = membership_.shard_of(wire(flight.index));
  if (++sequences_[shard] == 0) ++sequences_[shard];  // there is no 0, also when they have gone round
  flight.sequence = sequences_[shard];
  window_.number(flight, number_of(flight.sequence, shard));
  header.slot = Be<std::uint32_t>{flight.sequence};
  header.priority = priority_of(operation);
  header.elements = Be<std::uint16_t>{static_cast<std::uint16_t>(elements)};
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.exponent = flight.exponent;
  header.contributors = Be<std::uint64_t>{bit_of(self_)};
  header.total = Be<std::uint32_t>{operation.total()};
  kernels::Packed packed;
  if (const auto data = operation.data_chunk(m)) {
    const bool late = exceeds(operation, *data);
    if (operation.dtype() == Dtype::kInt32) fetch_ahead(operation, *data);  // float32: with the exponents
    packed = encode_chunk(operation, operation.range(*data), exponent_of(operation, *data), shift_,
                          out.subspan(kHeaderBytes, bytes), kernels_, late);
    if (late || packed.magnitude > 0x7fffffffU / membership_.world) header.flags |= kFlagOverflow;
  }
  header.sum1 = Be<std::uint32_t>{keyed(membership_.key, wire(flight.index)) + packed.sums.sum1};
  header.sum2 = Be<std::uint32_t>{packed.sums.sum2};

  ++operation.stats.packets;
  if (flight.offered) ++operation.stats.retransmissions;
  ++(flight.sends == 0 ? statistics_.contributions : statistics_.retransmissions);
  if (cause == Cause::kServer) ++statistics_.direct;
  if (cause == Cause::kEarly || cause == Cause::kWanted) ++statistics_.early;
  if (cause == Cause::kServer || cause == Cause::kWanted) ++flight.wanted;
  flight.asking = false;
  if (cause == Cause::kEarly) {
    window_.sent_early(flight, now);
  } else {
    window_.sent(flight, now);
  }
  return seal(header, bytes, out, kernels_);
}

std::size_t ChunkStream::write_query(Flight& flight, std::uint64_t peers, std::span<std::byte> out,
                                     TimeNs now) {
  EngineOperation& operation = *flight.operation;
  Header header = data_header(PacketType::kQuery, flight.index);
  header.priority = priority_of(operation);
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.contributors = Be<std::uint64_t>{peers};
  header.total = Be<std::uint32_t>{operation.total()};
  flight.asking = true;
  ++operation.stats.packets;
  ++operation.stats.retransmissions;
  ++statistics_.queries;
  if (peers == 0) {
    ++statistics_.asks;
    window_.sent_early(flight, now);
  } else {
    ++flight.queries;
    window_.sent(flight, now);
  }
  return seal(header, 0, out, kernels_);
}

std::size_t ChunkStream::write_answer(const OwedAnswer& owed, std::span<std::byte> out) const noexcept {
  const Header& kept = *history_.find(owed.index);
  const auto values = history_.values(owed.index);
  Header header = data_header(PacketType::kAnswer, owed.index);
  header.flags = kept.flags;
  header.priority = membership_.max_priority;  // its operation is over; somebody waits
  header.slot = Be<std::uint32_t>{raw(owed.asker)};
  header.elements = kept.elements;
  header.dtype = kept.dtype;
  header.exponent = kept.exponent;
  header.contributors = kept.contributors;
  header.sum1 = kept.sum1;
  header.sum2 = kept.sum2;
  header.total = kept.total;
  std::copy(values.begin(), values.end(), out.begin() + kHeaderBytes);
  return seal(header, values.size(), out, kernels_);
}

// An ANSWER that names nobody: the result was here once. Whoever needs it has fallen behind.
std::size_t ChunkStream::write_gone(const OwedAnswer& owed, std::span<std::byte> out) const noexcept {
  Header header = data_header(PacketType::kAnswer, owed.index);
  header.flags = kFlagIncomplete;
  header.slot = Be<std::uint32_t>{raw(owed.asker)};
  return seal(header, 0, out, kernels_);
}

}  // namespace tally::engine
