#include "pool_audit.h"

#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "dpdk/mbuf.h"

#include <rte_mempool.h>

namespace tally {

Result<dpdk::Pools> make_plain_pools(const PlainPools& pools, const std::string& prefix) {
  constexpr std::uint16_t kHeadBytes = 128;
  std::vector<std::size_t> cores(pools.cores);
  std::iota(cores.begin(), cores.end(), 0);
  return dpdk::make_pools(
      {.frames = {{.name = "frames", .mbufs = pools.frames, .room = pools.frame_room, .users = {0}}},
       .heads = {{.name = "heads", .mbufs = pools.heads, .room = kHeadBytes, .users = std::move(cores)}}},
      prefix);
}

std::string audit(rte_mempool* pool) {
  const std::string name = std::string("pool ") + pool->name + ": ";
  if (const unsigned n = rte_mempool_in_use_count(pool); n != 0)
    return name + std::to_string(n) + " mbufs did not come back";
  std::vector<rte_mbuf*> all;
  dpdk::MbufCounters ignored;
  while (rte_mbuf* m = dpdk::allocate(pool, ignored)) all.push_back(m);
  const std::set<rte_mbuf*> distinct(all.begin(), all.end());
  for (rte_mbuf* m : distinct) dpdk::drop(m);
  if (distinct.size() == all.size() && (pool->cache_size != 0 || all.size() == pool->size)) return {};
  return name + std::to_string(all.size()) + " mbufs, " + std::to_string(distinct.size()) +
         " of them distinct, in a pool of " + std::to_string(pool->size);
}

}  // namespace tally
