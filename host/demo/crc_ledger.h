#pragma once
// Compares what the ranks of a job got, tensor by tensor: all must have the same bits. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tally {

class CrcLedger {
 public:
  CrcLedger(std::size_t tensors, std::uint32_t iterations, std::uint16_t world)
      : tensors_(tensors), iterations_(iterations), world_(world), crcs_(tensors * iterations * world) {}

  // One rank's CRC32C of a result. Returns whether it differs from that of the lowest rank that reported
  // before.
  bool report(std::uint32_t iteration, std::size_t tensor, std::uint16_t rank, std::uint32_t crc);

  // Results whose bits differ from those of another rank, or that nobody asked for.
  [[nodiscard]] std::uint64_t differing() const noexcept { return differing_; }
  [[nodiscard]] std::uint64_t reported() const noexcept { return reported_; }
  // Every rank has reported every tensor of every iteration.
  [[nodiscard]] bool complete() const noexcept { return reported_ == crcs_.size(); }

 private:
  [[nodiscard]] std::optional<std::uint32_t> first_of(std::size_t row) const;

  std::size_t tensors_;
  std::uint32_t iterations_;
  std::uint16_t world_;
  std::vector<std::optional<std::uint32_t>> crcs_;  // by iteration, tensor, rank
  std::uint64_t differing_ = 0;
  std::uint64_t reported_ = 0;
};

}  // namespace tally
