#pragma once
// The fuzzer's bytes as a supply of choices. When they are used up every choice is 0 and empty() is true, so
// that a loop over operations ends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) noexcept : left_(data, size) {}

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  std::uint8_t byte() noexcept {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  std::uint16_t half() noexcept {
    const std::uint16_t high = byte();
    return static_cast<std::uint16_t>(high << 8 | byte());
  }
  std::uint32_t word() noexcept {
    const std::uint32_t high = half();
    return high << 16 | half();
  }
  // 0..n-1; n: 1..256. One byte.
  std::uint32_t below(std::uint32_t n) noexcept { return byte() % n; }
  bool flip() noexcept { return (byte() & 1) != 0; }
  // At most n bytes.
  std::span<const std::byte> take(std::size_t n) noexcept {
    const auto taken = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(taken.size());
    return std::as_bytes(taken);
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace tally
