#include "load_ledger.h"

#include <algorithm>
#include <bit>

#include "contributions.h"
#include "tally/mix64.h"

namespace tally::bench {

ChunkLedger::ChunkLedger(const engine::Membership& membership, std::uint16_t ports, const LoadImages& images,
                         const kernels::Kernels& kernels, TimeNs deadline)
    : membership_(membership),
      images_(images),
      kernels_(kernels),
      deadline_(deadline),
      first_(membership.first_chunk),
      skew_(std::min<std::uint64_t>(kSkewChunks, membership.window / 2 / membership.world)),
      ahead_(images.dtype() != Dtype::kInt32 ? std::min(membership.window, membership.lookahead)
                                             : membership.window),
      mask_(membership.window - 1),
      flights_(membership.window),
      of_rank_(std::size_t{membership.window} * membership.world),
      lanes_(ports),
      expected_(images.words()) {
  for (std::uint16_t r = 0; r < membership.world; ++r) {
    lanes_[r % ports].ranks.push_back(r);
    lanes_[r % ports].behind |= bit_of(Rank{r});
  }
  for (Lane& lane : lanes_) lane.again.reserve(membership.window * lane.ranks.size());
}

std::optional<Contributed> ChunkLedger::next(std::size_t port) noexcept {
  Lane& lane = lanes_[port];
  const auto advance = [&lane] {
    if (++lane.at < lane.ranks.size()) return;
    lane.at = 0;
    ++lane.step;
  };
  // At the start the last ranks still wait, at the end the first ones have nothing left.
  for (std::size_t tries = 0; tries <= lane.ranks.size(); ++tries) {
    const std::uint64_t behind = skew_ * lane.at;
    if (lane.step < behind) {
      advance();
      continue;
    }
    const std::uint64_t chunk = base_ + lane.step - behind;
    if (chunk >= limit_) {
      if (lane.at + 1 == lane.ranks.size()) return std::nullopt;  // the last rank has sent its last one
      advance();
      continue;
    }
    if (chunk >= lowest_ + ahead_) return std::nullopt;
    const Contributed what{chunk, lane.ranks[lane.at]};
    advance();
    return what;
  }
  return std::nullopt;
}

void ChunkLedger::sent(const Contributed& what, ImageIndex image, TimeNs now) noexcept {
  Flight& f = flight(what.chunk);
  if (f.contributed == 0) f = {};
  const kernels::Sums sums = images_.sums(image);
  f.sums.sum1 += sums.sum1;
  f.sums.sum2 += sums.sum2;
  f.exponent = std::max(f.exponent, images_.exponent(image));
  f.contributed |= bit_of(Rank{what.rank});
  of_rank_[(what.chunk & mask_) * membership_.world + what.rank] = image;
  newest_ = std::max(newest_, what.chunk + 1);
  ++counts_.sent;
  if (f.contributed != membership_.members()) return;
  f.complete = now;
  f.due = now + deadline_;
}

std::optional<Contributed> ChunkLedger::next_again(std::size_t port) noexcept {
  std::vector<Contributed>& again = lanes_[port].again;
  while (!again.empty()) {
    const Contributed what = again.back();
    again.pop_back();
    if (what.chunk >= lowest_ && (flight(what.chunk).delivered & bit_of(Rank{what.rank})) == 0) return what;
  }
  return std::nullopt;
}

ImageIndex ChunkLedger::image_of(const Contributed& what) const noexcept {
  return of_rank_[(what.chunk & mask_) * membership_.world + what.rank];
}

void ChunkLedger::scan(TimeNs now) {
  for (std::uint64_t chunk = lowest_; chunk < newest_; ++chunk) {
    Flight& f = flight(chunk);
    if (f.due > now || f.contributed != membership_.members() || f.delivered == membership_.members())
      continue;
    if (!f.late) ++counts_.late;
    f.late = true;
    f.due = now + deadline_;
    offer_again(chunk, membership_.members() & ~f.delivered);
  }
}

void ChunkLedger::offer_again(std::uint64_t chunk, std::uint64_t ranks) {
  for (; ranks != 0; ranks &= ranks - 1) {
    const auto rank = static_cast<std::uint16_t>(std::countr_zero(ranks));
    Lane& lane = lanes_[rank % lanes_.size()];
    // A full list holds what a port has not taken for long; the next scan comes back.
    if (lane.again.size() < lane.again.capacity()) lane.again.push_back({chunk, rank});
  }
}

void ChunkLedger::wind_up() noexcept {
  limit_ = base_;
  for (const Lane& lane : lanes_) limit_ = std::max(limit_, base_ + lane.step + (lane.at > 0 ? 1 : 0));
}

void ChunkLedger::go_on() noexcept {
  base_ = limit_;
  limit_ = UINT64_MAX;
  for (Lane& lane : lanes_) lane.step = lane.at = 0;
}

// What the ledger believes of results.

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
    fail(
        "a RESULT has other elements, dtype or total than its contributions, or OVERFLOW or ZERO, which no "
        "sum has");
    return false;
  }
  const std::uint32_t keys = keyed(membership_.key_sum, h.chunk_id());
  const kernels::Sums sums = images_.sums_of(kernels_, result.payload.data());
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
         h.total.host() == images_.total() && (h.flags & (kFlagOverflow | kFlagZero)) == 0;
}

bool ChunkLedger::same_values(const engine::Datagram& result, std::uint64_t chunk) noexcept {
  std::ranges::fill(expected_, 0U);
  for (std::uint16_t r = 0; r < membership_.world; ++r) {
    const std::byte* const values = images_.values(image_of({chunk, r})).data();
    for (std::size_t k = 0; k < expected_.size(); ++k) {
      const std::uint32_t word = value_at(values, k);
      const std::uint32_t sum = expected_[k] + word;
      // Two values in a word do not carry into each other.
      const std::uint32_t upper = (expected_[k] & 0xFFFF'0000) + (word & 0xFFFF'0000);
      expected_[k] = images_.halves() ? upper | (sum & 0xFFFF) : sum;
    }
  }
  for (std::size_t k = 0; k < expected_.size(); ++k)
    if (expected_[k] != value_at(result.payload.data(), k)) return false;
  return true;
}

}  // namespace tally::bench
