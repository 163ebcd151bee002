// A driver of DPDK's mempools, 'tally_scarce', that runs dry on demand: a ring as usual, until SIGUSR2 comes;
// from then on it hands out buffers for one in kShare requests; at the next SIGUSR2 it is a ring again.
// Loaded into an unmodified tallyd by EAL's own options (-d FILE --mbuf-pool-ops-name=tally_scarce).

#include <csignal>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_ring.h>

namespace {

constexpr unsigned kShare = 4;

std::atomic<bool> scarce = false;
std::atomic<unsigned> requests = 0;

void toggle(int /*signal*/) { scarce = !scarce; }

rte_ring* ring_of(const rte_mempool* pool) { return static_cast<rte_ring*>(pool->pool_data); }

// A core would live on what it has in its cache and never ask us.
void disable_caches(rte_mempool* pool) {
  if (pool->cache_size == 0) return;
  for (unsigned i = 0; i < RTE_MAX_LCORE; ++i)
    pool->local_cache[i].size = pool->local_cache[i].flushthresh = 0;
}

int allocate(rte_mempool* pool) {
  const std::string name = ("scarce_" + std::string(pool->name)).substr(0, RTE_RING_NAMESIZE - 1);
  rte_ring* const ring = rte_ring_create(name.c_str(), rte_align32pow2(pool->size + 1), pool->socket_id, 0);
  if (ring == nullptr) return -rte_errno;
  pool->pool_data = ring;
  disable_caches(pool);
  std::signal(SIGUSR2, toggle);
  return 0;
}

void release(rte_mempool* pool) { rte_ring_free(ring_of(pool)); }

int enqueue(rte_mempool* pool, void* const* objects, unsigned n) {
  return rte_ring_mp_enqueue_bulk(ring_of(pool), objects, n, nullptr) == 0 ? -ENOBUFS : 0;
}

int dequeue(rte_mempool* pool, void** objects, unsigned n) {
  if (scarce && requests++ % kShare != 0) return -ENOBUFS;
  return rte_ring_mc_dequeue_bulk(ring_of(pool), objects, n, nullptr) == 0 ? -ENOBUFS : 0;
}

unsigned count(const rte_mempool* pool) { return rte_ring_count(ring_of(pool)); }

__attribute__((constructor)) void register_driver() {
  rte_mempool_ops ops{};
  std::snprintf(ops.name, sizeof ops.name, "tally_scarce");
  ops.alloc = allocate;
  ops.free = release;
  ops.enqueue = enqueue;
  ops.dequeue = dequeue;
  ops.get_count = count;
  rte_mempool_register_ops(&ops);
}

}  // namespace
