#pragma once
// EAL as the daemon starts it, and what the tests ask of mempools.

#include <string>

#include <rte_mempool.h>

namespace tally::e2e {

inline constexpr std::size_t kDataCores = 3;  // lcores that can be started

// Starts EAL in this process, once: without hugepages, main lcore and data cores floating. Empty, or why it
// did not start.
[[nodiscard]] const std::string& start_eal();

// Empty when every mbuf is in its mempool exactly once, otherwise what is wrong. rte_mempool_in_use_count()
// alone cannot tell: a buffer freed twice hides one that was lost. Nobody else may use the pool meanwhile.
[[nodiscard]] std::string audit(rte_mempool* pool);

}  // namespace tally::e2e
