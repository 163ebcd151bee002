// Sending half of the chunk stream: what is due, and how it looks on the wire.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "engine/chunk_codec.h"
#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"

namespace tally::engine {
namespace {

constexpr std::uint32_t kPlainSends = 4;  // the first transmission and k = 3 retransmissions, then QUERYs

// `total` of a QUERY to another rack that leaves to its box whom it asks there.
constexpr std::uint32_t kMostAdvancedThere = ~std::uint32_t{0};

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
                                                   : "a magnitude above 2^126";
  std::snprintf(text.data(), text.size(), "operation %llu: %s in tensor %zu at offset %llu",
                static_cast<unsigned long long>(operation.id()), what, place.span,
                static_cast<unsigned long long>(place.offset));
  return text.data();
}

}  // namespace

std::size_t ChunkStream::transmit(std::span<std::byte> out, TimeNs now, Destination& to) {
  while (const auto owed = answers_.pop()) {
    const bool gone = forgotten(owed->index);
    if (!gone && history_.find(owed->index) == nullptr) continue;  // overwritten since it was asked for
    if (!boxes_[owed->box].open) continue;
    put_destination(owed->index, owed->box, to);
    ++statistics_.answers;
    return gone ? write_gone(*owed, out) : write_answer(*owed, out);
  }
  while (const auto owed = direct_.pop()) {
    Flight* const wanted = in_flight(owed->index);
    if (wanted == nullptr) continue;  // its result came meanwhile
    put_destination(wanted->index, wanted->box, to);
    return write_contribution(*wanted, Cause::kServer, out, now);
  }
  const auto [flight, cause] = next_due(now);
  if (flight == nullptr) return 0;
  put_destination(flight->index, flight->box, to);
  if (cause == Cause::kEarly && membership_.world > 1 && !unheard(*flight))
    return write_query(*flight, cause, Rto::asks_peer(flight->early) ? peer_to_query(*flight) : Peer{}, out,
                       now);
  if ((cause == Cause::kTimer || flight->gone) && turn_to_query(*flight))
    return write_query(*flight, cause, peer_to_query(*flight), out, now);
  return write_contribution(*flight, cause, out, now);
}

// What is due by time of one way.
ChunkStream::Due ChunkStream::timed_due(std::size_t way, TimeNs now) noexcept {
  if (Flight* const unfinished = window_.first_unfinished(way);
      unfinished != nullptr && repair_due(*unfinished) <= now)
    return {unfinished, Cause::kEarly};
  if (Flight* const oldest = window_.oldest_sent(way); oldest != nullptr && due_of(*oldest) <= now) {
    if (overtaken(*oldest)) return {oldest, Cause::kEarly};
    Rto& rto = ways_[way].rto;
    rto.expired(oldest->sent_at, now);
    statistics_.rto = box_at(*oldest).traffic.rto = rto.timeout();
    return {oldest, Cause::kTimer};
  }
  if (Flight* const early = window_.oldest_early(way); early != nullptr && question_due(*early) <= now)
    return {early, Cause::kEarly};
  return {};
}

// What is lost first: it holds the window. Then what an exponent has set free, then new chunks in order.
ChunkStream::Due ChunkStream::next_due(TimeNs now) noexcept {
  if (Flight* const lost = window_.first_lost()) return {lost, Cause::kEarly};
  for (std::size_t way = 0; way < ways_.size(); ++way)
    if (const Due due = timed_due(way, now); due.flight != nullptr) return due;
  if (Flight* const lowest = window_.lowest_sent(); lowest != nullptr && lowest_due(*lowest) <= now)
    return {lowest, Cause::kEarly};
  if (Flight* const ready = window_.first_ready())
    return {ready, ready->sends == 0 ? Cause::kNew : Cause::kWanted};
  restart_slowly(now);
  while (anything_new() && !waits_for_room()) {
    Flight& flight = window_.take_up();
    if (flight.state != FlightState::kIdle) continue;  // it is done, or a box made the cursor go back
    if (flight.operation == nullptr) flight.operation = operation_of(flight.index);
    put_on_way(flight);
    const bool open = boxes_[flight.box].open;
    if (open && !blocked(flight)) return {&flight};
    flight.state = FlightState::kBlocked;
    if (!open) window_.widen();
  }
  // At rest only now.
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    Flight* const oldest = window_.oldest_sent(way);
    if (oldest != nullptr && overtaken(*oldest) && due_of(*oldest) <= now) return {oldest, Cause::kEarly};
  }
  if (Flight* const lowest = window_.lowest_sent(); lowest != nullptr && lowest_due(*lowest) <= now)
    return {lowest, Cause::kEarly};
  return {};
}

// The first chunk without a result is always allowed, so ranks that pause at different chunks do not wait for
// each other for ever.
void ChunkStream::restart_slowly(TimeNs now) noexcept {
  if (!shares_slots(membership_.discipline) || !window_.idle()) return;
  if (!answered_at_ || now - *answered_at_ >= std::min(longest_timeout(), kLongestGap))
    window_.narrow(kRestartChunks);
}

// What is in flight may be on any way, and the last result is of the slowest.
TimeNs ChunkStream::longest_timeout() const noexcept {
  TimeNs longest = 0;
  for (const Way& way : ways_) longest = std::max(longest, way.rto.timeout());
  return longest;
}

bool ChunkStream::overtaken(const Flight& flight) const noexcept {
  return !flight.gone && window_.overtaken(flight, lane_of(flight), at_rest());
}

// The window or the operations are at their end, until results come.
bool ChunkStream::at_rest() const noexcept { return !window_.any_ready() && !anything_new(); }

// A float data chunk j waits for E(j), which the result of the operation's chunk j brings.
bool ChunkStream::blocked(const Flight& flight) const noexcept {
  const EngineOperation& operation = *flight.operation;
  const auto data = operation.data_chunk(flight.index - operation.first());
  return data && operation.quantised() && history_.find(operation.first() + *data) == nullptr;
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
Rank ChunkStream::peer_here(std::uint32_t step) const noexcept {
  const std::uint32_t ranks = membership_.ranks();
  const std::uint32_t first = raw(membership_.most_advanced);
  const std::uint32_t self_at = (raw(self_) + ranks - first) % ranks;
  if (step >= self_at) ++step;
  return Rank{static_cast<std::uint16_t>((first + step) % ranks)};
}

// In a job of racks the others of the own one, and then everybody else; before all who is likely to be furthest.
ChunkStream::Peer ChunkStream::peer_to_query(const Flight& flight) const noexcept {
  const std::uint32_t others = membership_.world - 1;
  if (!membership_.has_racks()) return {bit_of(peer_here(flight.queries % others)), {}};
  const RackPlace& place = membership_.place;
  const std::uint32_t ahead = place.most_advanced != place.rack ? 1 : 0;
  std::uint32_t step = flight.queries % (ahead + others);
  if (step < ahead) return {std::uint64_t{1} << place.most_advanced, kMostAdvancedThere};
  step -= ahead;
  const std::uint32_t here = membership_.ranks() - 1;
  if (step < here) return {bit_of(peer_here(step)), {}};
  step -= here;
  // Each worker of the rack begins elsewhere: what one of them finds comes to all.
  const std::uint32_t elsewhere = others - here;
  step = (step + raw(self_) * (elsewhere / membership_.ranks())) % elsewhere;
  std::uint32_t rack = (place.rack + 1U) % place.racks;
  for (; step >= place.workers[rack]; rack = (rack + 1) % place.racks) step -= place.workers[rack];
  return {std::uint64_t{1} << rack, step};
}

Header ChunkStream::data_header(PacketType type, std::uint64_t index, std::uint8_t box) const noexcept {
  Header header = of_epoch_;
  if (routes_) header.job = Be<std::uint16_t>{raw(boxes_[box].job)};
  header.type = type;
  header.chunk = Be<std::uint32_t>{raw(wire(index))};
  header.slot = Be<std::uint32_t>{membership_.slot_of(wire(index))};
  return header;
}

std::uint8_t ChunkStream::priority_of(const EngineOperation& operation) const noexcept {
  return packet_priority(operation.options().priority, priority_, membership_.max_priority,
                         operation.remaining);
}

// Block exponent that the chunk contributes. false: an element is no number, failure_ says which.
bool ChunkStream::put_exponent(Flight& flight) {
  const EngineOperation& operation = *flight.operation;
  const std::uint64_t m = flight.index - operation.first();
  flight.exponent = kNoExponent;
  bool doubtful = operation.exact() && operation.data_chunk(m);
  if (operation.primes(m)) {
    const std::uint32_t bits = max_abs_bits(operation, operation.range(m), kernels_);
    fetch_ahead(operation, m);
    flight.exponent = static_cast<std::int8_t>(block_exponent(bits));
    doubtful = flight.exponent == kNotANumber;
  }
  if (!doubtful || operation.options().non_finite == NonFinite::kPropagate) return true;
  const auto bad = find_bad_element(operation, operation.range(m), kernels_);
  if (bad) failure_ = StreamFailure{operation.id(), {ErrorCode::kQuantise, describe(operation, *bad)}};
  return !bad;
}

bool ChunkStream::exceeds(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept {
  if (!operation.quantised()) return false;
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
  std::size_t bytes = std::size_t{4} * elements / operation.values_of_word();

  Header header = data_header(PacketType::kContribute, flight.index, flight.box);
  header.flags = flight.offered ? kFlagRetransmit : 0;
  if (cause == Cause::kServer) header.flags |= kFlagDirect;
  StreamBox& box = box_at(flight);
  const std::uint32_t shard = shard_at(box, flight.index);
  std::uint32_t& sequence = box.sequences[shard];
  if (++sequence == 0) ++sequence;  // there is no 0, also when they have gone round
  flight.sequence = sequence;
  window_.number(flight, number_of(flight.sequence, shard, box.shards));
  header.slot = Be<std::uint32_t>{flight.sequence};
  header.priority = priority_of(operation);
  header.elements = Be<std::uint16_t>{static_cast<std::uint16_t>(elements)};
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.exponent = flight.exponent;
  header.contributors = Be<std::uint64_t>{bit_of(self_)};
  header.total = Be<std::uint32_t>{operation.total()};
  kernels::Packed packed;
  flight.nothing = true;
  if (const auto data = operation.data_chunk(m)) {
    const bool late = exceeds(operation, *data);
    if (!operation.quantised()) fetch_ahead(operation, *data);  // floats: with the exponents
    packed = encode_chunk(operation, operation.range(*data), exponent_of(operation, *data),
                          shift_of(operation), out.subspan(kHeaderBytes, bytes), kernels_, late);
    if (late || packed.magnitude > summable(membership_.world, operation.dtype()))
      header.flags |= kFlagOverflow;
    if (packed.magnitude == 0) {
      header.flags |= kFlagZero;
      bytes = 0;
      ++statistics_.zeros;
    } else {
      flight.nothing = false;
      const auto values = out.subspan(kHeaderBytes, bytes);
      if (membership_.sparse && may_have_zero_rows(flight.index, values)) {
        bytes = without_zero_rows(values);
        if (bytes != values.size()) header.flags |= kFlagSparse;
      }
    }
  }
  header.sum1 = Be<std::uint32_t>{keyed(membership_.key, wire(flight.index)) + packed.sums.sum1};
  header.sum2 = Be<std::uint32_t>{packed.sums.sum2};

  ++operation.stats.packets;
  if (flight.offered) ++operation.stats.retransmissions;
  ++(flight.sends == 0 ? statistics_.contributions : statistics_.retransmissions);
  ++box.traffic.contributions;
  if (flight.sends != 0) ++box.traffic.retransmissions;
  if (cause == Cause::kServer) ++statistics_.direct;
  if (cause == Cause::kEarly || cause == Cause::kWanted) ++statistics_.early;
  if (cause == Cause::kServer || cause == Cause::kWanted) ++flight.wanted;
  flight.asking = false;
  if (cause == Cause::kEarly) {
    window_.sent_early(flight, now);
  } else {
    window_.sent(flight, now);
  }
  if (++flight.contributed == 1) flight.contributed_at = now;
  if (membership_.sparse && cause == Cause::kNew) {
    note_values(flight);
    if (flight.nothing) return write_run(header, flight.index, out, now);
  }
  return seal(header, bytes, out, kernels_);
}

std::size_t ChunkStream::write_query(Flight& flight, Cause cause, const Peer& peer, std::span<std::byte> out,
                                     TimeNs now) {
  EngineOperation& operation = *flight.operation;
  Header header = data_header(PacketType::kQuery, flight.index, flight.box);
  header.priority = priority_of(operation);
  header.dtype = static_cast<std::uint8_t>(operation.dtype());
  header.contributors = Be<std::uint64_t>{peer.bit};
  header.total = Be<std::uint32_t>{peer.elsewhere.value_or(operation.total())};
  if (peer.elsewhere) header.flags |= kFlagDirect;
  flight.asking = true;
  ++operation.stats.packets;
  ++operation.stats.retransmissions;
  ++statistics_.queries;
  StreamBox& box = box_at(flight);
  ++box.traffic.queries;
  if (peer.bit == 0) {
    ++statistics_.asks;
  } else {
    ++flight.queries;
  }
  if (cause == Cause::kEarly) {
    if (Rto::asks_server(flight.early) && !membership_.has_racks()) header.flags |= kFlagDirect;
    const Way& way = way_at(flight);
    window_.sent_early(flight, now, way.rto.asks_at_once(flight.early + 1, way.window));
  } else {
    window_.sent(flight, now);
  }
  return seal(header, 0, out, kernels_);
}

std::size_t ChunkStream::write_answer(const OwedAnswer& owed, std::span<std::byte> out) const noexcept {
  const Header& kept = *history_.find(owed.index);
  const auto values = history_.values(owed.index);
  Header header = data_header(PacketType::kAnswer, owed.index, owed.box);
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
  Header header = data_header(PacketType::kAnswer, owed.index, owed.box);
  header.flags = kFlagIncomplete;
  header.slot = Be<std::uint32_t>{raw(owed.asker)};
  return seal(header, 0, out, kernels_);
}

}  // namespace tally::engine
