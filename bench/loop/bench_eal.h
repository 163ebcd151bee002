#pragma once
// EAL as the benchmarks of one thread start it.

#include <unistd.h>

#include <cstdint>
#include <string>

#include "dpdk/eal.h"
#include "started.h"

namespace tally::bench {

// On pages of 4 KiB an mbuf takes a page, so that it takes twice the memory.
inline dpdk::Eal start_bench_eal(const char* program) {
  constexpr std::uint64_t kHugeMemory = std::uint64_t{240} << 20;
  const bool huge = dpdk::free_hugepage_bytes() >= kHugeMemory;
  const dpdk::EalOptions options{.program = program,
                                 .instance = "bench-" + std::to_string(getpid()),
                                 .memory_bytes = huge ? kHugeMemory : 2 * kHugeMemory};
  return started(dpdk::Eal::start(options, print_warnings));
}

inline const char* hugepages_text(const dpdk::Eal& eal) {
  return eal.hugepages() ? "hugepages" : "NO HUGEPAGES: every frame costs a walk of the page table";
}

}  // namespace tally::bench
