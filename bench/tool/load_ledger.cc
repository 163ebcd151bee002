#include "load_ledger.h"

#include <algorithm>
#include <bit>

namespace tally::bench {
namespace {

// As real workers do not run in step: an entry is touched again after other packets.
constexpr std::uint64_t kSkewChunks = 4;

}  // namespace

ChunkLedger::ChunkLedger(const engine::Membership& membership, std::uint16_t ports, const LoadImages& images,
                         const kernels::Kernels& kernels, TimeNs deadline)
    : membership_(membership),
      images_(images),
      kernels_(kernels),
      deadline_(deadline),
      first_(membership.first_chunk),
      skew_(std::min<std::uint64_t>(kSkewChunks, membership.window / 2 / membership.world)),
      ahead_(images.dtype() == Dtype::kFloat32 ? std::min(membership.window, membership.lookahead)
                                               : membership.window),
      mask_(membership.window - 1),
      flights_(membership.window),
      of_rank_(std::size_t{membership.window} * membership.world),
      lanes_(ports),
      expected_(images.elements()) {
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

}  // namespace tally::bench
