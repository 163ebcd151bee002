#include "load_images.h"

#include "contributions.h"
#include "l2/l2_headers.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::int8_t kOfZeros = -127;
constexpr int kLeastExponent = -96;
constexpr std::uint64_t kExponents = 127 + 96 + 1;

std::int8_t exponent_of(ImageIndex image) noexcept {
  if (image == 0) return kOfZeros;
  return static_cast<std::int8_t>(kLeastExponent + static_cast<int>(mix64(image) % kExponents));
}

}  // namespace

LoadImages::LoadImages(std::uint16_t elements, Dtype dtype, const kernels::Kernels& kernels)
    : elements_(elements), dtype_(dtype), bytes_(std::size_t{kImages} * 4 * elements) {
  write_values(bytes_.data(), std::size_t{kImages} * elements,
               [](std::size_t i) { return static_cast<std::int32_t>(mix64(i + 1) >> 39) - (1 << 24); });
  for (ImageIndex image = 0; image < kImages; ++image)
    facts_.push_back({.sums = kernels.sums(values(image).data(), elements),
                      .internet = tally::l2::internet_sum(values(image)),
                      .exponent = dtype == Dtype::kFloat32 ? exponent_of(image) : kNoExponent});
}

}  // namespace tally::bench
