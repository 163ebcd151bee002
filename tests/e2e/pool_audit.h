#pragma once
// Mempools for tests, and whether every mbuf came back exactly once.

#include <cstdint>
#include <string>

#include "dpdk/pools.h"

namespace tally {

// One mempool of frames for all ports and one of heads for all cores.
struct PlainPools {
  std::uint32_t frames = 0;
  std::uint32_t heads = 0;
  std::uint16_t frame_room = 0;
  std::size_t cores = 1;
};
[[nodiscard]] Result<dpdk::Pools> make_plain_pools(const PlainPools& pools, const std::string& prefix);

// Empty, or what is wrong: mbufs in use, one that is in the pool twice, or one that is gone.
// rte_mempool_in_use_count() alone cannot tell: a buffer freed twice hides one that was lost. Nobody else
// uses the pool meanwhile. (What the caches of other lcores hold is out of reach, so with caches none is
// missed.)
[[nodiscard]] std::string audit(rte_mempool* pool);

}  // namespace tally
