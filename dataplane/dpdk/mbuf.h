#pragma once
// How an mbuf changes hands (docs/mbufs.md). At any time one of these owns an mbuf: a mempool, a ring (of a
// port or between threads), or the loop of one thread. Only the functions below move it; each says who owned
// it before and who does afterwards.
//
//   mempool --allocate--> loop      ring --receive--> loop      loop --drop--> mempool
//   loop --send--> ring; what the ring refuses: mempool
//   loop --offer--> ring; what the ring refuses: loop
//
// These five also tell ThreadSanitizer that the bytes change hands: DPDK's libraries are not instrumented.
// Owning an mbuf is owning its fields. Its buffer may be shared, and a shared buffer is read-only for all.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk/threads.h"
#include "tally/one_writer.h"

#include <rte_mbuf.h>
#include <rte_ring.h>

namespace tally::dpdk {

// Of one thread.
struct MbufCounters {
  OneWriter<std::uint64_t> no_mbuf = 0;  // a mempool was empty: the frame it was meant for does not exist
  OneWriter<std::uint64_t> refused =
      0;  // frames that a full transmit ring did not take, or that the port cannot hold
  OneWriter<std::uint64_t> copied = 0;  // frames that arrived shared and were copied to be writable
};

[[nodiscard]] inline std::byte* data_of(const rte_mbuf* m) noexcept {
  return static_cast<std::byte*>(m->buf_addr) + m->data_off;
}

// Whether the owner of `m` may write its bytes: nobody else sees them.
[[nodiscard]] inline bool writable(const rte_mbuf* m) noexcept {
  return rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m);
}

// Before: the mempool. After: the caller, alone; empty, one segment, the usual headroom. nullptr: the mempool
// is empty, which is counted.
[[nodiscard]] rte_mbuf* allocate(rte_mempool* pool, MbufCounters& counters) noexcept;

// The same for all of `room`, or for none: false, and nothing is counted. One step in the mempool's cache
// instead of one for each.
[[nodiscard]] bool allocate_all(rte_mempool* pool, std::span<rte_mbuf*> room) noexcept;

// Before: the port's receive ring. After: the caller owns the returned part of `room`, in order of arrival.
// It may read them all; it may write those that are writable(). port: of ethdev.
[[nodiscard]] std::span<rte_mbuf*> receive(std::uint16_t port, std::uint16_t queue,
                                           std::span<rte_mbuf*> room) noexcept;

// The same from a ring between threads.
[[nodiscard]] std::span<rte_mbuf*> receive(rte_ring* ring, std::span<rte_mbuf*> room) noexcept;

// Before: the caller, for `m` and all its segments. After: nobody may touch them; each buffer goes back to
// its mempool when its last reference does.
void drop(rte_mbuf* m) noexcept;

// The same for each of `frames`, whose order is lost.
void drop_all(std::span<rte_mbuf*> frames) noexcept;

// Before: the caller owns `frames`. After: the port's transmit ring (then its reader) owns those it took, the
// mempool the others; the caller owns none. Never waits. Returns how many were taken.
std::size_t send(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> frames,
                 MbufCounters& counters) noexcept;

// The same, but what the port does not take stays the caller's: the last of `frames`. Not counted.
[[nodiscard]] std::size_t offer(std::uint16_t port, std::uint16_t queue,
                                std::span<rte_mbuf*> frames) noexcept;

// The same for a ring between threads.
[[nodiscard]] std::size_t offer(rte_ring* ring, std::span<rte_mbuf*> frames) noexcept;

// As send() into a ring between threads; false, and not counted: it is full. Nothing found out about the
// frame so far goes along but m->port.
[[nodiscard]] bool send(rte_ring* ring, rte_mbuf* m) noexcept;

// --- shapes: before and after, the caller owns everything named -----------------------------------------

// A writable copy from `copies` in place of `m`, which is given away. nullptr: lost and counted.
[[nodiscard]] rte_mbuf* copied_writable(rte_mbuf* m, rte_mempool* copies, MbufCounters& counters) noexcept;

// A writable frame in place of `m`, which is given away: m itself, or a copy from `copies`. nullptr: lost and
// counted.
[[nodiscard]] inline rte_mbuf* made_writable(rte_mbuf* m, rte_mempool* copies,
                                             MbufCounters& counters) noexcept {
  if (!writable(m)) [[unlikely]]
    return copied_writable(m, copies, counters);
  taking_over(m->buf_addr);  // from former holders of other references
  return m;
}

// The whole frame in buffers of its own, written by nobody yet; `m` stays. nullptr: the pool is empty, which
// is counted.
[[nodiscard]] rte_mbuf* copy_of(const rte_mbuf* m, rte_mempool* copies, MbufCounters& counters) noexcept;

// A frame whose bit `bit` (below 8 * pkt_len) is another, in place of `m`, which is given away: m itself, or
// a copy where somebody else sees that bit. No port vouches for it. nullptr: lost and counted.
[[nodiscard]] rte_mbuf* with_flipped_bit(rte_mbuf* m, std::uint64_t bit, rte_mempool* copies,
                                         MbufCounters& counters) noexcept;

// `m` (writable, one segment) becomes `head` bytes (returned, to be written) and the payload, which stays
// where it is in the buffer and may reach into the former tail room.
[[nodiscard]] std::span<std::byte> reuse(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                                         std::size_t head) noexcept;

// A frame of `head` bytes in its own buffer (to be written), then all bytes of `body` by reference: `body` is
// chained behind it with one more reference. From now on body's buffer and fields are read-only for everyone,
// and body must not be sent by itself on a port that hands the mbuf itself to a reader (Port::same_mbuf).
// The caller still owns its own reference of body. nullptr: the pool is empty, which is counted.
[[nodiscard]] rte_mbuf* refer(rte_mbuf* body, std::size_t head, rte_mempool* heads,
                              MbufCounters& counters) noexcept;

// The same for several frames at once, of which the last takes over the caller's reference: after the first
// was sent or dropped, nothing of `body` may be touched, and body is gone with the last. heads: fresh from
// allocate_all(), the frames to be; at least one. Their headers' bytes are set by lead().
void refer_all(rte_mbuf* body, std::span<rte_mbuf* const> heads) noexcept;
// m: of refer_all(), which precedes this; `body_bytes` of the body. As refer(), `head` bytes are to be
// written.
inline void lead(rte_mbuf* m, std::size_t head, std::uint32_t body_bytes) noexcept {
  m->data_len = static_cast<std::uint16_t>(head);
  m->pkt_len = static_cast<std::uint32_t>(head) + body_bytes;
}

// `head` bytes (to be written) and then a copy of `m`, of however many segments, in one: for a port that
// cannot send segments. nullptr: the pool is empty, or its mbufs do not hold that (refused); both are
// counted.
[[nodiscard]] rte_mbuf* copied_whole(const rte_mbuf* m, std::size_t head, rte_mempool* frames,
                                     MbufCounters& counters) noexcept;

// `m` and all its segments are from now on owned `others` times more: each owner sends or drops it once, and
// nobody writes its fields or bytes. Not for a port that hands the mbuf itself to a reader.
void share(rte_mbuf* m, std::uint16_t others) noexcept;

}  // namespace tally::dpdk
