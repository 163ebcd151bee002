#pragma once
// Memory from EAL's heap on a NUMA node: slot memory, and the rings between threads. Out of dataplane.memory.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "jobs/layout.h"

#include <rte_ring.h>

namespace tally::io {

struct FreeNodeMemory {
  void operator()(void* memory) const noexcept;
};
template <class T>
using NodeMemory = std::unique_ptr<T[], FreeNodeMemory>;

// Zeroed lines, 64-byte aligned; nullptr: they do not fit. socket: NUMA node, or -1 for any.
[[nodiscard]] NodeMemory<jobs::Line> make_lines(std::uint32_t lines, int socket);

struct FreeRing {
  void operator()(rte_ring* ring) const noexcept;
};
// A ring between threads. It owns the mbufs in it; whoever ends it empties it first.
using ThreadRing = std::unique_ptr<rte_ring, FreeRing>;

// How many threads put into a ring; one takes. With several, a thread that is preempted inside an enqueue
// makes the others wait: only data cores share one, never control with a data core.
enum class Producers : std::uint8_t { kOne, kSeveral };

// Room for `size` - 1 elements of `element_bytes` (a multiple of 4); size: a power of two. nullptr: it does
// not fit.
[[nodiscard]] ThreadRing make_ring(std::uint32_t size, std::size_t element_bytes, Producers producers,
                                   int socket);
[[nodiscard]] std::size_t ring_bytes(std::uint32_t size, std::size_t element_bytes) noexcept;

}  // namespace tally::io
