#pragma once
// How an mbuf changes hands. At any time one of these owns an mbuf: a mempool, a ring (of a port or of a
// hand-over), or the loop of one core. Only the functions below move it; each says who owned it before and
// who does afterwards.
//
//   mempool --allocate--> loop      ring --receive--> loop      loop --drop--> mempool
//   loop --reuse--> the same loop, as another frame              loop --refer--> the same loop, two frames
//   loop --send--> ring; what the ring refuses: mempool
//
// Owning an mbuf is owning its fields. Its buffer may be shared: with indirect mbufs (refer), and while the
// reference count is above 1. A shared buffer is read-only, also for the owner of the mbuf that embeds it.

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame.h"

#include <rte_mbuf.h>
#include <rte_ring.h>

namespace tally::e2e {

// Of one loop.
struct MbufCounters {
  std::uint64_t no_mbuf = 0;  // a mempool was empty: the frame it was meant for does not exist
  std::uint64_t refused = 0;  // frames that a full ring did not take
  std::uint64_t copied = 0;   // frames that arrived shared and were copied to be writable
};

// Where a box takes mbufs from.
struct BoxPools {
  rte_mempool* frames = nullptr;  // whole frames: copies, control packets, REJECTs
  rte_mempool* heads = nullptr;   // headers in front of a shared payload
  rte_mempool* bodies = nullptr;  // indirect mbufs: no data room of their own
};

[[nodiscard]] inline std::byte* data_of(const rte_mbuf* m) noexcept {
  return static_cast<std::byte*>(m->buf_addr) + m->data_off;
}

// Whether the owner of `m` may write its bytes: nobody else sees them. A reference count above 1 does not
// tell references to the buffer (refer) from a second holder of the very mbuf (a sender that floods one mbuf
// to several ports), so without it the owner does not write the mbuf's fields either.
[[nodiscard]] inline bool writable(const rte_mbuf* m) noexcept {
  return rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m);
}

// Before: the mempool. After: the caller, alone; empty, one segment, the usual headroom. nullptr: the mempool
// is empty, which is counted.
[[nodiscard]] rte_mbuf* allocate(rte_mempool* pool, MbufCounters& counters) noexcept;

// Before: the port's receive ring. After: the caller owns the returned part of `room`, in order of arrival.
// It may read them all; it may write those that are writable().
[[nodiscard]] std::span<rte_mbuf*> receive(std::uint16_t port, std::uint16_t queue,
                                           std::span<rte_mbuf*> room) noexcept;

// The same for one who writes: every returned frame is writable, and m->port is the port. What came shared
// was copied into `copies`, or is lost and counted when that is empty.
[[nodiscard]] std::span<rte_mbuf*> receive_writable(std::uint16_t port, std::uint16_t queue,
                                                    std::span<rte_mbuf*> room, rte_mempool* copies,
                                                    MbufCounters& counters) noexcept;

// The same from a hand-over ring, whose mbufs another core has received already.
[[nodiscard]] std::span<rte_mbuf*> receive(rte_ring* ring, std::span<rte_mbuf*> room) noexcept;

// Before: the caller, for `m` and all its segments. After: nobody may touch them; each buffer goes back to
// its mempool when its last reference does.
inline void drop(rte_mbuf* m) noexcept { rte_pktmbuf_free(m); }

// Before and after: the caller; `m` must be writable. The frame becomes `head` bytes (returned, to be
// written) and the payload, which stays where it is in the buffer and may reach into the former tail room.
[[nodiscard]] std::span<std::byte> reuse(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                                         std::size_t head) noexcept;

// Before: the caller owns `m`, one segment. After: it also owns the returned frame: `head` bytes in its own
// buffer (to be written), then the bytes of m from `skip` on, by reference. From now on m's buffer is
// read-only for everyone; m itself may be sent or dropped before or after the other. nullptr: a mempool is
// empty, which is counted.
[[nodiscard]] rte_mbuf* refer(rte_mbuf* m, std::uint32_t skip, std::size_t head, const BoxPools& pools,
                              MbufCounters& counters) noexcept;

// The same for a port that cannot send segments: the bytes are copied, and m stays as writable as it was.
[[nodiscard]] rte_mbuf* duplicate(const rte_mbuf* m, std::uint32_t skip, std::size_t head, rte_mempool* pool,
                                  MbufCounters& counters) noexcept;

// Before: the caller owns `frames`. After: the port's transmit ring (then its reader) owns those it took, the
// mempool the others; the caller owns none. Never waits.
void send(std::uint16_t port, std::uint16_t queue, std::span<rte_mbuf*> frames,
          MbufCounters& counters) noexcept;

// The same into a hand-over ring. The receiving core parses the frame again: nothing found out about it so
// far goes along.
void send(rte_ring* ring, rte_mbuf* m, MbufCounters& counters) noexcept;

// A view for the pipeline, valid until m changes hands or shape. The pipeline writes only into frames of one
// segment; m must be writable.
[[nodiscard]] inline Frame frame_of(const rte_mbuf* m, PortIndex ingress) noexcept {
  return {.data = data_of(m),
          .length = m->data_len,
          .capacity = static_cast<std::uint32_t>(m->data_len + rte_pktmbuf_tailroom(m)),
          .port = ingress,
          .single_segment = m->nb_segs == 1};
}

}  // namespace tally::e2e
