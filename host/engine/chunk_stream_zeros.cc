// What the sending half of the chunk stream leaves out: rows of zeros, and chunks of nothing else, many of which one
// packet names.
#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/chunk_codec.h"
#include "engine/chunk_stream.h"
#include "engine/engine_operation.h"
#include "tally/rows.h"
#include "tally/zero_run.h"

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
  if (!joins_run(flight, *operation)) return false;
  zeros_ = {index, operation->end()};
  return true;
}

void ChunkStream::note_values(const Flight& flight) noexcept {
  const EngineOperation& operation = *flight.operation;
  if (!operation.data_chunk(flight.index - operation.first())) return;
  zeros_lately_ = flight.nothing ? kLately : zeros_lately_ - (zeros_lately_ != 0 ? 1 : 0);
}

std::size_t ChunkStream::write_run(Header header, std::uint64_t base, std::span<std::byte> out, TimeNs now) {
  RunExponents exponents{};
  const std::uint64_t chunks = send_along(base, now, exponents);
  if (chunks == 0) return 0;
  if (chunks == 1) return seal(header, 0, out, kernels_);
  const RunForm form = form_of_run(exponents, chunks);
  const std::span<std::byte> payload = out.subspan(kHeaderBytes, form.bytes);
  std::memcpy(payload.data(), exponents.data(), payload.size());
  const RunSums sums = run_sums(base, chunks, membership_.key, payload);
  header.type = PacketType::kZeroRun;
  header.flags = 0;
  header.exponent = form.of_all;
  header.contributors = Be<std::uint64_t>{chunks};
  header.sum1 = Be<std::uint32_t>{sums.sum1};
  header.sum2 = Be<std::uint32_t>{sums.sum2};
  return seal(header, payload.size(), out, kernels_);
}

// A run says zeros of the chunks of one shard in one packet. What it names was never sent in this epoch and may be sent
// now; the others are left for their turn.
std::uint64_t ChunkStream::send_along(std::uint64_t base, TimeNs now, RunExponents& exponents) {
  const Flight& first = window_.at(base);
  EngineOperation& operation = *first.operation;
  std::uint64_t chunks = 1;
  std::size_t named = 0;
  exponents[named++] = first.exponent;
  const std::uint32_t shards = membership_.shards;
  const std::uint64_t end =
      std::min({window_.limit(), operation.end(), base + kMostOfRun * std::uint64_t{shards}});
  const std::uint32_t elements = operation.wire_elements(base - operation.first());
  for (std::uint64_t index = base + shards; index < end; index += shards) {
    Flight& flight = window_.at(index);
    if (!joins_run(flight, operation) || operation.wire_elements(index - operation.first()) != elements ||
        membership_.shard_of(wire(index)) != membership_.shard_of(wire(base)))
      continue;
    flight.operation = &operation;
    if (!put_exponent(flight)) return 0;
    chunks |= std::uint64_t{1} << (index - base) / shards;
    exponents[named++] = flight.exponent;
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

// It has no values, or they are zeros.
bool ChunkStream::joins_run(const Flight& flight, const EngineOperation& operation) const noexcept {
  const bool taken_up = flight.state == FlightState::kReady && flight.sends == 0;
  if (flight.state != FlightState::kIdle && !taken_up) return false;
  const auto data = operation.data_chunk(flight.index - operation.first());
  if (!data) return true;
  if (operation.quantised()) {
    const Header* const primed = history_.find(operation.first() + *data);
    if (primed == nullptr) return false;
    if (primed->exponent == kZeroBlock || primed->exponent == kNotANumber) return true;
  }
  return operation.all_zero(operation.range(*data));
}

RunSums ChunkStream::run_sums(std::uint64_t base, std::uint64_t chunks, std::uint32_t key,
                              std::span<const std::byte> payload) const noexcept {
  RunSums sums;
  for (std::uint64_t rest = chunks; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    sums.add_chunk(i, key, wire(base + i * std::uint64_t{membership_.shards}));
  }
  sums.add_exponents(payload);
  return sums;
}

}  // namespace tally::engine
