#include "paced_port.h"

#include <algorithm>

#include "pipeline/reply.h"
#include "traffic.h"

#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr std::size_t kDatagram = Traffic::kHeaders - kHeaderBytes;

}  // namespace

PacedPort::PacedPort(std::uint16_t ethdev, std::uint64_t frames, std::uint16_t world, double rate,
                     const std::atomic<bool>& hurry)
    : ring_(frames),
      last_rank_(static_cast<std::uint16_t>(world - 1)),
      ns_per_frame_(1e9 / rate),
      hurry_(hurry),
      taken_(frames),
      complete_(kUnderWay),
      detour_(
          ethdev,
          [](void* port, rte_mbuf** m, std::uint16_t count) {
            return static_cast<PacedPort*>(port)->receive(m, count);
          },
          [](void* port, rte_mbuf** m, std::uint16_t count) {
            return static_cast<PacedPort*>(port)->transmit(m, count);
          },
          this) {}

std::uint16_t PacedPort::receive(rte_mbuf** frames, std::uint16_t count) noexcept {
  const TimeNs now = clock_.now();
  if (taken_ == ring_) {  // a new turn of the ring was prepared meanwhile
    taken_ = 0;
    start_ = now;
  }
  const bool hurry = hurry_.load(std::memory_order_relaxed);
  const auto arrived =
      hurry ? ring_ : static_cast<std::uint64_t>(static_cast<double>(now - start_) / ns_per_frame_);
  if (arrived <= taken_) return 0;
  const std::uint64_t there = std::min(arrived, ring_) - taken_;
  count = detour_.receive(frames, static_cast<std::uint16_t>(std::min<std::uint64_t>(count, there)));
  for (std::uint16_t i = 0; i < count; ++i) {
    const Header h = pipeline::header_at(rte_pktmbuf_mtod(frames[i], const std::byte*) + kDatagram);
    if (h.rank.host() != last_rank_) continue;
    complete_[raw(h.chunk_id()) % kUnderWay] =
        start_ + static_cast<TimeNs>(static_cast<double>(taken_ + i + 1) * ns_per_frame_);
  }
  taken_ += count;
  if (taken_ == ring_) arriving_ += now - start_;
  return count;
}

std::uint16_t PacedPort::transmit(rte_mbuf** frames, std::uint16_t count) noexcept {
  const TimeNs now = clock_.now();
  for (std::uint16_t i = 0; i < count; ++i) {
    const rte_mbuf* const m = frames[i];
    const std::byte* const datagram = m->nb_segs == 1 ? rte_pktmbuf_mtod(m, const std::byte*) + kDatagram
                                                      : rte_pktmbuf_mtod(m->next, const std::byte*);
    const TimeNs complete = complete_[raw(pipeline::header_at(datagram).chunk_id()) % kUnderWay];
    if (complete != 0) latency_.record(now > complete ? now - complete : 0);
  }
  return detour_.transmit(frames, count);
}

}  // namespace tally::bench
