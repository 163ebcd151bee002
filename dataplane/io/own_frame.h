#pragma once
// Frames of the box's own: REJECT, and what control sends.

#include <cstddef>
#include <cstdint>
#include <span>

#include "binding.h"
#include "box.h"
#include "mbuf.h"

namespace tally {

// Before: the mempool. After: the caller owns a frame with `datagram` from the box to `to`. nullptr: no mbuf,
// which is counted, or the pool's data room is too small for it.
[[nodiscard]] rte_mbuf* make_frame(const Binding& to, const Box& box, std::uint16_t source_port,
                                   std::span<const std::byte> datagram, rte_mempool* pool,
                                   MbufCounters& counters) noexcept;

}  // namespace tally
