#include "kernels/kernels.h"

#include <array>

namespace tally::kernels {
namespace {

struct Usable {
  std::array<const Kernels*, 3> tables{&kScalarKernels};  // slowest first
  std::size_t count = 1;

  Usable() noexcept {
    // The builtin also asks the operating system whether it saves the wide registers.
    const bool avx2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq");
    if (avx2) tables[count++] = &kAvx2Kernels;
    if (avx512) tables[count++] = &kAvx512Kernels;
  }
};

}  // namespace

std::span<const Kernels* const> usable_kernels() noexcept {
  static const Usable usable;
  return std::span(usable.tables).first(usable.count);
}

const Kernels& best_kernels() noexcept { return *usable_kernels().back(); }

}  // namespace tally::kernels
