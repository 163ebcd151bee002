#pragma once
// Whether every mbuf came back exactly once.

#include <string>

struct rte_mempool;

namespace tally {

// Empty, or what is wrong: mbufs in use, one that is in the pool twice, or one that is gone.
// rte_mempool_in_use_count() alone cannot tell: a buffer freed twice hides one that was lost. Nobody else
// uses the pool meanwhile. (What the caches of other lcores hold is out of reach, so with caches none is
// missed.)
[[nodiscard]] std::string audit(rte_mempool* pool);

}  // namespace tally
