#pragma once
// Arrivals at the in-memory port at a rate, as from a link, and how long each result takes. Stands in front
// of the burst functions of a MemoryPort: a frame is there from the moment on at which it would have arrived,
// however late the data core asks for it.

#include <atomic>
#include <cstdint>
#include <vector>

#include "burst_detour.h"
#include "io/core_time.h"
#include "latency_histogram.h"
#include "tally/time.h"

namespace tally::bench {

class PacedPort {
 public:
  // ethdev: with a MemoryPort in place, whose ring holds `frames`, of a job of `world` members whose last one
  // is the last to contribute. hurry: any thread may set it; all frames are there at once from then on. One
  // thread; the MemoryPort outlives this.
  PacedPort(std::uint16_t ethdev, std::uint64_t frames, std::uint16_t world, double rate,
            const std::atomic<bool>& hurry);
  PacedPort(const PacedPort&) = delete;
  PacedPort& operator=(const PacedPort&) = delete;

  // From the arrival of a chunk's last contribution to the transmission of each of its results.
  [[nodiscard]] LatencyHistogram& latency() noexcept { return latency_; }
  // In which frames were arriving: between two turns of the ring nothing does.
  [[nodiscard]] TimeNs arriving() const noexcept { return arriving_; }

 private:
  std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) noexcept;
  std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) noexcept;

  static constexpr std::size_t kUnderWay = 8192;  // chunks, as Traffic's

  std::uint64_t ring_;
  std::uint16_t last_rank_;
  double ns_per_frame_;
  const std::atomic<bool>& hurry_;
  io::CoreClock clock_;
  TimeNs start_ = 0;         // of this turn of the ring
  std::uint64_t taken_ = 0;  // of it
  std::vector<TimeNs> complete_;
  TimeNs arriving_ = 0;
  LatencyHistogram latency_;
  BurstDetour detour_;  // last: frames come from then on
};

}  // namespace tally::bench
