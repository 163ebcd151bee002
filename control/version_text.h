#pragma once
#include <string>

namespace tally {

// What `tallyd --version` prints: tallyd, DPDK, compiler, the kernels of this CPU.
[[nodiscard]] std::string version_text();

}  // namespace tally
