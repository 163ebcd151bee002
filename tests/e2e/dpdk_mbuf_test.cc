// How mbufs change hands: shapes that share a buffer, refusals, empty pools, and that each comes back once.

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "dpdk_testbed.h"

#include <rte_ring.h>

namespace tally::e2e {
namespace {

constexpr std::size_t kHeadBytes = 42;

struct FreeRing {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using Ring = std::unique_ptr<rte_ring, FreeRing>;

Ring make_ring(const char* name, unsigned size) {
  return Ring(rte_ring_create(name, size, SOCKET_ID_ANY, 0));
}

class DpdkMbuf : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(audit(pools_.frames[0]), "");
    EXPECT_EQ(audit(pools_.heads[0]), "");
  }
  rte_mbuf* chain(rte_mbuf* body) {
    rte_mbuf* m = dpdk::refer(body, kHeadBytes, pools_.heads[0], counters_);
    if (m != nullptr) std::memset(dpdk::data_of(m), 0x55, kHeadBytes);
    return m;
  }

  dpdk::Pools pools_ = small_pools(63, 31);
  dpdk::MbufCounters counters_;
};

TEST_F(DpdkMbuf, AllocatedIsEmptyAndWritable) {
  rte_mbuf* m = dpdk::allocate(pools_.frames[0], counters_);
  ASSERT_NE(m, nullptr);
  EXPECT_TRUE(dpdk::writable(m));
  EXPECT_EQ(m->data_len, 0);
  EXPECT_EQ(m->pkt_len, 0U);
  EXPECT_EQ(m->nb_segs, 1);
  EXPECT_EQ(m->ol_flags, 0U);
  EXPECT_EQ(m->data_off, dpdk::kHeadRoom);
  dpdk::drop(m);
}

TEST_F(DpdkMbuf, AnEmptyPoolIsCountedForEachFrameThatItDenies) {
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* m = dpdk::allocate(pools_.heads[0], counters_)) all.push_back(m);
  EXPECT_EQ(all.size(), 31U);
  EXPECT_EQ(counters_.no_mbuf, 1U);
  rte_mbuf* body = tagged(pools_.frames[0], 100, 1, counters_);
  EXPECT_EQ(chain(body), nullptr);
  EXPECT_EQ(counters_.no_mbuf, 2U);
  EXPECT_TRUE(dpdk::writable(body)) << "a chain that was not made holds no reference";
  for (rte_mbuf* m : all) dpdk::drop(m);
  dpdk::drop(body);
}

TEST_F(DpdkMbuf, AChainIsTheHeadAndTheVeryBody) {
  rte_mbuf* body = tagged(pools_.frames[0], 1000, 7, counters_);
  rte_mbuf* m = chain(body);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->next, body);
  EXPECT_EQ(m->nb_segs, 2);
  EXPECT_EQ(m->pkt_len, kHeadBytes + 1000);
  EXPECT_FALSE(dpdk::writable(body));
  EXPECT_TRUE(has_tag(m, kHeadBytes, 7));
  dpdk::drop(m);
  EXPECT_TRUE(dpdk::writable(body));
  dpdk::drop(body);
}

TEST_F(DpdkMbuf, TheBodyMayBeDroppedBeforeTheChains) {
  rte_mbuf* body = tagged(pools_.frames[0], 1000, 7, counters_);
  rte_mbuf* first = chain(body);
  rte_mbuf* second = chain(body);
  dpdk::drop(body);
  dpdk::drop(first);
  EXPECT_TRUE(has_tag(second, kHeadBytes, 7));
  EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 1U);
  dpdk::drop(second);
}

TEST_F(DpdkMbuf, TheBodyMayBeDroppedBetweenOrAfterTheChains) {
  for (int when = 0; when < 2; ++when) {
    rte_mbuf* body = tagged(pools_.frames[0], 1000, 9, counters_);
    rte_mbuf* first = chain(body);
    rte_mbuf* second = chain(body);
    dpdk::drop(second);
    if (when == 0) dpdk::drop(body);
    dpdk::drop(first);
    if (when == 1) dpdk::drop(body);
    EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 0U);
  }
}

TEST_F(DpdkMbuf, ManyAreAllocatedAllOrNone) {
  std::array<rte_mbuf*, 32> room{};
  EXPECT_FALSE(dpdk::allocate_all(pools_.heads[0], room)) << "the pool has 31";
  EXPECT_EQ(counters_.no_mbuf, 0U) << "whoever asks may ask for fewer";
  EXPECT_EQ(rte_mempool_in_use_count(pools_.heads[0]), 0U);
  const auto all = std::span{room}.first(31);
  ASSERT_TRUE(dpdk::allocate_all(pools_.heads[0], all));
  for (const rte_mbuf* m : all) {
    EXPECT_TRUE(dpdk::writable(m));
    EXPECT_EQ(m->data_len, 0);
    EXPECT_EQ(m->pkt_len, 0U);
    EXPECT_EQ(m->nb_segs, 1);
    EXPECT_EQ(m->data_off, dpdk::kHeadRoom);
  }
  dpdk::drop_all(all);
}

TEST_F(DpdkMbuf, ChainsMadeTogetherTakeTheBodyAlong) {
  for (const std::size_t many : {1U, 2U, 8U}) {
    rte_mbuf* body = tagged(pools_.frames[0], 1000, 7, counters_);
    std::array<rte_mbuf*, 8> room{};
    const auto heads = std::span{room}.first(many);
    ASSERT_TRUE(dpdk::allocate_all(pools_.heads[0], heads));
    dpdk::refer_all(body, heads);
    EXPECT_EQ(rte_mbuf_refcnt_read(body), many) << "none is left to the caller";
    for (rte_mbuf* m : heads) {
      dpdk::lead(m, kHeadBytes, 1000);
      EXPECT_EQ(m->next, body);
      EXPECT_EQ(m->nb_segs, 2);
      EXPECT_EQ(m->data_len, kHeadBytes);
      EXPECT_EQ(m->pkt_len, kHeadBytes + 1000);
      EXPECT_TRUE(has_tag(m, kHeadBytes, 7));
    }
    for (std::size_t i = many; i-- > 0;) {
      EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 1U);
      dpdk::drop(heads[i]);
    }
    EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 0U);
  }
}

TEST_F(DpdkMbuf, ABurstIsDroppedWhateverItsFramesAre) {
  rte_mbuf* body = tagged(pools_.frames[0], 1000, 7, counters_);
  rte_mbuf* shared = tagged(pools_.frames[0], 200, 8, counters_);
  dpdk::share(shared, 1);
  std::array<rte_mbuf*, 7> burst{tagged(pools_.frames[0], 100, 1, counters_), chain(body),
                                 dpdk::allocate(pools_.heads[0], counters_),  shared,
                                 tagged(pools_.frames[0], 100, 2, counters_), chain(body),
                                 tagged(pools_.frames[0], 100, 3, counters_)};
  dpdk::drop_all(burst);
  dpdk::drop_all({});
  EXPECT_EQ(rte_mempool_in_use_count(pools_.heads[0]), 0U);
  EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 2U);
  EXPECT_TRUE(dpdk::writable(body));
  EXPECT_TRUE(has_tag(shared, 0, 8));
  dpdk::drop(shared);
  dpdk::drop(body);
}

// The last reference goes on whichever thread comes last.
TEST_F(DpdkMbuf, ChainsOfOneBodyMayBeDroppedByOtherThreads) {
  constexpr int kRounds = 300;
  const Ring ring = make_ring("chains", 32);
  std::thread reader([&] {
    std::array<rte_mbuf*, 4> room{};
    for (int dropped = 0; dropped < 2 * kRounds;) {
      const auto burst = dpdk::receive(ring.get(), room);
      for (rte_mbuf* m : burst) {
        EXPECT_TRUE(has_tag(m, kHeadBytes, 3));
        dpdk::drop(m);
      }
      dropped += static_cast<int>(burst.size());
      if (burst.empty()) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    rte_mbuf* body = nullptr;
    while ((body = tagged(pools_.frames[0], 600, 3, counters_)) == nullptr) std::this_thread::yield();
    for (int copies = 0; copies < 2;) {
      rte_mbuf* m = chain(body);
      if (m != nullptr && dpdk::send(ring.get(), m)) {
        ++copies;
      } else {
        std::this_thread::yield();  // no head, or a full ring: then the chain was dropped
      }
    }
    dpdk::drop(body);
  }
  reader.join();
}

TEST_F(DpdkMbuf, ADuplicateLeavesTheBodyAlone) {
  rte_mbuf* body = tagged(pools_.frames[0], 1000, 5, counters_);
  rte_mbuf* m = dpdk::copied_whole(body, kHeadBytes, pools_.frames[0], counters_);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->nb_segs, 1);
  EXPECT_TRUE(has_tag(m, kHeadBytes, 5));
  EXPECT_TRUE(dpdk::writable(body));
  dpdk::drop(body);
  dpdk::drop(m);
}

TEST_F(DpdkMbuf, ReuseKeepsThePayloadAndForgetsTheFlags) {
  rte_mbuf* m = tagged(pools_.frames[0], 500, 1, counters_);
  m->ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  const std::byte* payload = dpdk::data_of(m) + 20;
  const auto head = dpdk::reuse(m, payload, 700, kHeadBytes);  // longer than it was: into the tail room
  EXPECT_EQ(head.size(), kHeadBytes);
  EXPECT_EQ(head.data(), dpdk::data_of(m));
  EXPECT_EQ(dpdk::data_of(m) + kHeadBytes, payload);
  EXPECT_EQ(m->pkt_len, 700 + kHeadBytes);
  EXPECT_EQ(m->data_len, 700 + kHeadBytes);
  EXPECT_EQ(m->ol_flags, 0U);
  dpdk::drop(m);
}

TEST_F(DpdkMbuf, ASharedFrameIsCopiedAndTheOriginalKeepsItsBytes) {
  rte_mbuf* m = tagged(pools_.frames[0], 300, 8, counters_);
  rte_mbuf_refcnt_update(m, 1);  // another holder, as a switch that floods one mbuf
  rte_mbuf* mine = dpdk::made_writable(m, pools_.frames[0], counters_);
  ASSERT_NE(mine, nullptr);
  EXPECT_NE(mine, m);
  EXPECT_EQ(counters_.copied, 1U);
  EXPECT_TRUE(has_tag(mine, 0, 8));
  std::memset(dpdk::data_of(mine), 0, 300);
  EXPECT_TRUE(has_tag(m, 0, 8));
  dpdk::drop(mine);
  EXPECT_EQ(dpdk::made_writable(m, pools_.frames[0], counters_), m);
  EXPECT_EQ(counters_.copied, 1U);
  dpdk::drop(m);
}

TEST_F(DpdkMbuf, AFullRingGivesTheMbufBackAndSaysSo) {
  const Ring ring = make_ring("small", 8);
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_EQ(dpdk::send(ring.get(), tagged(pools_.frames[0], 64, 1, counters_)), i < 7);
  EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 7U);
  std::array<rte_mbuf*, 16> room{};
  for (rte_mbuf* m : dpdk::receive(ring.get(), room)) dpdk::drop(m);
}

dpdk::PoolDemand small_box() {
  const dpdk::PortNeeds port{.frame_bytes = 1518, .receive_mbufs = 512, .transmit_mbufs = 512};
  return {.ports = {port}};
}

TEST(DpdkPools, MemoryIsWhatThePlanSays) {
  dpdk::PoolDemand demand = small_box();
  demand.ports.resize(4, demand.ports.front());
  demand.cores = {dpdk::kAnyNode, dpdk::kAnyNode};
  const dpdk::PoolPlans plans = dpdk::plan_pools(demand);
  auto pools = dpdk::make_pools(plans, "a_name_that_is_much_longer_than_dpdk_allows");
  ASSERT_TRUE(pools) << pools.error().text();
  ASSERT_EQ(pools->frames, std::vector(4, pools->all[0].get()));
  ASSERT_EQ(pools->heads, std::vector(2, pools->all[1].get()));
  const rte_mempool* const frames = pools->frames[0];
  EXPECT_EQ(frames->size, plans.frames[0].mbufs);
  EXPECT_EQ(frames->cache_size, dpdk::kPoolCache);
  EXPECT_EQ(dpdk::room_of(frames), plans.frames[0].room);
  EXPECT_GE(dpdk::room_of(pools->heads[0]), 66U);
  std::uint64_t bytes = 0;
  const auto add = [](rte_mempool*, void* sum, rte_mempool_memhdr* part, unsigned) {
    *static_cast<std::uint64_t*>(sum) += part->len;
  };
  for (const dpdk::Mempool& pool : pools->all) rte_mempool_mem_iter(pool.get(), add, &bytes);
  const std::uint64_t said = dpdk::bytes_of(plans.frames[0], false) + dpdk::bytes_of(plans.heads[0], false);
  EXPECT_LE(bytes, said);
  EXPECT_GE(bytes * 20, said * 19) << "not far above the truth either";
}

// Without one, each head costs two atomic steps on the pool's ring.
TEST(DpdkPools, TheSmallestBoxHasCaches) {
  const auto pools = dpdk::make_pools(dpdk::plan_pools(small_box()), "smallest");
  ASSERT_TRUE(pools) << pools.error().text();
  EXPECT_EQ(pools->heads[0]->cache_size, dpdk::kPoolCache);
  EXPECT_EQ(pools->frames[0]->cache_size, dpdk::kPoolCache);
}

TEST(DpdkPools, TooMuchIsRefusedByNameAndKey) {
  const auto pool = dpdk::make_pool({.name = "big_frames", .mbufs = 1 << 20, .room = 2048});
  ASSERT_FALSE(pool);
  EXPECT_NE(pool.error().what.find("'big_frames' of 1,048,576 mbufs"), std::string::npos)
      << pool.error().what;
  EXPECT_NE(pool.error().what.find("raise dataplane.memory"), std::string::npos) << pool.error().what;
}

}  // namespace
}  // namespace tally::e2e
