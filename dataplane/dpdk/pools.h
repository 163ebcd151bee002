#pragma once
// The mempools of a box: frames for the ports of each driver on each NUMA node, heads for the data cores of
// each node; how many mbufs each needs, why, and whether they fit into the memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/port_device.h"
#include "tally/error.h"

struct rte_mempool;

namespace tally::dpdk {

inline constexpr std::uint32_t kPoolCache = 512;  // per lcore; RTE_MEMPOOL_CACHE_MAX_SIZE
inline constexpr std::uint16_t kHeadRoom = 128;   // RTE_PKTMBUF_HEADROOM
inline constexpr std::uint16_t kHandOverFrames =
    1024;  // size of each ring between threads, if nobody says another
inline constexpr std::uint32_t kServerQueueFrames = 512;  // that wait for servers, per core and port
inline constexpr int kAnyNode = -1;                       // SOCKET_ID_ANY

// What a port takes from mempools, in all its queues.
struct PortNeeds {
  device::DeviceKind kind = device::DeviceKind::kOther;
  std::uint32_t frame_bytes = 0;     // the largest frame, without FCS: MTU + 18
  std::uint32_t receive_mbufs = 0;   // that the driver keeps for what will arrive; 0: it copies
  std::uint32_t transmit_mbufs = 0;  // that it keeps of what was sent; 0: it copies
  std::uint32_t least_room = 0;      // behind the headroom
  int node = kAnyNode;               // of the device
  std::uint32_t impaired_in = 0;     // that `impair` keeps at most (most_kept()), all cores
  std::uint32_t impaired_out = 0;

  // Its mempool is shared with the kernel: check_umem() must hold.
  [[nodiscard]] bool umem() const noexcept { return kind == device::DeviceKind::kAfXdp; }
};

struct PoolDemand {
  std::vector<PortNeeds> ports{};
  std::vector<int> cores{kAnyNode};  // NUMA node of each data core, at least one
  bool servers = false;              // jobs may have external servers, behind whichever ports
  std::uint16_t hand_over = kHandOverFrames;
};

// A mempool to be made.
struct PoolPlan {
  std::string name{};
  std::uint32_t mbufs = 0;
  std::uint16_t room = 0;  // behind the headroom
  int node = kAnyNode;
  bool umem = false;                 // as check_umem() wants it
  std::uint32_t threads = 2;         // that have a cache of it, if it is large enough for theirs
  std::vector<std::size_t> users{};  // frames: the ports that receive into it; heads: the cores
  std::string why{};                 // the sum in words: "2,048 rx descriptors + ... = 4,128 of 1,600 bytes"
};
// With mempool overhead; ordinary pages waste more than hugepages.
[[nodiscard]] std::uint64_t bytes_of(const PoolPlan& plan, bool hugepages);
// "net_memif_n0: 1,024 rx descriptors + ... = 4,128 of 1,600 bytes, 8 MiB". EAL runs.
[[nodiscard]] std::string explain(const PoolPlan& plan);

// Received frames, copies, control packets, REJECTs; and headers in front of a shared payload (66 bytes).
struct PoolPlans {
  std::vector<PoolPlan> frames{};
  std::vector<PoolPlan> heads{};
};
// Pure. A port's frames are on the node of its device, or of the core that reads its first queue if the
// device has none; heads on the node of the core that takes them.
[[nodiscard]] PoolPlans plan_pools(const PoolDemand& demand);

struct FreeMempool {
  void operator()(rte_mempool* pool) const noexcept;
};
using Mempool = std::unique_ptr<rte_mempool, FreeMempool>;

// Where mbufs are taken from, by any lcore or registered thread.
struct Pools {
  std::vector<Mempool> all{};  // outlive all ports: each may hold mbufs of any
  std::vector<rte_mempool*>
      frames{};  // by port, which receives into it; frames that are made for a port are of its pool
  std::vector<rte_mempool*> heads{};  // by core
};
// Fails naming the pool, the bytes it needs and dataplane.memory.
[[nodiscard]] Result<Mempool> make_pool(const PoolPlan& plan);
// prefix: of the names.
[[nodiscard]] Result<Pools> make_pools(const PoolPlans& plans, const std::string& prefix);

// Bytes behind the usual headroom of an mbuf of this pool.
[[nodiscard]] std::uint32_t room_of(const rte_mempool* pool) noexcept;

// Whether af_xdp can share `pool` with the kernel: mbufs of 2,048 to 4,096 bytes in all, one behind the other
// in one piece of memory, since the driver computes their places from its beginning. Says what is wrong.
[[nodiscard]] Result<void> check_umem(const rte_mempool* pool);

}  // namespace tally::dpdk
