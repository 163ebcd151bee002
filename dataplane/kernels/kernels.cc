#include "kernels/kernels.h"

#include <cpuid.h>
#include <nmmintrin.h>
#include <array>

#include "tally/be.h"

namespace tally::kernels {
namespace {

// Not a name that clang's __builtin_cpu_supports() knows.
bool has_f16c() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

struct Usable {
  std::array<const Kernels*, 3> tables{&kScalarKernels};  // slowest first
  std::size_t count = 1;

  Usable() noexcept {
    // The builtin also asks the operating system whether it saves the wide registers.
    const bool avx2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx2") && has_f16c();
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq");
    if (avx2) tables[count++] = &kAvx2Kernels;
    if (avx512) tables[count++] = &kAvx512Kernels;
  }
};

// CRC32C by the crc32 instruction of SSE4.2: 3 cycles of latency per 8 bytes, one chain. The header of a
// packet is 52 bytes, 7 steps; several chains with a carry-less join would pay off from some 200 bytes only.
constexpr std::size_t kHeaderBytes = 52;  // what the wire's `check` covers

[[gnu::target("sse4.2")]] std::uint32_t crc_of_header(const std::byte* data) noexcept {
  std::uint64_t crc = ~0u;
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data));
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data + 8));
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data + 16));
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data + 24));
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data + 32));
  crc = _mm_crc32_u64(crc, wire_at<std::uint64_t>(data + 40));
  return ~_mm_crc32_u32(static_cast<std::uint32_t>(crc), wire_at<std::uint32_t>(data + 48));
}

[[gnu::target("sse4.2")]] std::uint32_t crc_of_any(const std::byte* data, std::size_t bytes) noexcept {
  std::uint64_t wide = ~0u;
  for (; bytes >= 8; data += 8, bytes -= 8) wide = _mm_crc32_u64(wide, wire_at<std::uint64_t>(data));
  auto crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++data, --bytes) crc = _mm_crc32_u8(crc, std::to_integer<unsigned char>(*data));
  return ~crc;
}

}  // namespace

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const std::byte* data, std::size_t bytes) noexcept {
  return bytes == kHeaderBytes ? crc_of_header(data) : crc_of_any(data, bytes);
}

std::span<const Kernels* const> usable_kernels() noexcept {
  static const Usable usable;
  return std::span(usable.tables).first(usable.count);
}

const Kernels& best_kernels() noexcept { return *usable_kernels().back(); }

}  // namespace tally::kernels
