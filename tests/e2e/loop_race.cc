// A planted bug: the sender touches an mbuf after it gave it away. Built under ThreadSanitizer only; the test
// passes when that reports the race, so it shows that the annotations of mbuf.cc hide no real one.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>

#include "dpdk/mbuf.h"
#include "dpdk/port.h"
#include "loop_cable.h"
#include "loop_eal.h"
#include "pool_audit.h"

#include <rte_lcore.h>

namespace tally::e2e {
namespace {

std::uint32_t sum_of(const rte_mbuf* m) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < m->data_len; ++i) sum += std::to_integer<std::uint32_t>(dpdk::data_of(m)[i]);
  return sum;
}

void take(std::uint16_t port, const std::atomic<bool>& stop) {
  if (rte_thread_register() != 0) return;
  std::uint32_t sum = 0;
  rte_mbuf* m = nullptr;
  while (!stop.load(std::memory_order_acquire)) {
    if (dpdk::receive(port, 0, {&m, 1}).empty()) continue;
    sum += sum_of(m);
    dpdk::drop(m);
  }
  std::printf("sum %u\n", sum);
  rte_thread_unregister();
}

int race() {
  auto pools = make_plain_pools({.frames = 256, .heads = 16, .frame_room = 2'048}, "race");
  if (!pools) return 2;
  const Cable cable({.name = "race"}, pools->frames[0]);
  auto box = dpdk::Port::adopt(cable.box_port(), {.name = "race"}, pools->frames[0]);
  if (!box) {
    std::fprintf(stderr, "%s\n", box.error().text().c_str());
    return 2;
  }
  std::atomic<bool> stop = false;
  std::thread reader(take, cable.box_port(), std::cref(stop));
  dpdk::MbufCounters counters;
  for (int i = 0; i < 100; ++i) {
    rte_mbuf* m = dpdk::allocate(pools->frames[0], counters);
    if (m == nullptr) continue;
    m->data_len = 64;
    m->pkt_len = 64;
    std::byte* const bytes = dpdk::data_of(m);
    std::fill_n(bytes, 64, std::byte{1});
    dpdk::send(cable.worker_port(), 0, {&m, 1}, counters);
    bytes[0] = std::byte{2};  // the bug
    std::this_thread::yield();
  }
  stop.store(true, std::memory_order_release);
  reader.join();
  return 0;
}

}  // namespace
}  // namespace tally::e2e

int main() {
  if (!tally::e2e::start_eal().empty()) {
    std::fprintf(stderr, "%s\n", tally::e2e::start_eal().c_str());
    return 77;
  }
  return tally::e2e::race();
}
