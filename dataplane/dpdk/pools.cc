#include "dpdk/pools.h"

#include <algorithm>
#include <bit>

#include "device/kernel_device.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>

namespace tally::dpdk {
namespace {

static_assert(kPoolCache == RTE_MEMPOOL_CACHE_MAX_SIZE && kHeadRoom == RTE_PKTMBUF_HEADROOM);

constexpr std::uint32_t kBurst = 32;
constexpr std::uint32_t kPending = 64;    // frames that a core gathers for a port before it sends them
constexpr std::uint32_t kLine = 64;       // of cache
constexpr std::uint16_t kHeadBytes = 66;  // Ethernet, VLAN tag, IPv6, UDP
// A mempool keeps up to 1.5 times its cache per lcore before it gives objects back.
constexpr std::uint32_t kMostCached = kPoolCache + kPoolCache / 2;

constexpr std::uint64_t rounded(std::uint64_t bytes, std::uint64_t to) noexcept {
  return (bytes + to - 1) / to * to;
}

// 12,345
std::string text(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string mebibytes(std::uint64_t bytes) { return text(rounded(bytes, 1 << 20) >> 20) + " MiB"; }

// A sum that explains itself.
struct Sum {
  std::uint64_t total = 0;
  std::string words{};
  void add(std::uint64_t n, const char* what) {
    if (n == 0) return;
    total += n;
    if (!words.empty()) words += " + ";
    words += text(n) + ' ' + what;
  }
};

// What DPDK's mempool takes: objects with a header of one line and a trailer of at most one, none across the
// end of a page, and a ring of pointers, a power of two.
std::uint64_t pool_bytes(std::uint64_t mbufs, std::uint32_t room, bool hugepages) {
  const std::uint64_t object = rounded(kLine + sizeof(rte_mbuf) + kHeadRoom + room, kLine) + kLine;
  const std::uint64_t page = hugepages ? 2 << 20 : 4 << 10;
  const std::uint64_t in_page = page / object;  // 0: larger than a page
  const std::uint64_t objects =
      in_page == 0 ? mbufs * object : mbufs / in_page * page + mbufs % in_page * object;
  return objects + std::bit_ceil(mbufs + 1) * sizeof(void*);
}

constexpr std::uint16_t head_room_of_pool() noexcept {
  return static_cast<std::uint16_t>(rounded(kHeadBytes, kLine));
}

// size_pools() counts what the caches of one data core and of control keep at least; a smaller pool would lie
// in the caches of threads that do not need it. Without a cache each mbuf costs two atomic steps on the ring
// of the pool, and the one that comes next is the one that was freed longest ago.
constexpr std::uint32_t cache_of(std::uint32_t mbufs) noexcept {
  return mbufs >= 2 * kMostCached ? kPoolCache : 0;
}

// As rte_pktmbuf_pool_create(), but the mbufs lie close together: none is kept from lying across two pages,
// and none is spread over memory channels. Addresses are virtual to devices as well, so that both is allowed.
rte_mempool* packed_pool(const std::string& name, std::uint32_t mbufs, std::uint16_t data_room, int socket) {
  constexpr unsigned kFlags = RTE_MEMPOOL_F_NO_IOVA_CONTIG | RTE_MEMPOOL_F_NO_SPREAD;
  Mempool pool(rte_mempool_create_empty(name.c_str(), mbufs,
                                        static_cast<unsigned>(sizeof(rte_mbuf)) + data_room, cache_of(mbufs),
                                        sizeof(rte_pktmbuf_pool_private), socket, kFlags));
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private room{.mbuf_data_room_size = data_room, .mbuf_priv_size = 0, .flags = 0};
  int code = rte_mempool_set_ops_byname(pool.get(), rte_mbuf_best_mempool_ops(), nullptr);
  rte_pktmbuf_pool_init(pool.get(), &room);
  if (code == 0) code = std::min(rte_mempool_populate_default(pool.get()), 0);
  if (code != 0) {
    rte_errno = -code;
    return nullptr;
  }
  rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
  return pool.release();
}

std::uint32_t object_bytes(const rte_mempool* pool) noexcept {
  return pool->header_size + pool->elt_size + pool->trailer_size;
}

}  // namespace

PoolSizes size_pools(const PoolDemand& demand) {
  const std::uint64_t cores = demand.cores;
  const std::uint64_t pending = std::uint64_t{demand.ports} * cores * kPending;
  const std::uint64_t between = cores > 1 ? 2 * cores * kHandOverFrames : 0;
  const std::uint64_t cached = (cores + 1) * kMostCached;

  Sum frames;
  frames.add(demand.receive_descriptors, "rx descriptors");
  frames.add(demand.transmit_descriptors, "tx descriptors");
  frames.add(demand.umem_mbufs, "in af_xdp's rings");
  frames.add(cores * kBurst, "in bursts");
  frames.add(pending, "gathered for sending");
  frames.add(demand.servers ? demand.ports * cores * kServerQueueFrames : 0, "queued for servers");
  frames.add(std::uint64_t{demand.impaired_in} + demand.impaired_out, "kept by impair");
  frames.add(between, "in rings between data cores");
  frames.add(2 * cores * kHandOverFrames, "in rings from and to control");
  frames.add(cached, "in caches");
  Sum heads;
  heads.add(demand.transmit_descriptors, "tx descriptors");
  heads.add(pending, "gathered for sending");
  heads.add(demand.impaired_out, "kept by impair");
  heads.add(between, "in rings between data cores");
  heads.add(cached, "in caches");

  PoolSizes sizes{.umem = demand.umem_mbufs != 0};
  std::uint64_t room =
      std::max<std::uint64_t>(rounded(demand.frame_bytes + device::kReplySlack, demand.nic ? 1024 : kLine),
                              rounded(demand.least_room, kLine));
  // Whatever came from there may be answered with the longest frame of all ports.
  if (sizes.umem)
    room = std::min<std::uint64_t>(
        std::max(room, rounded(demand.frame_bytes + device::kReplySlack + device::kXdpHeadroom, kLine)),
        device::kMostUmemRoom);
  sizes.frame_room = static_cast<std::uint16_t>(std::min<std::uint64_t>(room, UINT16_MAX - kHeadRoom));
  sizes.frames = static_cast<std::uint32_t>(frames.total);
  sizes.heads = static_cast<std::uint32_t>(heads.total);
  const std::uint64_t frame_bytes =
      pool_bytes(sizes.frames, sizes.frame_room, sizes.umem || demand.hugepages);
  const std::uint64_t head_bytes = pool_bytes(sizes.heads, head_room_of_pool(), demand.hugepages);
  sizes.bytes = frame_bytes + head_bytes;
  sizes.explanation = "frames: " + frames.words + " = " + text(frames.total) + " of " +
                      text(sizes.frame_room) + " bytes, " + mebibytes(frame_bytes) +
                      "; heads: " + heads.words + " = " + text(heads.total) + ", " + mebibytes(head_bytes);
  return sizes;
}

Result<Mempool> make_pool(const std::string& name, std::uint32_t mbufs, std::uint16_t room, int socket,
                          bool umem) {
  const auto data_room = static_cast<std::uint16_t>(kHeadRoom + room);
  Mempool pool(umem ? packed_pool(name, mbufs, data_room, socket)
                    : rte_pktmbuf_pool_create(name.c_str(), mbufs, cache_of(mbufs), 0, data_room, socket));
  if (pool != nullptr) return pool;
  const int code = rte_errno;
  std::string what = "the memory does not hold the mempool '" + name + "' of " + text(mbufs) + " mbufs of " +
                     text(room) + " bytes, " +
                     mebibytes(pool_bytes(mbufs, room, umem || rte_eal_has_hugepages() != 0));
  if (socket >= 0) what += " on NUMA node " + std::to_string(socket);
  what += std::string(" (") + rte_strerror(code) + "): raise dataplane.memory";
  Error error{.code = ErrorCode::kSystem, .what = std::move(what), .sys_errno = code};
  return tl::unexpected<Error>(std::move(error));
}

void FreeMempool::operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }

Result<Pools> make_pools(const PoolSizes& sizes, const std::string& prefix, int socket) {
  // DPDK's limit of a mempool's name, less the longest ending.
  const std::string start = prefix.substr(0, RTE_MEMPOOL_NAMESIZE - 1 - sizeof "_frames");
  auto frames = make_pool(start + "_frames", sizes.frames, sizes.frame_room, socket, sizes.umem);
  if (!frames) return tl::unexpected<Error>(std::move(frames.error()));
  auto heads = make_pool(start + "_heads", sizes.heads, head_room_of_pool(), socket, false);
  if (!heads) return tl::unexpected<Error>(std::move(heads.error()));
  return Pools{.frames = std::move(*frames), .heads = std::move(*heads)};
}

Result<void> check_umem(const rte_mempool* pool) {
  const std::uint32_t object = object_bytes(pool);
  const std::uint32_t least = 2048;
  const std::uint32_t most = 4096;
  if (object < least || object > most)
    return fail(ErrorCode::kInvalidArgument,
                "an mbuf takes " + text(object) + " bytes, and af_xdp shares those of " + text(least) +
                    " to " + text(most) + " with the kernel: lower mtu, or framesz of af_packet");
  const rte_mempool_memhdr* const piece = STAILQ_FIRST(&pool->mem_list);
  struct Extent {
    const char* first;
    const char* behind;
    std::uint64_t bytes;
  } extent{static_cast<const char*>(piece->addr), nullptr, std::uint64_t{object} * pool->populated_size};
  rte_mempool_obj_iter(
      const_cast<rte_mempool*>(pool),
      [](rte_mempool* mempool, void* seen, void* mbuf, unsigned) {
        const char* const behind = static_cast<const char*>(mbuf) + mempool->elt_size;
        auto* const e = static_cast<Extent*>(seen);
        e->behind = std::max(e->behind, behind);
      },
      &extent);
  if (pool->nb_mem_chunks == 1 && extent.behind <= extent.first + extent.bytes) return {};
  return fail(ErrorCode::kSystem,
              "the mempool lies in " + text(pool->nb_mem_chunks) +
                  " pieces of memory or has gaps, and af_xdp takes one without: raise dataplane.memory");
}

}  // namespace tally::dpdk
