#pragma once
// Loss on purpose, to rehearse faults: `impair:` of a port. Off means not in the packet's path. One per
// thread and port, each with its own stream of random numbers: the same seed drops the same frames of the
// same sequence.

#include <cstdint>

namespace tally {

struct ImpairOptions {
  std::uint32_t loss_ppm = 0;  // of each direction
  std::uint64_t seed = 1;
};

class Impair {
 public:
  // stream: tells ports, cores and directions apart.
  Impair(const ImpairOptions& options, std::uint64_t stream) noexcept;
  [[nodiscard]] bool on() const noexcept { return threshold_ != 0; }
  // Whether the next frame is lost.
  [[nodiscard]] bool lose() noexcept;

 private:
  std::uint64_t state_ = 0;
  std::uint64_t threshold_ = 0;  // of 2^64
  bool always_ = false;
};

}  // namespace tally
