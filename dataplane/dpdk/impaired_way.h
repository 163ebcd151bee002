#pragma once
// Faults on purpose for the frames of one port, queue or core, and direction. Made only where they are on.
// Owner: the core. What it writes is a private copy wherever somebody else sees the buffer.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dpdk/mbuf.h"
#include "impair/delay_line.h"
#include "impair/faults.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::dpdk {

class ImpairedWay {
 public:
  // copies: of it are duplicates, and corrupted frames that were shared. mbufs, counters, core_lost: outlive
  // it; core_lost counts what `counters.lost` does.
  ImpairedWay(const impair::ImpairStream& stream, rte_mempool* copies, MbufCounters& mbufs,
              impair::ImpairCounters& counters, OneWriter<std::uint64_t>& core_lost);
  ImpairedWay(const ImpairedWay&) = delete;
  ImpairedWay& operator=(const ImpairedWay&) = delete;
  ~ImpairedWay() { clear(); }

  // First: loss, duplication and corruption. Before: the caller owns `m`. After: it owns the frames returned,
  // of `room`: none, m or what took its place, and a copy. Without an mbuf for a copy, which is counted,
  // there is no duplicate, and the frame that was to be corrupted is lost.
  [[nodiscard]] std::span<rte_mbuf*> alter(rte_mbuf* m, std::span<rte_mbuf*, 2> room) noexcept;

  // Then the delay and the order, if timed(): else frames may go on at once. hold() before: the caller owns
  // `m`. After: the way; the mempool, if it is full. leave() gives those whose time has come to the caller,
  // in order, as many as `room` takes.
  [[nodiscard]] bool timed() const noexcept { return timed_; }
  void hold(rte_mbuf* m, TimeNs now) noexcept;
  [[nodiscard]] std::span<rte_mbuf*> leave(TimeNs now, std::span<rte_mbuf*> room) noexcept;

  [[nodiscard]] std::size_t waiting() const noexcept { return line_.size(); }
  [[nodiscard]] bool has_room() const noexcept { return line_.has_room(); }
  [[nodiscard]] TimeNs next_due() const noexcept { return line_.next_due(); }
  // Drops what waits: the core stops.
  void clear() noexcept;
  // The same, counted as lost on purpose: other faults take the place of these.
  void lose() noexcept;

 private:
  [[nodiscard]] rte_mbuf* maybe_corrupted(rte_mbuf* m) noexcept;

  bool timed_;
  impair::Faults faults_;
  impair::DelayLine<rte_mbuf*> line_;
  rte_mempool* copies_;
  MbufCounters& mbufs_;
  impair::ImpairCounters& counters_;
  OneWriter<std::uint64_t>& core_lost_;
};

// One with these arguments; null: the stream has no faults.
[[nodiscard]] inline std::unique_ptr<ImpairedWay> impaired_way(const impair::ImpairStream& stream,
                                                               rte_mempool* copies, MbufCounters& mbufs,
                                                               impair::ImpairCounters& counters,
                                                               OneWriter<std::uint64_t>& core_lost) {
  if (!stream.options.on()) return nullptr;
  return std::make_unique<ImpairedWay>(stream, copies, mbufs, counters, core_lost);
}

// What takes the place of the ways of one core that belong to a port, and then what they were.
struct PortWays {
  PortIndex port{};
  std::vector<std::unique_ptr<ImpairedWay>> in;  // of each of its queues that the core reads, in order
  std::unique_ptr<ImpairedWay> out;
};

}  // namespace tally::dpdk
