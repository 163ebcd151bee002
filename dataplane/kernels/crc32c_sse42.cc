// CRC32C by the crc32 instruction of SSE4.2: 3 cycles of latency per 8 bytes, one chain. The header of a
// packet is 52 bytes, 7 steps; several chains with a carry-less join would pay off from some 200 bytes only.
#include <nmmintrin.h>

#include <cstring>

#include "kernels/kernels.h"

namespace tally::kernels {
namespace {

constexpr std::size_t kHeaderBytes = 52;  // what the wire's `check` covers

template <class Word>
Word word_at(const std::byte* data) noexcept {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

[[gnu::target("sse4.2")]] std::uint32_t crc_of_header(const std::byte* data) noexcept {
  std::uint64_t crc = ~0u;
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data));
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data + 8));
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data + 16));
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data + 24));
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data + 32));
  crc = _mm_crc32_u64(crc, word_at<std::uint64_t>(data + 40));
  return ~_mm_crc32_u32(static_cast<std::uint32_t>(crc), word_at<std::uint32_t>(data + 48));
}

[[gnu::target("sse4.2")]] std::uint32_t crc_of_any(const std::byte* data, std::size_t bytes) noexcept {
  std::uint64_t wide = ~0u;
  for (; bytes >= 8; data += 8, bytes -= 8) wide = _mm_crc32_u64(wide, word_at<std::uint64_t>(data));
  auto crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++data, --bytes) crc = _mm_crc32_u8(crc, std::to_integer<unsigned char>(*data));
  return ~crc;
}

}  // namespace

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const std::byte* data, std::size_t bytes) noexcept {
  return bytes == kHeaderBytes ? crc_of_header(data) : crc_of_any(data, bytes);
}

}  // namespace tally::kernels
