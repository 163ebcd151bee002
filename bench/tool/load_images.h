#pragma once
// The values that contributions carry: a few payloads made once, so that sending one writes headers only and
// sending it again carries the same values. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels.h"

namespace tally::bench {

using ImageIndex = std::uint16_t;

class LoadImages {
 public:
  static constexpr ImageIndex kImages = 64;

  // elements: of each, a multiple of 16. Values are -2^24..2^24: the sum of 64 ranks stays inside int32.
  LoadImages(std::uint16_t elements, const Kernels& kernels);

  [[nodiscard]] std::uint16_t elements() const noexcept { return elements_; }
  // As on the wire.
  [[nodiscard]] std::span<const std::byte> values(ImageIndex image) const noexcept {
    return std::span{bytes_}.subspan(std::size_t{image} * 4 * elements_, std::size_t{4} * elements_);
  }
  // Without a rank's key.
  [[nodiscard]] Sums sums(ImageIndex image) const noexcept { return sums_[image]; }

 private:
  std::uint16_t elements_;
  std::vector<std::byte> bytes_;
  std::vector<Sums> sums_;
};

}  // namespace tally::bench
