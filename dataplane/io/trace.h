#pragma once
// A sample of the frames of one data core: what came and what became of it, and what left. Control makes a tap
// and lends it to the core, which copies the beginning of each frame that the filter lets by into the tap's
// ring; what finds it full is counted. Without a tap a core reads one word for each burst.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "dpdk/mbuf.h"
#include "io/node_memory.h"
#include "pipeline/burst.h"
#include "pipeline/pipeline.h"
#include "tally/counters.h"
#include "tally/ids.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::io {

enum class TraceWay : std::uint8_t { kIn, kOut, kBoth };

// What is taken. What is empty lets everything by.
struct TraceFilter {
  TraceWay way = TraceWay::kBoth;
  std::optional<JobId> job{};       // of frames in: that they matched; of frames out: that their header names
  std::optional<PortIndex> port{};  // that it came from, or leaves by
  std::optional<Drop> drop{};       // frames in that were dropped for this
  bool any_drop = false;            // frames in that were dropped for whatever reason
  std::uint32_t every = 1;          // of those that fit, one of so many; at least 1
};

// As much of a frame as the dissector needs.
inline constexpr std::size_t kTraceBytes = 256;

struct TracedFrame {
  TimeNs time = 0;           // of the turn of the core
  std::uint32_t length = 0;  // of the frame, from the Ethernet header on
  std::uint16_t captured = 0;
  std::uint16_t port = 0;
  std::uint16_t job = 0;  // 0: none
  std::uint8_t core = 0;
  std::uint8_t owner = 0;                      // kHandOver: to that core
  bool out = false;                            // else it came in, and the next two say what became of it
  Verdict verdict{};                           // kForward: the switch has it, whose counters say more
  Drop drop{};                                 // kDrop
  std::array<std::byte, kTraceBytes> bytes{};  // the first `captured`, as they were on the way in or out
};
static_assert(sizeof(TracedFrame) % 4 == 0, "goes through a ring");

// One core's. Made and freed by control; in between the core writes, and control reads what is in the ring.
class TraceTap {
 public:
  static constexpr std::uint32_t kFrames = 1024;  // size of the ring

  // Lends the core's NUMA node; nullptr: no memory is left in dataplane.memory.
  [[nodiscard]] static std::unique_ptr<TraceTap> make(const TraceFilter& filter, std::uint8_t core,
                                                      int socket);

  // The core's. keep(): the beginnings of the frames of a burst, before the pipeline rewrites them; tell(): what
  // became of one of them, by its number.
  void keep(std::span<rte_mbuf* const> burst) noexcept;
  void tell(std::size_t frame, const pipeline::Parsed& parsed, const pipeline::Outcome& out,
            TimeNs now) noexcept;
  void sent(PortIndex port, std::span<rte_mbuf* const> frames, TimeNs now) noexcept;

  // Control's: the oldest that is there.
  [[nodiscard]] bool next(TracedFrame& out) noexcept;
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  TraceTap(const TraceFilter& filter, std::uint8_t core, ThreadRing ring)
      : filter_(filter), core_(core), ring_(std::move(ring)) {}
  // Is it the one of so many?
  [[nodiscard]] bool is_next() noexcept { return ++passed_ % filter_.every == 0; }
  void put(const TracedFrame& frame) noexcept;

  TraceFilter filter_;
  std::uint8_t core_;
  ThreadRing ring_;
  std::uint64_t passed_ = 0;
  OneWriter<std::uint64_t> lost_ = 0;
  std::array<TracedFrame, pipeline::kBurst> kept_{};
};

// The job that a native header names behind Ethernet, IP and UDP of the box's port; 0: it is another frame.
// bytes: the beginning of a frame that leaves.
[[nodiscard]] std::uint16_t job_of_sent(std::span<const std::byte> bytes) noexcept;

}  // namespace tally::io
