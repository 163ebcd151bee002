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

constexpr std::uint32_t kBurst = 32;      // also what memif's driver takes in one piece
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

// Without a cache each mbuf costs two atomic steps on the ring of the pool, and the one that comes next is
// the one that was freed longest ago; but a pool that is too small would lie in the caches of threads that do
// not need it.
constexpr std::uint32_t cache_of(const PoolPlan& plan) noexcept {
  return plan.mbufs >= plan.threads * kMostCached ? kPoolCache : 0;
}

// As rte_pktmbuf_pool_create(), but the mbufs lie close together: none is kept from lying across two pages,
// and none is spread over memory channels. Addresses are virtual to devices as well, so that both is allowed.
rte_mempool* packed_pool(const PoolPlan& plan, std::uint16_t data_room) {
  constexpr unsigned kFlags = RTE_MEMPOOL_F_NO_IOVA_CONTIG | RTE_MEMPOOL_F_NO_SPREAD;
  Mempool pool(rte_mempool_create_empty(plan.name.c_str(), plan.mbufs,
                                        static_cast<unsigned>(sizeof(rte_mbuf)) + data_room, cache_of(plan),
                                        sizeof(rte_pktmbuf_pool_private), plan.node, kFlags));
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

// The pool of this name on this node, which is new with its first user.
void add_user(std::vector<PoolPlan>& plans, std::string name, int node, std::size_t user) {
  if (node != kAnyNode) name += "_n" + std::to_string(node);
  auto at = std::ranges::find(plans, name, &PoolPlan::name);
  if (at == plans.end()) at = plans.insert(at, {.name = std::move(name), .node = node});
  at->users.push_back(user);
}

// How many mbufs of one pool may be away at the same time: descriptors of both directions, bursts and caches,
// as DPDK's examples count (NB_MBUF in l3fwd), and what waits in the loop. A frame may leave by any port, so
// each pool pays for all places where frames of any may be; but af_xdp copies what is not of its own pool.
void count(PoolPlan& plan, const PoolDemand& demand, bool frames) {
  const std::uint64_t cores = demand.cores.size();
  const std::uint64_t ways_out = demand.ports.size() * cores;
  plan.threads = static_cast<std::uint32_t>(cores + 1);
  std::uint64_t receive = 0;
  std::uint64_t transmit = 0;
  std::uint64_t impaired = 0;
  for (std::size_t p = 0; p < demand.ports.size(); ++p) {
    const PortNeeds& port = demand.ports[p];
    const bool ours = frames && std::ranges::find(plan.users, p) != plan.users.end();
    receive += ours ? port.receive_mbufs : 0;
    transmit += ours || !port.umem() ? port.transmit_mbufs : 0;
    impaired += port.impaired_out + (ours ? port.impaired_in : 0);
  }
  Sum sum;
  sum.add(receive, "rx descriptors");
  sum.add(transmit, "tx descriptors");
  sum.add(frames ? cores * kBurst : 0, "in bursts");
  sum.add(ways_out * kPending, "gathered for sending");
  sum.add(frames && demand.servers ? ways_out * kServerQueueFrames : 0, "queued for servers");
  sum.add(impaired, "kept by impair");
  sum.add(cores > 1 ? 2 * cores * demand.hand_over : 0, "in rings between data cores");
  sum.add(frames ? 3 * cores * demand.hand_over : 0, "in rings from and to control");
  sum.add(std::uint64_t{plan.threads} * kMostCached, "in caches");
  plan.mbufs = static_cast<std::uint32_t>(sum.total);
  plan.why = sum.words + " = " + text(sum.total) + " of " + text(plan.room) + " bytes";
}

// Many NICs fill buffers in whole KiB only. Whatever came from a port may be answered with the longest frame
// of the box; where the kernel's pages do not allow that (af_xdp), such an answer is dropped by name
// (Drop::kRoom).
std::uint16_t room_for(const PoolPlan& plan, const PoolDemand& demand) {
  const device::DeviceKind kind = demand.ports[plan.users.front()].kind;
  std::uint64_t longest = device::kReplySlack + (plan.umem ? device::kXdpHeadroom : 0);
  longest += std::ranges::max(demand.ports, {}, &PortNeeds::frame_bytes).frame_bytes;
  std::uint64_t room = rounded(longest, kind == device::DeviceKind::kPci ? 1024 : kLine);
  for (const std::size_t p : plan.users) room = std::max(room, rounded(demand.ports[p].least_room, kLine));
  return static_cast<std::uint16_t>(
      std::min<std::uint64_t>(room, plan.umem ? device::kMostUmemRoom : UINT16_MAX - kHeadRoom));
}

std::uint32_t object_bytes(const rte_mempool* pool) noexcept {
  return pool->header_size + pool->elt_size + pool->trailer_size;
}

}  // namespace

// What DPDK's mempool takes: objects with a header of one line and a trailer of at most one, none across the
// end of a page, and a ring of pointers, a power of two.
std::uint64_t bytes_of(const PoolPlan& plan, bool hugepages) {
  const std::uint64_t object = rounded(kLine + sizeof(rte_mbuf) + kHeadRoom + plan.room, kLine) + kLine;
  const std::uint64_t page = hugepages || plan.umem ? 2 << 20 : 4 << 10;
  const std::uint64_t in_page = page / object;  // 0: larger than a page
  const std::uint64_t objects =
      in_page == 0 ? plan.mbufs * object : plan.mbufs / in_page * page + plan.mbufs % in_page * object;
  return objects + std::bit_ceil(std::uint64_t{plan.mbufs} + 1) * sizeof(void*);
}

std::string explain(const PoolPlan& plan) {
  return plan.name + ": " + plan.why + ", " + mebibytes(bytes_of(plan, rte_eal_has_hugepages() != 0));
}

PoolPlans plan_pools(const PoolDemand& demand) {
  PoolPlans plans;
  for (std::size_t p = 0; p < demand.ports.size(); ++p) {
    const PortNeeds& port = demand.ports[p];
    const int node = port.node != kAnyNode ? port.node : demand.cores.front();  // which reads every queue 0
    add_user(plans.frames, device::driver_of(port.kind), node, p);
  }
  for (std::size_t c = 0; c < demand.cores.size(); ++c) add_user(plans.heads, "heads", demand.cores[c], c);
  for (PoolPlan& plan : plans.frames) {
    plan.umem = demand.ports[plan.users.front()].umem();
    plan.room = room_for(plan, demand);
    count(plan, demand, true);
  }
  for (PoolPlan& plan : plans.heads) {
    plan.room = static_cast<std::uint16_t>(rounded(kHeadBytes, kLine));
    count(plan, demand, false);
  }
  return plans;
}

Result<Mempool> make_pool(const PoolPlan& plan) {
  const auto data_room = static_cast<std::uint16_t>(kHeadRoom + plan.room);
  Mempool pool(plan.umem ? packed_pool(plan, data_room)
                         : rte_pktmbuf_pool_create(plan.name.c_str(), plan.mbufs, cache_of(plan), 0,
                                                   data_room, plan.node));
  if (pool != nullptr) return pool;
  const int code = rte_errno;
  std::string what = "the memory does not hold the mempool '" + plan.name + "' of " + text(plan.mbufs) +
                     " mbufs of " + text(plan.room) + " bytes, " +
                     mebibytes(bytes_of(plan, rte_eal_has_hugepages() != 0));
  if (plan.node != kAnyNode) what += " on NUMA node " + std::to_string(plan.node);
  what += std::string(" (") + rte_strerror(code) + "): raise dataplane.memory";
  if (plan.node != kAnyNode) what += ", or reserve hugepages on that node";
  Error error{.code = ErrorCode::kSystem, .what = std::move(what), .sys_errno = code};
  return tl::unexpected<Error>(std::move(error));
}

void FreeMempool::operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }

Result<Pools> make_pools(const PoolPlans& plans, const std::string& prefix) {
  constexpr std::size_t kLongestName = RTE_MEMPOOL_NAMESIZE - 1;
  Pools pools;
  for (const bool frames : {true, false}) {
    std::vector<rte_mempool*>& of_user = frames ? pools.frames : pools.heads;
    for (PoolPlan plan : frames ? plans.frames : plans.heads) {
      plan.name = prefix.substr(0, kLongestName - 1 - plan.name.size()) + '_' + plan.name;
      auto pool = make_pool(plan);
      if (!pool) return tl::unexpected<Error>(std::move(pool.error()));
      of_user.resize(std::max(of_user.size(), plan.users.back() + 1));
      for (const std::size_t user : plan.users) of_user[user] = pool->get();
      pools.all.push_back(std::move(*pool));
    }
  }
  return pools;
}

std::uint32_t room_of(const rte_mempool* pool) noexcept {
  return rte_pktmbuf_data_room_size(const_cast<rte_mempool*>(pool)) - std::uint32_t{RTE_PKTMBUF_HEADROOM};
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
