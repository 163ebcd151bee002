#pragma once
// Values of which rows of zeros are left out (docs/protocol_sparse.md): the rows that are there, in order, and behind
// them a bitmap of which they are. So both packing and unpacking are done where the values lie.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tally/be.h"
#include "tally/wire.h"

namespace tally {

inline constexpr std::uint32_t kRowBytes = 4 * kElementGranule;
inline constexpr std::uint32_t kRowsPerWord = 64;
inline constexpr std::uint32_t kMaxRows = kMaxElements / kElementGranule;

constexpr std::uint32_t rows_of(std::uint32_t elements, std::uint8_t dtype) noexcept {
  return elements / (values_per_word(dtype) * kElementGranule);
}
// Words of the bitmap.
constexpr std::uint32_t row_words(std::uint32_t rows) noexcept {
  return (rows + kRowsPerWord - 1) / kRowsPerWord;
}
constexpr std::uint32_t bitmap_bytes(std::uint32_t rows) noexcept { return 8 * row_words(rows); }

// Bit i of word w: row 64 w + i is there.
using RowBits = std::array<std::uint64_t, row_words(kMaxRows)>;

constexpr bool has_row(const RowBits& bits, std::uint32_t row) noexcept {
  return (bits[row / kRowsPerWord] >> row % kRowsPerWord & 1) != 0;
}

// Of valid ones. bytes: of all that is behind the header.
inline RowBits row_bits(const std::byte* values, std::uint32_t rows, std::uint32_t bytes) noexcept {
  RowBits bits{};
  const std::byte* at = values + bytes - bitmap_bytes(rows);
  for (std::uint32_t w = 0; w < row_words(rows); ++w) bits[w] = wire_at<Be<std::uint64_t>>(at + 8 * w).host();
  return bits;
}

// Is this shorter than all `rows`, and do bitmap and length agree? rows: at most kMaxRows.
inline bool are_rows(const std::byte* values, std::uint32_t rows, std::uint32_t bytes) noexcept {
  const std::uint32_t map = bitmap_bytes(rows);
  if (bytes < map || bytes >= kRowBytes * rows || (bytes - map) % kRowBytes != 0) return false;
  const RowBits bits = row_bits(values, rows, bytes);
  const std::uint32_t last = rows % kRowsPerWord;
  if (last != 0 && bits[rows / kRowsPerWord] >> last != 0) return false;
  std::uint32_t there = 0;
  for (const std::uint64_t word : bits) there += static_cast<std::uint32_t>(std::popcount(word));
  return there == (bytes - map) / kRowBytes;
}

// Leaves out the rows of zeros among `rows` at `values`: how many bytes remain; 0: they would not be fewer, and
// nothing has changed.
inline std::uint32_t pack_rows(std::byte* values, std::uint32_t rows) noexcept {
  RowBits bits{};
  std::uint32_t there = 0;
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::array<std::uint64_t, kRowBytes / 8> words;
    std::memcpy(words.data(), values + row * kRowBytes, kRowBytes);
    std::uint64_t any = 0;
    for (const std::uint64_t word : words) any |= word;
    if (any == 0) continue;
    bits[row / kRowsPerWord] |= std::uint64_t{1} << row % kRowsPerWord;
    ++there;
  }
  const std::uint32_t bytes = there * kRowBytes + bitmap_bytes(rows);
  if (bytes >= rows * kRowBytes) return 0;
  std::byte* at = values;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!has_row(bits, row)) continue;
    if (at != values + row * kRowBytes) std::memcpy(at, values + row * kRowBytes, kRowBytes);
    at += kRowBytes;
  }
  for (std::uint32_t w = 0; w < row_words(rows); ++w) wire_put(at + 8 * w, Be{bits[w]});
  return bytes;
}

// All `rows` of what are_rows(); `to`: may be `values`.
inline void unpack_rows(const std::byte* values, std::uint32_t rows, std::uint32_t bytes,
                        std::byte* to) noexcept {
  const RowBits bits = row_bits(values, rows, bytes);
  const std::byte* at = values + bytes - bitmap_bytes(rows);
  for (std::uint32_t row = rows; row-- > 0;) {  // from behind: none is overwritten before it is read
    std::byte* const out = to + row * kRowBytes;
    if (!has_row(bits, row)) {
      std::memset(out, 0, kRowBytes);
    } else if (at -= kRowBytes; at != out) {
      std::memcpy(out, at, kRowBytes);
    }
  }
}

}  // namespace tally
