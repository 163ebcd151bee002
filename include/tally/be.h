#pragma once
// Be<T>: an integer as it lies on the wire, big-endian. Explicit in, .host() out; alignment 1, so a wire
// struct may be viewed at any byte of a packet.

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tally {

template <std::integral T>
class Be {
 public:
  constexpr Be() noexcept = default;
  constexpr explicit Be(T host) noexcept : bytes_(std::bit_cast<Bytes>(swapped(host))) {}
  [[nodiscard]] constexpr T host() const noexcept { return swapped(std::bit_cast<T>(bytes_)); }
  constexpr bool operator==(const Be&) const noexcept = default;

 private:
  using Bytes = std::array<unsigned char, sizeof(T)>;

  static constexpr T swapped(T v) noexcept {
    static_assert(std::endian::native == std::endian::little, "Tally runs on little-endian machines");
    if constexpr (sizeof(T) == 1) return v;
    if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(v)));
    if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(v)));
    if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(v)));
  }

  Bytes bytes_{};
};

// Wire structs are trivially copyable, so viewing packet bytes as one is a copy that the compiler turns into
// plain loads, and so is writing one.
template <class T>
[[nodiscard]] T wire_at(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void wire_put(std::byte* at, const T& value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

static_assert(sizeof(Be<std::uint64_t>) == 8 && alignof(Be<std::uint64_t>) == 1);
static_assert(std::is_trivially_copyable_v<Be<std::uint32_t>>);

}  // namespace tally
