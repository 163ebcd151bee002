#include "version_text.h"

#include "kernels.h"

namespace tally {

std::string version_text() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  std::string others;
  for (const Kernels* kernels : usable_kernels())
    others += (others.empty() ? "" : ", ") + std::string(kernels->name);
  return "tallyd " TALLY_VERSION "\nDPDK " TALLY_DPDK_VERSION "\ncompiler " + compiler + "\nkernels " +
         std::string(best_kernels().name) + " (this CPU can run " + others + ")\n";
}

}  // namespace tally
