#include "engine/result_history.h"

#include <bit>
#include <new>

namespace tally::engine {

bool ResultHistory::start(std::uint32_t largest_window, std::uint32_t elements) {
  const std::size_t count = std::size_t{3} * largest_window;  // a span below lowest, a window above
  kept_.clear();
  values_.reset();
  stride_ = std::size_t{4} * elements;
  window_bits_ = std::countr_zero(largest_window);
  // Not zeroed: values are read only where a kept result has them.
  values_.reset(new (std::nothrow) std::byte[count * stride_]);
  if (!values_) return false;
  kept_.resize(count);
  return true;
}

void ResultHistory::keep(std::uint64_t index, const Header& header) noexcept {
  KeptResult& kept = kept_[position(index)];
  kept.tag = index + 1;
  kept.sum1 = header.sum1.host();
  kept.sum2 = header.sum2.host();
  kept.total = header.total.host();
  kept.elements = header.elements.host();
  kept.dtype = header.dtype;
  kept.contributors = header.contributors.host();
  kept.flags = static_cast<std::uint8_t>(header.flags & (kFlagOverflow | kFlagIncomplete));
  kept.exponent = header.exponent;
}

}  // namespace tally::engine
