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
  Kept& kept = kept_[position(index)];
  kept = {index + 1, header};
  kept.header.flags &= kFlagOverflow | kFlagZero | kFlagIncomplete;
}

}  // namespace tally::engine
