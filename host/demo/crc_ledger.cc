#include "crc_ledger.h"

namespace tally {

bool CrcLedger::report(std::uint32_t iteration, std::size_t tensor, std::uint16_t rank, std::uint32_t crc) {
  // What does not exist, or comes twice, is no proof that the sums agree.
  if (iteration >= iterations_ || tensor >= tensors_ || rank >= world_) return ++differing_ != 0;
  const std::size_t row = (iteration * tensors_ + tensor) * world_;
  auto& cell = crcs_[row + rank];
  if (cell) return ++differing_ != 0;
  const auto first = first_of(row);
  cell = crc;
  ++reported_;
  if (!first || *first == crc) return false;
  ++differing_;
  return true;
}

std::optional<std::uint32_t> CrcLedger::first_of(std::size_t row) const {
  for (std::size_t rank = 0; rank < world_; ++rank) {
    if (crcs_[row + rank]) return crcs_[row + rank];
  }
  return std::nullopt;
}

}  // namespace tally
