#include "engine/chunk_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "engine/chunk_codec.h"
#include "engine/engine_operation.h"
#include "engine/plan_pages.h"
#include "tally/rows.h"

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

void ChunkStream::enter_epoch(const Membership& membership, std::span<const Ipv6> boxes) {
  membership_ = membership;
  self_ = membership.rank;
  of_epoch_.job = Be<std::uint16_t>{raw(membership.job)};
  of_epoch_.rank = Be<std::uint16_t>{raw(self_)};
  of_epoch_.epoch = Be<std::uint32_t>{raw(membership.epoch)};
  of_epoch_.cookie = Be<std::uint64_t>{raw(membership.cookie)};
  shifts_ = {sum_shift(membership.world, Dtype::kFloat32), sum_shift(membership.world, Dtype::kInt16)};
  put_boxes(boxes);
  put_ways();
  window_.enter_epoch(membership.window, boxes_.size(), ways_.size());
  answered_at_.reset();
  gone_since_ = kNever;
  answers_.clear();
  direct_.clear();
  missing_ = 0;
}

// What was counted at a box it keeps as long as the epochs have it.
void ChunkStream::put_boxes(std::span<const Ipv6> addresses) {
  if (membership_.plan == nullptr) {
    boxes_.resize(1);
  } else {
    std::vector<StreamBox> next(addresses.size());
    for (std::size_t i = 0; i < next.size(); ++i) {
      const auto known = std::find_if(boxes_.begin(), boxes_.end(),
                                      [&](const StreamBox& box) { return box.address == addresses[i]; });
      if (known != boxes_.end()) next[i] = *known;
      next[i].address = addresses[i];
    }
    boxes_ = std::move(next);
  }
  for (StreamBox& box : boxes_) {
    const bool home = &box == &boxes_.front();
    box.open = home;
    box.job = home ? membership_.job : JobId{};
    box.shards = home ? membership_.shards : 1;
    box.sequences = {};
    box.answered_at.reset();
  }
}
// What is known of the round trip on a way it keeps likewise.
void ChunkStream::put_ways() {
  const EpochPlan* const plan = membership_.plan.get();
  if (plan == nullptr) {
    routes_.reset();
    ways_.resize(1, Way(rto_floor_));
    ways_.front().box = 0;
  } else {
    ways_ = ways_of(plan->plan);
  }
  for (Way& way : ways_) {
    way.window = membership_.window;
    way.answered_at.reset();
    way.rto.forget_back_off();
  }
  if (!routes_) return;
  std::vector<std::uint32_t> groups(ways_.size());
  for (const std::uint8_t way : *routes_) ++groups[way];
  for (std::size_t i = 0; i < ways_.size(); ++i)
    ways_[i].window = std::max(1U, membership_.window * groups[i] / kPlanGroups);
}

// And the way of each group.
std::vector<ChunkStream::Way> ChunkStream::ways_of(const Plan& plan) {
  using BoxAndEnd = std::pair<std::uint8_t, std::uint8_t>;
  const auto places = places_of(plan, membership_.home_box);
  std::array<BoxAndEnd, kPlanGroups> of_group{};
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const BoxIndex box = plan.route(self_, Chunk{group}).box;
    const bool whole = plan.here(box, group) == membership_.members();
    of_group[group] = {places[box], whole ? Way::kAtBox : plan.servers[group]};
  }
  const auto distinct = [&of_group] {
    std::vector<BoxAndEnd> all(of_group.begin(), of_group.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  };
  std::vector<BoxAndEnd> taken = distinct();
  if (taken.size() > kMostWays) {
    for (BoxAndEnd& of : of_group) of.second = Way::kAnywhere;
    taken = distinct();
  }
  std::vector<Way> ways;
  ways.reserve(taken.size());
  for (const auto& [box, end] : taken) {
    const Ipv6& address = boxes_[box].address;
    const auto known = std::find_if(ways_.begin(), ways_.end(), [&address, end = end](const Way& way) {
      return way.address == address && way.end == end;
    });
    ways.push_back(known == ways_.end() ? Way(rto_floor_) : *known);
    ways.back().address = address;
    ways.back().box = box;
    ways.back().end = end;
  }
  if (!routes_) routes_ = std::make_unique<std::array<std::uint8_t, kPlanGroups>>();
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const auto at = std::lower_bound(taken.begin(), taken.end(), of_group[group]);
    (*routes_)[group] = static_cast<std::uint8_t>(at - taken.begin());
  }
  return ways;
}

void ChunkStream::open_box(std::size_t box, JobId job, std::uint32_t shards) noexcept {
  StreamBox& opened = boxes_[box];
  opened.job = job;
  opened.shards = shards;
  opened.open = true;
  // All of the window: another box may have set the cursor back a moment ago.
  for (std::uint64_t index = window_.lowest(); window_.contains(index); ++index) {
    Flight& flight = window_.at(index);
    if (flight.state == FlightState::kBlocked && flight.box == box) window_.take_back(flight);
  }
}

// Its chunks wait for another epoch; a result that is on its way is taken.
void ChunkStream::shut_box(std::size_t box) noexcept {
  boxes_[box].open = false;
  for (std::uint64_t index = window_.lowest(); window_.contains(index); ++index) {
    Flight& flight = window_.at(index);
    const bool waits = flight.state == FlightState::kSent || flight.state == FlightState::kReady;
    if (waits && flight.box == box) window_.hold(flight);
  }
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
  operation.number(numbered_end_, membership_.elements, membership_.lookahead, membership_.world);
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
  if (!answers_.empty() || !direct_.empty() || window_.any_ready() || window_.first_lost() != nullptr ||
      window_.cursor() < std::min(window_.limit(), numbered_end_))
    return 0;
  TimeNs due = kNever;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (const Flight* const oldest = window_.oldest_sent(way); oldest != nullptr)
      due = std::min(due, due_of(*oldest));
    if (const Flight* const unfinished = window_.first_unfinished(way); unfinished != nullptr)
      due = std::min(due, repair_due(*unfinished));
    if (const Flight* const early = window_.oldest_early(way); early != nullptr)
      due = std::min(due, question_due(*early));
  }
  if (const Flight* const lowest = window_.lowest_sent(); lowest != nullptr)
    due = std::min(due, lowest_due(*lowest));
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
  if (!operation.quantised()) return kNoExponent;
  return history_.find(operation.first() + data_chunk)->exponent;
}

void ChunkStream::find_first_expiry() noexcept {
  first_expiry_ = kNever;
  for (const auto& operation : operations_)
    first_expiry_ = std::min(first_expiry_, operation->options().deadline);
}

// Sending half of the chunk stream: what is due, and how it looks on the wire.

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
  while (window_.cursor() < std::min(window_.limit(), numbered_end_)) {
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
bool ChunkStream::at_rest() const noexcept {
  return !window_.any_ready() && window_.cursor() >= std::min(window_.limit(), numbered_end_);
}

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
      if (membership_.sparse) {
        const std::size_t dense = bytes;
        bytes = without_zero_rows(flight.index, out.subspan(kHeaderBytes, bytes));
        if (bytes != dense) header.flags |= kFlagSparse;
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
  if (membership_.sparse && cause == Cause::kNew && flight.nothing) {
    const std::uint64_t chunks = send_along(flight.index, now);
    if (chunks != 1) {
      const kernels::Sums sums = run_sums(flight.index, chunks, membership_.key);
      header.type = PacketType::kZeroRun;
      header.flags = 0;
      header.contributors = Be<std::uint64_t>{chunks};
      header.sum1 = Be<std::uint32_t>{sums.sum1};
      header.sum2 = Be<std::uint32_t>{sums.sum2};
    }
  }
  return seal(header, bytes, out, kernels_);
}

// Looking for rows of zeros costs dense values nothing: one row is looked at, another one of each chunk, and all of them
// only if it is zeros, or those of a chunk shortly before were worth it.
std::size_t ChunkStream::without_zero_rows(std::uint64_t index, std::span<std::byte> values) noexcept {
  constexpr std::uint32_t kAsLong = 16;
  const auto rows = static_cast<std::uint32_t>(values.size() / kRowBytes);
  if (looks_ == 0) {
    const std::uint64_t any = std::uint64_t{static_cast<std::uint32_t>(index) * 0x9E3779B1U} * rows >> 32;
    if (!is_zero_row(values.data() + kRowBytes * any)) return values.size();
  } else {
    --looks_;
  }
  const std::uint32_t bytes = pack_rows(values.data(), rows);
  if (bytes == 0) return values.size();
  looks_ = kAsLong;
  ++statistics_.sparse;
  return bytes;
}

// A run says zeros of the chunks of one shard in one packet, and an exponent of zeros, or none, of all alike. What it
// names was never sent in this epoch and may be sent now; the others are left for their turn.
std::uint64_t ChunkStream::send_along(std::uint64_t base, TimeNs now) noexcept {
  const Flight& first = window_.at(base);
  EngineOperation& operation = *first.operation;
  std::uint64_t chunks = 1;
  if (first.exponent != kNoExponent && first.exponent != kZeroBlock) return chunks;
  const std::uint32_t shards = membership_.shards;
  const std::uint64_t end =
      std::min({window_.limit(), operation.end(), base + kMostOfRun * std::uint64_t{shards}});
  const std::uint32_t elements = operation.wire_elements(base - operation.first());
  for (std::uint64_t index = base + shards; index < end; index += shards) {
    Flight& flight = window_.at(index);
    if (!joins_run(flight, operation, first.exponent) ||
        operation.wire_elements(index - operation.first()) != elements ||
        membership_.shard_of(wire(index)) != membership_.shard_of(wire(base)))
      continue;
    chunks |= std::uint64_t{1} << (index - base) / shards;
    flight.operation = &operation;
    flight.exponent = first.exponent;
    flight.sequence = first.sequence;
    flight.nothing = true;
    if (flight.offered) ++operation.stats.retransmissions;
    if (operation.data_chunk(index - operation.first())) ++statistics_.zeros;
    ++statistics_.contributions;
    ++boxes_.front().traffic.contributions;
    window_.sent_along(flight, now);
    flight.contributed = 1;
    flight.contributed_at = now;
  }
  if (chunks != 1) ++statistics_.runs;
  return chunks;
}

bool ChunkStream::joins_run(const Flight& flight, const EngineOperation& operation,
                            int exponent) const noexcept {
  const bool taken_up = flight.state == FlightState::kReady && flight.sends == 0;
  if (flight.state != FlightState::kIdle && !taken_up) return false;
  const std::uint64_t m = flight.index - operation.first();
  if (operation.primes(m) != (exponent != kNoExponent)) return false;
  if (operation.primes(m) && !operation.all_zero(operation.range(m))) return false;
  const auto data = operation.data_chunk(m);
  if (!data) return true;
  if (operation.quantised()) {
    const Header* const primed = history_.find(operation.first() + *data);
    if (primed == nullptr) return false;
    if (primed->exponent == kZeroBlock || primed->exponent == kNotANumber) return true;
  }
  return operation.all_zero(operation.range(*data));
}

// As if the chunks were 64 values, of those that are not named 0.
kernels::Sums ChunkStream::run_sums(std::uint64_t base, std::uint64_t chunks,
                                    std::uint32_t key) const noexcept {
  kernels::Sums sums;
  for (std::uint64_t rest = chunks; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t value = keyed(key, wire(base + i * std::uint64_t{membership_.shards}));
    sums.sum1 += value;
    sums.sum2 += (i + 1) * value;
  }
  return sums;
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
