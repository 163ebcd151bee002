#include "impair.h"

namespace tally {
namespace {

constexpr std::uint32_t kMillion = 1'000'000;

// SplitMix64 (Steele, Lea, Flood, 2014): a counter with a strong mixing function.
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;

constexpr std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

// Streams start at unrelated points of the generator's period of 2^64.
Impair::Impair(const ImpairOptions& options, std::uint64_t stream) noexcept
    : state_(mix(mix(options.seed + kStep) ^ (stream * kStep))),
      threshold_(UINT64_MAX / kMillion * (options.loss_ppm < kMillion ? options.loss_ppm : kMillion)),
      always_(options.loss_ppm >= kMillion) {}

bool Impair::lose() noexcept {
  state_ += kStep;
  return always_ || mix(state_) < threshold_;
}

}  // namespace tally
