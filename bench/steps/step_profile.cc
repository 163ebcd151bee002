#include "step_profile.h"

#include <algorithm>
#include <numeric>

namespace tally::bench {

std::uint64_t StepProfile::packets() const noexcept {
  return std::accumulate(packets_.begin(), packets_.end(), std::uint64_t{0});
}

StepProfile::Cell StepProfile::total() const noexcept {
  Cell sum;
  for (const Cell& c : cells_) sum = {sum.cycles + c.cycles, sum.stamps + c.stamps};
  return sum;
}

StepProfile& StepProfile::operator+=(const StepProfile& other) noexcept {
  for (std::size_t i = 0; i < kStepRows; ++i) {
    cells_[i].cycles += other.cells_[i].cycles;
    cells_[i].stamps += other.cells_[i].stamps;
  }
  for (std::size_t k = 0; k < kPacketKinds; ++k) packets_[k] += other.packets_[k];
  return *this;
}

StepProfile middle_half(std::vector<StepProfile> rounds) {
  std::ranges::sort(rounds, {}, [](const StepProfile& p) {
    return static_cast<double>(p.total().cycles) / static_cast<double>(p.packets());
  });
  const std::size_t quarter = rounds.size() / 4;
  StepProfile sum;
  for (std::size_t i = quarter; i < rounds.size() - quarter; ++i) sum += rounds[i];
  return sum;
}

}  // namespace tally::bench
