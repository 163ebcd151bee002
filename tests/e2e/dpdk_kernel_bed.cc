#include "dpdk_kernel_bed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tally/check.h"

#include <rte_ethdev.h>

namespace tally::e2e {

void KernelPorts::make_pools_for(const std::vector<dpdk::PortOptions>& options) {
  static int number = 0;
  dpdk::PoolDemand demand;
  ports_.clear();
  for (const dpdk::PortOptions& port : options) {
    demand.ports.push_back(dpdk::Port::needs_of(port));
    ports_.push_back(port.name);
  }
  auto pools = dpdk::make_pools(dpdk::plan_pools(demand), "k" + std::to_string(number++));
  TALLY_CHECK(pools.has_value(), "EAL's memory holds every mempool of the tests");
  pools_ = std::move(*pools);
}

dpdk::Port KernelPorts::open(const dpdk::PortOptions& options) {
  if (ports_.empty()) make_pools_for({options});
  const auto at = std::ranges::find(ports_, options.name);
  rte_mempool* const pool =
      at == ports_.end() ? frames() : pools_.frames[static_cast<std::size_t>(at - ports_.begin())];
  auto port = dpdk::Port::open(options, pool);
  if (!port) ADD_FAILURE() << port.error().text();
  TALLY_CHECK(port.has_value(), "the port opens");
  return std::move(*port);
}

rte_mbuf* KernelPorts::mbuf_of(std::span<const std::byte> frame) {
  rte_mbuf* m = dpdk::allocate(frames(), counters_);
  TALLY_CHECK(m != nullptr && frame.size() <= rte_pktmbuf_tailroom(m), "an mbuf holds the test's frame");
  std::memcpy(dpdk::data_of(m), frame.data(), frame.size());
  m->data_len = static_cast<std::uint16_t>(frame.size());
  m->pkt_len = m->data_len;
  return m;
}

std::vector<std::vector<std::byte>> KernelPorts::receive_copies(const dpdk::Port& port, std::size_t wanted) {
  std::vector<std::vector<std::byte>> copies;
  for (int turn = 0; turn < 50 && copies.size() < wanted; ++turn) {
    std::array<rte_mbuf*, 32> room{};
    const auto burst = dpdk::receive(port.traits().id, 0, room);
    for (rte_mbuf* m : burst) {
      EXPECT_EQ(m->nb_segs, 1);
      EXPECT_EQ(m->pkt_len, m->data_len);
      const std::span frame(dpdk::data_of(m), m->data_len);
      if (is_test_frame(frame)) copies.emplace_back(frame.begin(), frame.end());
      dpdk::drop(m);
    }
    if (burst.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return copies;
}

std::size_t KernelPorts::send_all(const dpdk::Port& port, std::vector<rte_mbuf*> burst) {
  return dpdk::send(port.traits().id, 0, burst, counters_);
}

void KernelPorts::carries(const dpdk::Port& port, const Wire& wire, std::size_t bytes, bool tagged) {
  SCOPED_TRACE(port.name() + ", " + std::to_string(bytes) + " bytes" + (tagged ? ", tagged" : ""));
  const auto in = test_frame(bytes, static_cast<std::uint8_t>(bytes), tagged);
  wire.send(in);
  EXPECT_THAT(receive_copies(port, 1), testing::ElementsAre(in));
  const auto out = test_frame(bytes, static_cast<std::uint8_t>(bytes + 1), tagged);
  EXPECT_EQ(send_all(port, {mbuf_of(out)}), 1U);
  EXPECT_THAT(wire.receive(1), testing::ElementsAre(out));
}

void KernelPorts::comes_back(const dpdk::Port& port, const Wire& wire) {
  const auto frame = test_frame(60, 1);
  bool arrived = false;
  for (int turn = 0; turn < 10 && !arrived; ++turn) {
    wire.send(frame);
    arrived = !receive_copies(port, 1).empty();
  }
  EXPECT_TRUE(arrived) << port.name() << " is up, and nothing arrives by it";
}

unsigned KernelPorts::in_use() const {
  unsigned n = 0;
  for (const dpdk::Mempool& pool : pools_.all) n += rte_mempool_in_use_count(pool.get());
  return n;
}

bool KernelPorts::in_use_becomes(const std::vector<const dpdk::Port*>& ports, unsigned wanted) {
  for (int turn = 0; turn < 100; ++turn) {
    // af_xdp looks for what was sent when something is sent.
    for (const dpdk::Port* port : ports) rte_eth_tx_burst(port->traits().id, 0, nullptr, 0);
    if (in_use() == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << in_use() << " mbufs are in use, not " << wanted;
  return false;
}

}  // namespace tally::e2e
