#include "io/node_memory.h"

#include <rte_malloc.h>

namespace tally::io {

void FreeNodeMemory::operator()(void* memory) const noexcept { rte_free(memory); }
void FreeRing::operator()(rte_ring* ring) const noexcept { rte_free(ring); }

NodeMemory<jobs::Line> make_lines(std::uint32_t lines, int socket) {
  const std::size_t bytes = std::size_t{lines} * sizeof(jobs::Line);
  return NodeMemory<jobs::Line>(
      static_cast<jobs::Line*>(rte_zmalloc_socket("tally_slots", bytes, alignof(jobs::Line), socket)));
}

std::size_t ring_bytes(std::uint32_t size, std::size_t element_bytes) noexcept {
  const ssize_t bytes = rte_ring_get_memsize_elem(static_cast<unsigned>(element_bytes), size);
  return bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
}

// Not rte_ring_create(): it wants a name that no other ring of the process has.
ThreadRing make_ring(std::uint32_t size, std::size_t element_bytes, Producers producers, int socket) {
  const std::size_t bytes = ring_bytes(size, element_bytes);
  if (bytes == 0) return nullptr;
  ThreadRing ring(
      static_cast<rte_ring*>(rte_zmalloc_socket("tally_ring", bytes, RTE_CACHE_LINE_SIZE, socket)));
  const unsigned flags = RING_F_SC_DEQ | (producers == Producers::kOne ? RING_F_SP_ENQ : 0U);
  if (ring == nullptr || rte_ring_init(ring.get(), "tally", size, flags) != 0) return nullptr;
  return ring;
}

}  // namespace tally::io
