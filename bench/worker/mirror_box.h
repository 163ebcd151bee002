#pragma once
// The box of one worker, in the same thread: it lets the worker into a job of two, and turns a contribution
// into the RESULT at once, in its place. The other rank is taken to have sent -2x, so that every sum is -x: a
// value that was not written is seen, and nothing grows however often the same memory is summed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally::bench {

class MirrorBox {
 public:
  struct Shape {
    std::uint16_t elements = 352;
    std::uint32_t window = 256;
  };
  static constexpr std::uint16_t kWorld = 2;

  MirrorBox(const Shape& shape, const kernels::Kernels& kernels);

  // The JOINED(running) to a JOIN, the echo of a HEARTBEAT; nothing to anything else.
  [[nodiscard]] std::optional<std::vector<std::byte>> control(std::span<const std::byte> datagram) const;
  // A contribution becomes its RESULT. Ends the process if it is none, or its sums are wrong.
  void mirror(std::span<std::byte> datagram) noexcept;

 private:
  [[nodiscard]] Header from_box(PacketType type) const noexcept;
  [[nodiscard]] std::vector<std::byte> joined(std::span<const std::byte> join) const;

  const Shape shape_;
  const kernels::Kernels& kernels_;
  std::uint32_t own_key_ = 0;
  std::uint32_t all_keys_ = 0;
  std::vector<std::int32_t> entry_;
};

}  // namespace tally::bench
