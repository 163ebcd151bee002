// A worker without manners, for dpdk_door_test.cc: sends to a memif server as fast as it can, until it is
// killed. Arguments: socket file.

#include <array>
#include <cstdio>
#include <string>

#include "dpdk/eal.h"
#include "dpdk/mbuf.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"

int main(int count, char** words) {
  using namespace tally;
  if (count != 2) return 2;
  const dpdk::EalOptions options{.program = "tally_memif_visitor",
                                 .instance = "visitor",
                                 .pinned = false,
                                 .memory_bytes = 64 << 20,
                                 .hugepages = false};
  const auto eal = dpdk::Eal::start(options, {});
  if (!eal) return 3;
  const auto pool = dpdk::make_pool({.name = "visitor", .mbufs = 1023, .room = 1600});
  if (!pool) return 4;
  const auto port = dpdk::Port::open(
      {.name = "visitor",
       .device = "net_memif0,role=client,id=0,socket=" + std::string(words[1]) + ",socket-abstract=no"},
      pool->get());
  if (!port) return 5;
  dpdk::MbufCounters counters;
  std::array<rte_mbuf*, 32> room{};
  for (;;) {
    for (rte_mbuf* m : dpdk::receive(port->traits().id, 0, room)) dpdk::drop(m);
    std::size_t filled = 0;
    while (filled < room.size() && (room[filled] = dpdk::allocate(pool->get(), counters)) != nullptr) {
      room[filled]->data_len = 1000;
      room[filled]->pkt_len = 1000;
      ++filled;
    }
    dpdk::send(port->traits().id, 0, std::span{room}.first(filled), counters);
  }
}
