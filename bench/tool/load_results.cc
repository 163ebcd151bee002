// What the ledger believes of results.

#include <algorithm>

#include "contributions.h"
#include "load_ledger.h"
#include "tally/mix64.h"

namespace tally::bench {

std::optional<std::uint64_t> ChunkLedger::chunk_of(Chunk number) const noexcept {
  const std::int64_t chunk =
      static_cast<std::int64_t>(lowest_) + serial_difference(number, number_of(lowest_));
  if (chunk < 0 || chunk >= static_cast<std::int64_t>(newest_)) return std::nullopt;
  return static_cast<std::uint64_t>(chunk);
}

void ChunkLedger::receive(const engine::Datagram& result, std::size_t port, std::uint16_t rank,
                          bool multicast, TimeNs now) noexcept {
  const Header& h = result.header;
  if (h.job_id() != membership_.job || h.epoch_id() != membership_.epoch ||
      h.cookie.host() != raw(membership_.result_cookie)) {
    ++counts_.foreign;
    return;
  }
  const auto chunk = chunk_of(h.chunk_id());
  if (!chunk) return fail("a RESULT is of a chunk that nobody has sent");
  if (*chunk < lowest_) {
    ++counts_.repeats;
    return;
  }
  Flight& f = flight(*chunk);
  if (!right(result, *chunk, f)) return;
  const std::uint64_t receivers = multicast ? lanes_[port].behind : bit_of(Rank{rank});
  if ((f.delivered | receivers) == f.delivered) {
    ++counts_.repeats;
    return;
  }
  latency_.record(now - f.complete);
  deliver(f, receivers);
}

void ChunkLedger::receive_echo(Chunk number, std::uint16_t rank, TimeNs now) noexcept {
  const auto chunk = chunk_of(number);
  if (!chunk || *chunk < lowest_ || (flight(*chunk).delivered & bit_of(Rank{rank})) != 0) {
    ++counts_.repeats;
    return;
  }
  Flight& f = flight(*chunk);
  if (f.contributed == membership_.members() && rank + 1U == membership_.world)
    latency_.record(now - f.complete);
  deliver(f, bit_of(Rank{rank}));
}

void ChunkLedger::deliver(Flight& f, std::uint64_t ranks) noexcept {
  ++counts_.results;
  f.delivered |= ranks;
  while (lowest_ < newest_ && flight(lowest_).delivered == membership_.members()) {
    flight(lowest_) = {};
    ++lowest_;
    ++counts_.chunks;
  }
}

bool ChunkLedger::right(const engine::Datagram& result, std::uint64_t chunk, const Flight& f) noexcept {
  const Header& h = result.header;
  if (f.contributed != membership_.members() || h.contributors.host() != membership_.members() ||
      (h.flags & kFlagIncomplete) != 0) {
    fail("a RESULT came before all contributions, or without some of them");
    return false;
  }
  if (!same_shape(h)) {
    fail("a RESULT has other elements, dtype or total than its contributions, or OVERFLOW, which no sum has");
    return false;
  }
  const std::uint32_t keys = keyed(membership_.key_sum, h.chunk_id());
  const kernels::Sums sums = kernels_.sums(result.payload.data(), images_.elements());
  if (h.sum1.host() != sums.sum1 + keys || h.sum2.host() != sums.sum2) {
    ++counts_.corrupt;
    return false;
  }
  if (sums != f.sums) {
    fail("a RESULT is not the sum of what was contributed");
    return false;
  }
  if (h.exponent != f.exponent) {
    fail("the exponent of a RESULT is not the greatest of those contributed");
    return false;
  }
  if (chunk % kSampleEvery != 0) return true;
  ++counts_.compared;
  if (same_values(result, chunk)) return true;
  fail("a value of a RESULT is not the sum of the values contributed");
  return false;
}

bool ChunkLedger::same_shape(const Header& h) const noexcept {
  return h.elements.host() == images_.elements() && h.dtype == static_cast<std::uint8_t>(images_.dtype()) &&
         h.total.host() == images_.total() && (h.flags & kFlagOverflow) == 0;
}

bool ChunkLedger::same_values(const engine::Datagram& result, std::uint64_t chunk) noexcept {
  std::ranges::fill(expected_, 0U);
  for (std::uint16_t r = 0; r < membership_.world; ++r) {
    const std::byte* const values = images_.values(image_of({chunk, r})).data();
    for (std::size_t k = 0; k < expected_.size(); ++k) expected_[k] += value_at(values, k);
  }
  for (std::size_t k = 0; k < expected_.size(); ++k)
    if (expected_[k] != value_at(result.payload.data(), k)) return false;
  return true;
}

}  // namespace tally::bench
