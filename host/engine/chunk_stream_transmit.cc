// Sending half of the chunk stream: what is due, and how it looks on the wire.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "block_exponent.h"
#include "chunk_codec.h"
#include "chunk_stream.h"
#include "packet_priority.h"

namespace tally {
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
  while (!answers_.empty()) {
    const OwedAnswer owed = answers_.pop();
    const bool gone = forgotten(owed.index);
    if (!gone && history_.find(owed.index) == nullptr) continue;  // overwritten since it was asked for
    port = membership_.port_of(wire(owed.index));
    ++statistics_.answers;
    return gone ? write_gone(owed, out) : write_answer(owed, out);
  }
  while (!direct_.empty()) {
    Flight* const wanted = in_flight(direct_.pop().index);
    if (wanted == nullptr) continue;  // its result came meanwhile
    port = membership_.port_of(wire(wanted->index));
    return write_contribution(*wanted, Cause::kServer, out, now);
  }
  const auto [flight, cause] = next_due(now);
  if (flight == nullptr) return 0;
  port = membership_.port_of(wire(flight->index));
  if (cause == Cause::kTimer && turn_to_query(*flight)) return write_query(*flight, out, now);
  return write_contribution(*flight, cause, out, now);
}

// What is lost first: it holds the window. Then what an exponent has set free, then new chunks in order.
ChunkStream::Due ChunkStream::next_due(TimeNs now) noexcept {
  if (Flight* const oldest = window_.oldest_sent()) {
    if (std::max(rto_.due(oldest->sent_at), rto_.pause_end(membership_.window)) <= now) {
      rto_.expired(oldest->sent_at, now);
      statistics_.rto = rto_.timeout();
      return {oldest, Cause::kTimer};
    }
    if (overtaken(*oldest)) return {oldest, Cause::kEarly};
  }
  if (Flight* const early = window_.oldest_early(); early != nullptr && rto_.early_due(early->sent_at) <= now)
    return {early, Cause::kEarly};
  if (Flight* const ready = window_.first_ready()) return {ready};
  restart_slowly(now);
  while (window_.cursor() < std::min(window_.limit(), numbered_end_)) {
    Flight& flight = window_.take_up();
    if (flight.state == FlightState::kDone) continue;
    if (flight.operation == nullptr) flight.operation = operation_of(flight.index);
    if (!blocked(flight)) return {&flight};
    flight.state = FlightState::kBlocked;
  }
  if (Flight* const oldest = window_.oldest_sent(); oldest != nullptr && overtaken(*oldest))
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

// Peers are asked every second time only, so that progress never depends on them alone. Early sendings and
// those that a server asked for do not count: no timer ran out. What a peer has forgotten the box takes no
// more: only the other peers are left.
bool ChunkStream::turn_to_query(const Flight& flight) const noexcept {
  if (flight.gone) return true;
  const std::uint32_t timed = flight.sends - flight.early - flight.direct;
  return membership_.world > 1 && timed >= kPlainSends && (timed - kPlainSends) % 2 == 0;
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
  const KeptResult& kept = *history_.find(operation.first() + data_chunk);
  if ((kept.contributors & bit_of(self_)) != 0) return false;
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
  header.priority = priority_of(operation);
  header.elements = Be<std::uint16_t>{static_cast<std::uint16_t>(elements)};
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.exponent = flight.exponent;
  header.contributors = Be<std::uint64_t>{bit_of(self_)};
  header.total = Be<std::uint32_t>{operation.total()};
  Packed packed;
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
  if (cause == Cause::kServer) {
    ++statistics_.direct;
    ++flight.direct;
  }
  if (cause == Cause::kEarly) {
    ++statistics_.early;
    window_.sent_early(flight, now);
  } else {
    window_.sent(flight, now);
  }
  return seal(header, bytes, out, kernels_);
}

std::size_t ChunkStream::write_query(Flight& flight, std::span<std::byte> out, TimeNs now) {
  EngineOperation& operation = *flight.operation;
  Header header = data_header(PacketType::kQuery, flight.index);
  header.priority = priority_of(operation);
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.contributors = Be<std::uint64_t>{bit_of(peer_to_query(flight))};
  header.total = Be<std::uint32_t>{operation.total()};
  ++flight.queries;
  ++operation.stats.packets;
  ++operation.stats.retransmissions;
  ++statistics_.queries;
  window_.sent(flight, now);
  return seal(header, 0, out, kernels_);
}

std::size_t ChunkStream::write_answer(const OwedAnswer& owed, std::span<std::byte> out) const noexcept {
  const KeptResult& kept = *history_.find(owed.index);
  const auto values = history_.values(owed.index);
  Header header = data_header(PacketType::kAnswer, owed.index);
  header.flags = kept.flags;
  header.priority = membership_.max_priority;  // its operation is over; somebody waits
  header.slot = Be<std::uint32_t>{raw(owed.asker)};
  header.elements = Be<std::uint16_t>{kept.elements};
  header.dtype = kept.dtype;
  header.exponent = kept.exponent;
  header.contributors = Be<std::uint64_t>{kept.contributors};
  header.sum1 = Be<std::uint32_t>{kept.sum1};
  header.sum2 = Be<std::uint32_t>{kept.sum2};
  header.total = Be<std::uint32_t>{kept.total};
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

}  // namespace tally
