// What the sending half of the chunk stream leaves out: rows of zeros, and chunks of nothing else, many of which one
// packet names.
#include <algorithm>
#include <bit>

#include "engine/chunk_codec.h"
#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"
#include "tally/rows.h"

namespace tally::engine {

std::size_t ChunkStream::without_zero_rows(std::span<std::byte> values) noexcept {
  if (looks_ != 0) --looks_;
  const std::uint32_t bytes = pack_rows(values.data(), static_cast<std::uint32_t>(values.size() / kRowBytes));
  if (bytes == 0) return values.size();
  looks_ = kLately;
  ++statistics_.sparse;
  return bytes;
}

// As every result moves the window a little, runs would become shorter and shorter, and with them those of results.
bool ChunkStream::next_is_cut_off() noexcept {
  const std::uint64_t index = window_.cursor();
  const Flight& flight = window_.at(index);
  const EngineOperation* const operation = operation_of(index);
  if (flight.state != FlightState::kIdle || operation->end() <= window_.limit()) return false;
  const std::uint64_t m = index - operation->first();
  const int exponent = operation->primes(m) ? kZeroBlock : kNoExponent;
  if (!joins_run(flight, *operation, exponent)) return false;
  zeros_ = {index, operation->end()};
  return true;
}

// A run says zeros of the chunks of one shard in one packet, and an exponent of zeros, or none, of all alike. What it
// names was never sent in this epoch and may be sent now; the others are left for their turn.
std::uint64_t ChunkStream::send_along(std::uint64_t base, TimeNs now) noexcept {
  const Flight& first = window_.at(base);
  EngineOperation& operation = *first.operation;
  std::uint64_t chunks = 1;
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

}  // namespace tally::engine
