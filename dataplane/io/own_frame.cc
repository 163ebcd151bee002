#include "own_frame.h"

#include <cstring>

#include "reply.h"

namespace tally {

rte_mbuf* make_frame(const Binding& to, const Box& box, std::uint16_t source_port,
                     std::span<const std::byte> datagram, rte_mempool* pool,
                     MbufCounters& counters) noexcept {
  rte_mbuf* const m = allocate(pool, counters);
  if (m == nullptr) return nullptr;
  const std::size_t head = encapsulation_bytes(to);
  if (head + datagram.size() > rte_pktmbuf_tailroom(m)) {
    drop(m);
    return nullptr;
  }
  m->data_len = static_cast<std::uint16_t>(head + datagram.size());
  m->pkt_len = m->data_len;
  write_encapsulation({data_of(m), head}, to, box, source_port, datagram);
  std::memcpy(data_of(m) + head, datagram.data(), datagram.size());
  return m;
}

}  // namespace tally
