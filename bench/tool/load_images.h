#pragma once
// What contributions carry: a few payloads made once, so that sending one writes headers only and sending it
// again carries the same values. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally::bench {

using ImageIndex = std::uint16_t;

class LoadImages {
 public:
  static constexpr ImageIndex kImages = 64;

  // elements: of each, a multiple of 16. Values are -2^24..2^24: the sum of 64 ranks stays inside int32, and
  // so large are quantised floats of 64 ranks at most (protocol.md, 10).
  LoadImages(std::uint16_t elements, Dtype dtype, const kernels::Kernels& kernels);

  [[nodiscard]] std::uint16_t elements() const noexcept { return elements_; }
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  // Of the operation that a contribution belongs to. int32: each is one by itself. float32: all are of the
  // middle of the longest operation that there can be, where each carries values and the exponent of later
  // ones.
  [[nodiscard]] std::uint32_t total() const noexcept {
    return dtype_ == Dtype::kInt32 ? elements_ : UINT32_MAX / elements_ * elements_;
  }
  // As on the wire.
  [[nodiscard]] std::span<const std::byte> values(ImageIndex image) const noexcept {
    return std::span{bytes_}.subspan(std::size_t{image} * 4 * elements_, std::size_t{4} * elements_);
  }
  // Without a rank's key.
  [[nodiscard]] kernels::Sums sums(ImageIndex image) const noexcept { return facts_[image].sums; }
  // float32: -127, -96..127, another one in most images. int32: kNoExponent.
  [[nodiscard]] std::int8_t exponent(ImageIndex image) const noexcept { return facts_[image].exponent; }
  // internet_sum() of the values.
  [[nodiscard]] std::uint32_t internet_sum(ImageIndex image) const noexcept { return facts_[image].internet; }

 private:
  struct Facts {
    kernels::Sums sums{};
    std::uint32_t internet = 0;
    std::int8_t exponent = kNoExponent;
  };

  std::uint16_t elements_;
  Dtype dtype_;
  std::vector<std::byte> bytes_;
  std::vector<Facts> facts_;
};

}  // namespace tally::bench
