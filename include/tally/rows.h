#pragma once
// Values of a data packet with kFlagSparse: only the rows that are not all zero, and which they are. A row is 64 bytes of
// values. Rows first, as in the dense block and in its order, then the bitmap of all, so that both ways need no other
// memory (docs/protocol_sparse.md).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tally/be.h"
#include "tally/wire.h"

namespace tally {

inline constexpr std::uint32_t kRowBytes = 4 * kElementGranule;
inline constexpr std::uint32_t kMaxRows = kMaxElements / kElementGranule;
inline constexpr std::uint32_t kRowsOfWord = 64;

// elements: a valid number of them.
constexpr std::uint32_t rows_of(std::uint32_t elements, std::uint8_t dtype) noexcept {
  return elements / (values_per_word(dtype) * kElementGranule);
}
constexpr std::uint32_t bitmap_words(std::uint32_t rows) noexcept {
  return (rows + kRowsOfWord - 1) / kRowsOfWord;
}
constexpr std::uint32_t bitmap_bytes(std::uint32_t rows) noexcept { return 8 * bitmap_words(rows); }

// Which rows are present: bit r % 64 of word r / 64.
struct RowBitmap {
  std::array<std::uint64_t, bitmap_words(kMaxRows)> words{};

  [[nodiscard]] bool has(std::uint32_t row) const noexcept {
    return (words[row / kRowsOfWord] >> row % kRowsOfWord & 1) != 0;
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    std::uint32_t n = 0;
    for (const std::uint64_t word : words) n += static_cast<std::uint32_t>(std::popcount(word));
    return n;
  }
};

[[nodiscard]] inline bool is_zero_row(const std::byte* row) noexcept {
  std::array<std::uint64_t, kRowBytes / 8> words;
  std::memcpy(words.data(), row, kRowBytes);
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return any == 0;
}

// Bytes of the sparse form of the values at `values`, which are then that; 0 when it is not shorter, and they are as
// they were.
[[nodiscard]] inline std::uint32_t pack_rows(std::byte* values, std::uint32_t rows) noexcept {
  RowBitmap bitmap;
  for (std::uint32_t row = 0; row < rows; ++row)
    if (!is_zero_row(values + std::size_t{kRowBytes} * row))
      bitmap.words[row / kRowsOfWord] |= std::uint64_t{1} << row % kRowsOfWord;
  const std::uint32_t bytes = kRowBytes * bitmap.count() + bitmap_bytes(rows);
  if (bytes >= kRowBytes * rows) return 0;
  std::byte* to = values;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!bitmap.has(row)) continue;
    std::memmove(to, values + std::size_t{kRowBytes} * row, kRowBytes);
    to += kRowBytes;
  }
  for (std::uint32_t i = 0; i < bitmap_words(rows); ++i)
    wire_put(to + 8 * i, Be<std::uint64_t>{bitmap.words[i]});
  return bytes;
}

// The bitmap of a sparse form. bytes: of it, bitmap_bytes(rows) at least.
[[nodiscard]] inline RowBitmap bitmap_of(const std::byte* values, std::uint32_t rows,
                                         std::size_t bytes) noexcept {
  RowBitmap bitmap;
  const std::byte* const at = values + bytes - bitmap_bytes(rows);
  for (std::uint32_t i = 0; i < bitmap_words(rows); ++i)
    bitmap.words[i] = wire_at<Be<std::uint64_t>>(at + 8 * i).host();
  return bitmap;
}

// Whether these bytes are the sparse form of as many rows, 1..kMaxRows: shorter than they, the bitmap names rows that
// there are, and as many as came.
[[nodiscard]] inline bool are_rows(const std::byte* values, std::uint32_t rows, std::size_t bytes) noexcept {
  if (bytes < bitmap_bytes(rows) || bytes >= std::size_t{kRowBytes} * rows) return false;
  const std::size_t present = bytes - bitmap_bytes(rows);
  const RowBitmap bitmap = bitmap_of(values, rows, bytes);
  const std::uint32_t last = rows % kRowsOfWord;
  const bool beyond = last != 0 && bitmap.words[rows / kRowsOfWord] >> last != 0;
  return !beyond && present == std::size_t{kRowBytes} * bitmap.count();
}

// The dense block of a sparse form that are_rows() has seen, which may lie in front of where it goes.
inline void unpack_rows(const std::byte* from, std::byte* values, std::uint32_t rows,
                        std::size_t bytes) noexcept {
  const RowBitmap bitmap = bitmap_of(from, rows, bytes);
  const std::byte* next = from + bytes - bitmap_bytes(rows);
  for (std::uint32_t row = rows; row-- > 0;) {
    std::byte* const to = values + std::size_t{kRowBytes} * row;
    if (bitmap.has(row)) {
      next -= kRowBytes;
      std::memmove(to, next, kRowBytes);
    } else {
      std::memset(to, 0, kRowBytes);
    }
  }
}

}  // namespace tally
