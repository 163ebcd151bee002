#pragma once
// The mempools of a box: how many mbufs each needs, why, and whether they fit into the memory.

#include <cstdint>
#include <memory>
#include <string>

#include "tally/error.h"

struct rte_mempool;

namespace tally::dpdk {

inline constexpr std::uint32_t kPoolCache = 512;          // per lcore; RTE_MEMPOOL_CACHE_MAX_SIZE
inline constexpr std::uint16_t kHeadRoom = 128;           // RTE_PKTMBUF_HEADROOM
inline constexpr std::uint16_t kHandOverFrames = 1024;    // size of each ring between threads
inline constexpr std::uint32_t kServerQueueFrames = 512;  // that wait for servers, per core and port

struct PoolDemand {
  std::uint32_t ports = 0;
  std::uint32_t cores = 1;
  std::uint32_t receive_descriptors = 0;   // sum over all queues of all ports
  std::uint32_t transmit_descriptors = 0;  // the same
  bool servers = false;                    // jobs may have external servers, behind whichever ports
  std::uint32_t impaired_in = 0;           // that `impair` of ports keeps at most (most_kept()), all cores
  std::uint32_t impaired_out = 0;
  std::uint16_t frame_bytes = 0;  // the largest frame, without FCS: MTU + 18
  bool hugepages = true;          // ordinary pages waste more
  bool nic = false;               // some port is a NIC: many of them fill buffers in whole KiB only
  std::uint32_t least_room = 0;   // behind the headroom, for the port that wants most
  std::uint32_t umem_mbufs = 0;   // that the kernel holds for af_xdp's ports: see check_umem()
};

// Numbers, and the sum that explains each in words ("2,048 rx descriptors + ...").
struct PoolSizes {
  std::uint32_t frames = 0;      // data room for whole frames
  std::uint32_t heads = 0;       // headers in front of a shared payload
  std::uint16_t frame_room = 0;  // behind the headroom
  std::uint64_t bytes = 0;       // of both, with mempool overhead
  bool umem = false;             // frames as check_umem() wants them
  std::string explanation{};
};
[[nodiscard]] PoolSizes size_pools(const PoolDemand& demand);

struct FreeMempool {
  void operator()(rte_mempool* pool) const noexcept;
};
using Mempool = std::unique_ptr<rte_mempool, FreeMempool>;

// Where a thread takes mbufs from. Any lcore or registered thread may.
struct Pools {
  Mempool frames;  // received frames, copies, control packets, REJECTs
  Mempool heads;   // 66 bytes and headroom
};
// mbufs of `room` bytes behind the headroom, with a cache for each lcore where it pays. umem: as check_umem()
// wants.
[[nodiscard]] Result<Mempool> make_pool(const std::string& name, std::uint32_t mbufs, std::uint16_t room,
                                        int socket, bool umem);
// socket: NUMA node, or -1. Fails naming the pool, the bytes it needs and dataplane.memory.
[[nodiscard]] Result<Pools> make_pools(const PoolSizes& sizes, const std::string& prefix, int socket);

// Whether af_xdp can share `pool` with the kernel: mbufs of 2,048 to 4,096 bytes in all, one behind the other
// in one piece of memory, since the driver computes their places from its beginning. Says what is wrong.
[[nodiscard]] Result<void> check_umem(const rte_mempool* pool);

}  // namespace tally::dpdk
