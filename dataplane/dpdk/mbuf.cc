#include "dpdk/mbuf.h"

#include <cstring>

#include "dpdk/pools.h"
#include "dpdk/port_gate.h"
#include "tally/check.h"

#include <rte_ethdev.h>

namespace tally::dpdk {
namespace {

// The buffer's address names the mbuf. Releases accumulate, so a buffer with several references is fine too.
inline void released(const rte_mbuf* m) noexcept { handing_over(m->buf_addr); }
inline void taken(const rte_mbuf* m) noexcept { taking_over(m->buf_addr); }

inline void all_released([[maybe_unused]] std::span<rte_mbuf* const> frames) noexcept {
#ifdef TALLY_THREAD_SANITIZER
  for (const rte_mbuf* m : frames) {
    while (m != nullptr) {
      const rte_mbuf* const next = m->next;  // before the release: a shared body may then be freed by others
      released(m);
      m = next;
    }
  }
#endif
}

inline void all_taken([[maybe_unused]] std::span<rte_mbuf* const> frames) noexcept {
#ifdef TALLY_THREAD_SANITIZER
  for (const rte_mbuf* frame : frames)
    for (const rte_mbuf* m = frame; m != nullptr; m = m->next) taken(m);
#endif
}

// The commonest frame: one segment with one owner. Its `next` is null (a head that says so has no more
// segments), and not looking at it saves a second cache line, which nothing else of a frame touches.
inline bool is_simple(const rte_mbuf* m) noexcept {
  return m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1;
}

}  // namespace

// As rte_pktmbuf_alloc(), but nothing of the mbuf is touched before it is ours.
rte_mbuf* allocate(rte_mempool* pool, MbufCounters& counters) noexcept {
  void* object = nullptr;
  if (rte_mempool_get(pool, &object) != 0) {
    ++counters.no_mbuf;
    return nullptr;
  }
  auto* m = static_cast<rte_mbuf*>(object);
  taken(m);
  TALLY_DCHECK(rte_mbuf_refcnt_read(m) == 1 && m->next == nullptr && m->nb_segs == 1,
               "an mbuf in a mempool belongs to nobody");
  rte_pktmbuf_reset(m);
  return m;
}

bool allocate_all(rte_mempool* pool, std::span<rte_mbuf*> room) noexcept {
  if (rte_mempool_get_bulk(pool, reinterpret_cast<void**>(room.data()), static_cast<unsigned>(room.size())) !=
      0)
    return false;
  for (rte_mbuf* m : room) {
    taken(m);
    TALLY_DCHECK(rte_mbuf_refcnt_read(m) == 1 && m->next == nullptr && m->nb_segs == 1,
                 "an mbuf in a mempool belongs to nobody");
    rte_pktmbuf_reset(m);
  }
  return true;
}

std::span<rte_mbuf*> receive(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> room) noexcept {
  PortGate& gate = PortGate::of(port);
  const bool guarded = gate.guarded();
  if (guarded && !gate.enter(PortGate::kReceive, queue)) return {};
  const auto burst =
      room.first(rte_eth_rx_burst(port, queue, room.data(), static_cast<std::uint16_t>(room.size())));
  if (guarded) gate.leave(PortGate::kReceive, queue);
  all_taken(burst);
  return burst;
}

std::span<rte_mbuf*> receive(rte_ring* ring, std::span<rte_mbuf*> room) noexcept {
  const auto burst = room.first(rte_ring_dequeue_burst(ring, reinterpret_cast<void**>(room.data()),
                                                       static_cast<unsigned>(room.size()), nullptr));
  all_taken(burst);
  return burst;
}

// As rte_pktmbuf_free(), but never of null. Whoever is not the last to let go of a segment only counts down;
// the last one alone writes its fields. The first release is for the bytes that this thread read or wrote,
// the second for the fields that the last one resets.
void drop(rte_mbuf* m) noexcept {
  if (is_simple(m)) {
    TALLY_DCHECK(m->next == nullptr, "a frame of one segment ends there");
    released(m);
    rte_mempool_put(m->pool, m);
    return;
  }
  while (m != nullptr) {
    rte_mbuf* const next = m->next;
    released(m);
    if (rte_mbuf* last = rte_pktmbuf_prefree_seg(m); last != nullptr) {
      rte_mempool* const pool = last->pool;
      released(last);
      rte_mempool_put(pool, last);
    }
    m = next;
  }
}

// Simple frames of one pool in a row go back to it together.
void drop_all(std::span<rte_mbuf*> frames) noexcept {
  std::size_t simple = 0;  // frames in front that wait to go back to `pool`
  rte_mempool* pool = nullptr;
  const auto give_back = [&]() noexcept {
    if (simple != 0)
      rte_mempool_put_bulk(pool, reinterpret_cast<void**>(frames.data()), static_cast<unsigned>(simple));
    simple = 0;
  };
  for (rte_mbuf* m : frames) {
    if (!is_simple(m)) [[unlikely]] {
      drop(m);
      continue;
    }
    TALLY_DCHECK(m->next == nullptr, "a frame of one segment ends there");
    released(m);
    if (m->pool != pool) {
      give_back();
      pool = m->pool;
    }
    frames[simple++] = m;
  }
  give_back();
}

// A release of what stays here does no harm: it only says that what was done before may be seen.
std::size_t offer(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> frames) noexcept {
  if (frames.empty()) return 0;
  all_released(frames);
  PortGate& gate = PortGate::of(port);
  const bool guarded = gate.guarded();
  if (guarded && !gate.enter(PortGate::kTransmit, queue)) return 0;
  const std::size_t taken =
      rte_eth_tx_burst(port, queue, frames.data(), static_cast<std::uint16_t>(frames.size()));
  if (guarded) gate.leave(PortGate::kTransmit, queue);
  return taken;
}

std::size_t offer(rte_ring* ring, std::span<rte_mbuf*> frames) noexcept {
  all_released(frames);
  return rte_ring_enqueue_burst(ring, reinterpret_cast<void**>(frames.data()),
                                static_cast<unsigned>(frames.size()), nullptr);
}

std::size_t send(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> frames,
                 MbufCounters& counters) noexcept {
  const std::size_t sent = offer(port, queue, frames);
  if (sent == frames.size()) return sent;
  counters.refused += frames.size() - sent;
  drop_all(frames.subspan(sent));
  return sent;
}

bool send(rte_ring* ring, rte_mbuf* m) noexcept {
  all_released({&m, 1});
  if (rte_ring_enqueue(ring, m) == 0) return true;
  drop(m);
  return false;
}

rte_mbuf* copied_writable(rte_mbuf* m, rte_mempool* copies, MbufCounters& counters) noexcept {
  rte_mbuf* const copy = copy_of(m, copies, counters);
  if (copy != nullptr) ++counters.copied;
  drop(m);
  return copy;
}

rte_mbuf* copy_of(const rte_mbuf* m, rte_mempool* copies, MbufCounters& counters) noexcept {
  rte_mbuf* copy = rte_pktmbuf_copy(m, copies, 0, UINT32_MAX);
  if (copy == nullptr) {
    ++counters.no_mbuf;
    return nullptr;
  }
  all_taken({&copy, 1});
  return copy;
}

// Whether the first segment is shared says of the others nothing: a chain's body may be.
rte_mbuf* with_flipped_bit(rte_mbuf* m, std::uint64_t bit, rte_mempool* copies,
                           MbufCounters& counters) noexcept {
  const auto segment_of = [](rte_mbuf* frame, std::uint64_t& at) {
    rte_mbuf* segment = frame;
    for (; at >= segment->data_len; segment = segment->next) at -= segment->data_len;
    return segment;
  };
  std::uint64_t at = bit / 8;
  TALLY_DCHECK(at < m->pkt_len, "the bit is one of the frame's");
  rte_mbuf* segment = segment_of(m, at);
  // The fields of a frame that somebody else holds are not ours either.
  if (!writable(m) || !writable(segment)) {
    rte_mbuf* const copy = copy_of(m, copies, counters);
    drop(m);
    if (copy == nullptr) return nullptr;
    m = copy;
    at = bit / 8;
    segment = segment_of(m, at);
  } else {
    taken(m);  // from former holders of other references
    taken(segment);
  }
  data_of(segment)[at] ^= std::byte{1} << (bit % 8);
  m->ol_flags = 0;
  return m;
}

std::span<std::byte> reuse(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                           std::size_t head) noexcept {
  TALLY_DCHECK(writable(m) && m->nb_segs == 1, "only the one owner of a whole frame turns it into another");
  const auto offset = static_cast<std::size_t>(payload - static_cast<const std::byte*>(m->buf_addr));
  TALLY_DCHECK(offset >= head && offset + payload_bytes <= m->buf_len, "the frame fits into its buffer");
  m->data_off = static_cast<std::uint16_t>(offset - head);
  m->data_len = static_cast<std::uint16_t>(head + payload_bytes);
  m->pkt_len = m->data_len;
  m->ol_flags = 0;  // what a port said of the frame that arrived is not true of this one
  return {data_of(m), head};
}

// The body is the caller's very mbuf. Safe because nobody writes its fields from here on: drivers only read
// `next` (null), `data_off` and `data_len` of a second segment, never its nb_segs and pkt_len; and each
// holder of a reference frees it by counting down, where only the last one resets fields. So the chain, other
// chains of the same body and the caller's own reference may be freed in any order by any threads.
rte_mbuf* refer(rte_mbuf* body, std::size_t head, rte_mempool* heads, MbufCounters& counters) noexcept {
  TALLY_DCHECK(body->nb_segs == 1 && body->next == nullptr, "a body is one segment");
  rte_mbuf* m = allocate(heads, counters);
  if (m == nullptr) return nullptr;
  TALLY_DCHECK(head <= rte_pktmbuf_tailroom(m), "the pool's data room holds every header");
  rte_mbuf_refcnt_update(body, 1);
  m->data_len = static_cast<std::uint16_t>(head);
  m->pkt_len = static_cast<std::uint32_t>(head) + body->data_len;
  m->nb_segs = 2;
  m->next = body;
  return m;
}

// As refer(). The references are counted before anybody else has one, so that one plain store does it where
// refer() needs an atomic step for each; and the caller's goes with the last frame.
void refer_all(rte_mbuf* body, std::span<rte_mbuf* const> heads) noexcept {
  TALLY_DCHECK(body->nb_segs == 1 && body->next == nullptr, "a body is one segment");
  rte_mbuf_refcnt_update(body, static_cast<std::int16_t>(heads.size() - 1));
  for (rte_mbuf* m : heads) {
    m->nb_segs = 2;
    m->next = body;
  }
}

rte_mbuf* copied_whole(const rte_mbuf* m, std::size_t head, rte_mempool* frames,
                       MbufCounters& counters) noexcept {
  const std::size_t bytes = head + m->pkt_len;
  if (bytes > room_of(frames)) {
    ++counters.refused;
    return nullptr;
  }
  rte_mbuf* const copy = allocate(frames, counters);
  if (copy == nullptr) return nullptr;
  std::byte* to = data_of(copy) + head;
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) {
    std::memcpy(to, data_of(segment), segment->data_len);
    to += segment->data_len;
  }
  copy->data_len = static_cast<std::uint16_t>(bytes);
  copy->pkt_len = copy->data_len;
  return copy;
}

void share(rte_mbuf* m, std::uint16_t others) noexcept {
  if (others != 0) rte_pktmbuf_refcnt_update(m, static_cast<std::int16_t>(others));
}

}  // namespace tally::dpdk
