#include "load_images.h"

#include <cstring>

#include "tally/be.h"
#include "tally/mix64.h"

namespace tally::bench {

LoadImages::LoadImages(std::uint16_t elements, const Kernels& kernels)
    : elements_(elements), bytes_(std::size_t{kImages} * 4 * elements) {
  for (std::size_t i = 0; i < std::size_t{kImages} * elements; ++i) {
    const Be value{static_cast<std::int32_t>(mix64(i + 1) >> 39) - (1 << 24)};
    std::memcpy(&bytes_[4 * i], &value, sizeof value);
  }
  for (ImageIndex image = 0; image < kImages; ++image)
    sums_.push_back(kernels.sums(values(image).data(), elements));
}

}  // namespace tally::bench
