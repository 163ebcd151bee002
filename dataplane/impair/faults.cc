#include "impair/faults.h"

#include <algorithm>

#include "tally/mix64.h"

namespace tally::impair {
namespace {

constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;

enum Kind : std::uint64_t { kLose, kLeave, kDuplicate, kCorrupt, kReorder, kBit, kDistance, kTime };

constexpr double share(std::uint32_t ppm) noexcept { return ppm / 1e6; }

// Of the frames that come while none is lost, the share that begins a burst: with bursts of b frames on
// average and a share p of all frames lost, p / (1 - p) / b.
double begin_of(const ImpairOptions& o) noexcept {
  const double p = share(o.loss_ppm);
  if (o.burst <= 1 || p >= 1) return p;
  return p / (1 - p) / o.burst;
}

double end_of(const ImpairOptions& o) noexcept {
  return o.loss_ppm >= 1'000'000 ? 0 : 1.0 / std::max(o.burst, 1U);
}

}  // namespace

// Streams start at unrelated points of the generator's period of 2^64.
FaultRandom::FaultRandom(std::uint64_t seed, std::uint64_t stream, std::uint64_t kind) noexcept
    : state_(mix64(mix64(mix64(seed + kStep) ^ (stream * kStep)) + kind * kStep)) {}

std::uint64_t FaultRandom::next() noexcept {
  state_ += kStep;
  return mix64(state_);
}

std::uint64_t FaultRandom::next(std::uint64_t below) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{next()} * below) >> 64);
}

Chance::Chance(double probability, FaultRandom random) noexcept
    : random_(random),
      threshold_(static_cast<std::uint64_t>(std::clamp(probability, 0.0, 0.999999999999) * 0x1p64)),
      always_(probability >= 1) {}

Faults::Faults(const ImpairStream& s) noexcept
    : bursts_(s.options.burst > 1 && s.options.loss_ppm != 0),
      lose_(begin_of(s.options), {s.options.seed, s.number, kLose}),
      leave_(end_of(s.options), {s.options.seed, s.number, kLeave}),
      duplicate_(share(s.options.duplicate_ppm), {s.options.seed, s.number, kDuplicate}),
      corrupt_(share(s.options.corrupt_ppm), {s.options.seed, s.number, kCorrupt}),
      reorder_(share(s.options.reorder_ppm), {s.options.seed, s.number, kReorder}),
      bit_(s.options.seed, s.number, kBit),
      distance_(s.options.seed, s.number, kDistance),
      time_(s.options.seed, s.number, kTime),
      shortest_(s.options.delay - std::min(s.options.jitter, s.options.delay)),
      spread_(2 * std::min(s.options.jitter, s.options.delay)) {}

// After a burst comes at least one frame that is not lost: else two bursts in a row would be one.
bool Faults::lost() noexcept {
  if (!bursts_) return lose_.next();
  in_burst_ = in_burst_ ? !leave_.next() : lose_.next();
  return in_burst_;
}

std::uint32_t Faults::held_back() noexcept {
  if (!reorder_.next()) return 0;
  return static_cast<std::uint32_t>(1 + distance_.next(kFarthest));
}

TimeNs Faults::delay() noexcept { return spread_ == 0 ? shortest_ : shortest_ + time_.next(spread_ + 1); }

}  // namespace tally::impair
