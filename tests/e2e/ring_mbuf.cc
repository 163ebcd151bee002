#include "ring_mbuf.h"

#include <cstring>

#include "tally/check.h"

#include <rte_ethdev.h>

namespace tally::e2e {
namespace {

// A frame that the caller may write, in place of `m`, which it gives away. nullptr: lost and counted.
rte_mbuf* made_writable(rte_mbuf* m, rte_mempool* copies, MbufCounters& counters) noexcept {
  if (writable(m)) return m;
  rte_mbuf* copy = rte_pktmbuf_copy(m, copies, 0, UINT32_MAX);
  ++(copy != nullptr ? counters.copied : counters.no_mbuf);
  drop(m);
  return copy;
}

}  // namespace

rte_mbuf* allocate(rte_mempool* pool, MbufCounters& counters) noexcept {
  rte_mbuf* m = rte_pktmbuf_alloc(pool);
  if (m == nullptr) ++counters.no_mbuf;
  return m;
}

std::span<rte_mbuf*> receive(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> room) noexcept {
  return room.first(rte_eth_rx_burst(port, queue, room.data(), static_cast<std::uint16_t>(room.size())));
}

std::span<rte_mbuf*> receive_writable(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> room,
                                      rte_mempool* copies, MbufCounters& counters) noexcept {
  std::size_t kept = 0;
  for (rte_mbuf* arrived : receive(port, queue, room)) {
    rte_mbuf* m = made_writable(arrived, copies, counters);
    if (m == nullptr) continue;
    // net_ring sets neither: it delivers what the sender left there.
    m->port = port;
    m->ol_flags = 0;
    room[kept++] = m;
  }
  return room.first(kept);
}

std::span<rte_mbuf*> receive(rte_ring* ring, std::span<rte_mbuf*> room) noexcept {
  return room.first(rte_ring_dequeue_burst(ring, reinterpret_cast<void**>(room.data()),
                                           static_cast<unsigned>(room.size()), nullptr));
}

std::span<std::byte> reuse(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                           std::size_t head) noexcept {
  TALLY_CHECK(writable(m) && m->nb_segs == 1, "only the one owner of a whole frame turns it into another");
  const auto offset = static_cast<std::size_t>(payload - static_cast<const std::byte*>(m->buf_addr));
  TALLY_CHECK(offset >= head && offset + payload_bytes <= m->buf_len, "the frame fits into its buffer");
  m->data_off = static_cast<std::uint16_t>(offset - head);
  m->data_len = static_cast<std::uint16_t>(head + payload_bytes);
  m->pkt_len = m->data_len;
  m->ol_flags = 0;  // what a port said of the frame that arrived is not true of this one
  return {data_of(m), head};
}

rte_mbuf* refer(rte_mbuf* m, std::uint32_t skip, std::size_t head, const BoxPools& pools,
                MbufCounters& counters) noexcept {
  rte_mbuf* front = allocate(pools.heads, counters);
  if (front == nullptr) return nullptr;
  rte_mbuf* body = allocate(pools.bodies, counters);
  if (body == nullptr) {
    drop(front);
    return nullptr;
  }
  rte_pktmbuf_attach(body, m);  // counts the reference at the mbuf that embeds the buffer
  rte_pktmbuf_adj(body, static_cast<std::uint16_t>(skip));
  rte_pktmbuf_append(front, static_cast<std::uint16_t>(head));
  rte_pktmbuf_chain(front, body);  // one frame from here on: freeing the front frees the body
  return front;
}

rte_mbuf* duplicate(const rte_mbuf* m, std::uint32_t skip, std::size_t head, rte_mempool* pool,
                    MbufCounters& counters) noexcept {
  rte_mbuf* copy = allocate(pool, counters);
  if (copy == nullptr) return nullptr;
  const std::size_t bytes = m->data_len - skip;
  TALLY_CHECK(head + bytes <= rte_pktmbuf_tailroom(copy),
              "the pool's data room holds every frame of the box");
  rte_pktmbuf_append(copy, static_cast<std::uint16_t>(head + bytes));
  std::memcpy(data_of(copy) + head, data_of(m) + skip, bytes);
  return copy;
}

void send(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> frames,
          MbufCounters& counters) noexcept {
  if (frames.empty()) return;
  const std::uint16_t taken =
      rte_eth_tx_burst(port, queue, frames.data(), static_cast<std::uint16_t>(frames.size()));
  for (rte_mbuf* m : frames.subspan(taken)) {
    ++counters.refused;
    drop(m);
  }
}

void send(rte_ring* ring, rte_mbuf* m, MbufCounters& counters) noexcept {
  if (rte_ring_enqueue(ring, m) == 0) return;
  ++counters.refused;
  drop(m);
}

}  // namespace tally::e2e
