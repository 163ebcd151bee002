#pragma once
// The tables behind kernels.h and what they share. Private to this folder: callers ask best_kernels().

#include "kernels.h"

namespace tally {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;    // needs avx2, sse4.2
extern const Kernels kAvx512Kernels;  // needs avx512 f, bw, dq; avx2; sse4.2

// Kernels::crc32c by the crc32 instruction; needs sse4.2.
std::uint32_t crc32c_sse42(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace tally
