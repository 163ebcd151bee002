#include "dpdk/impaired_way.h"

namespace tally::dpdk {

ImpairedWay::ImpairedWay(const impair::ImpairStream& stream, rte_mempool* copies, MbufCounters& mbufs,
                         impair::ImpairCounters& counters, OneWriter<std::uint64_t>& core_lost)
    : timed_(stream.options.timed()),
      faults_(stream),
      line_(stream.options, counters),
      copies_(copies),
      mbufs_(mbufs),
      counters_(counters),
      core_lost_(core_lost) {}

std::span<rte_mbuf*> ImpairedWay::alter(rte_mbuf* m, std::span<rte_mbuf*, 2> room) noexcept {
  if (faults_.lost()) {
    ++counters_.lost;
    ++core_lost_;
    drop(m);
    return {};
  }
  // The copy is made before either is corrupted: they are two frames from here on. Of nothing there is none.
  rte_mbuf* const copy = faults_.duplicated() && m->pkt_len != 0 ? copy_of(m, copies_, mbufs_) : nullptr;
  std::size_t n = 0;
  if (rte_mbuf* const one = maybe_corrupted(m); one != nullptr) room[n++] = one;
  if (copy == nullptr) return room.first(n);
  ++counters_.duplicated;
  if (rte_mbuf* const other = maybe_corrupted(copy); other != nullptr) room[n++] = other;
  return room.first(n);
}

rte_mbuf* ImpairedWay::maybe_corrupted(rte_mbuf* m) noexcept {
  if (!faults_.corrupted() || m->pkt_len == 0) return m;
  rte_mbuf* const flipped = with_flipped_bit(m, faults_.bit(std::uint64_t{m->pkt_len} * 8), copies_, mbufs_);
  if (flipped != nullptr) ++counters_.corrupted;
  return flipped;
}

void ImpairedWay::hold(rte_mbuf* m, TimeNs now) noexcept { line_.enter(m, now, faults_, drop); }

std::span<rte_mbuf*> ImpairedWay::leave(TimeNs now, std::span<rte_mbuf*> room) noexcept {
  std::size_t n = 0;
  while (n < room.size()) {
    const auto next = line_.leave(now, faults_, drop);
    if (!next) break;
    room[n++] = *next;
  }
  return room.first(n);
}

void ImpairedWay::clear() noexcept {
  while (const auto m = line_.remove()) drop(*m);
}

void ImpairedWay::lose() noexcept {
  while (const auto m = line_.remove()) {
    ++counters_.lost;
    ++core_lost_;
    drop(*m);
  }
}

}  // namespace tally::dpdk
