#pragma once
// Packets that wait for their way to external servers (scheduling.md): strict by class, then fair per job,
// bounded. In the product one for each port of a data core that has servers behind it; the simulator puts the
// same one in front of a modelled link. Owner: one thread.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "queue_order.h"

namespace tally {

// Handle: what stands for a packet, a pointer or a number. The queue never looks into it.
template <class Handle>
class ServerQueue {
 public:
  static_assert(std::is_trivially_copyable_v<Handle>);
  explicit ServerQueue(const ServerQueueOptions& options = {})
      : order_(options), packets_(options.capacity) {}

  // Before: the caller has `packet` (of `job`, 1..kMaxJobs; priority as scheduled; bytes as sent). After: the
  // queue has it. What is returned the caller has, to count and to free it: the packet that gave way, or
  // `packet` itself (QueueOrder::admit).
  [[nodiscard]] std::optional<Handle> push(Handle packet, JobId job, std::uint8_t priority,
                                           std::uint32_t bytes) noexcept {
    const QueueOrder::Admission admission = order_.admit(job, priority, bytes);
    if (admission.place == kNoPlace) return packet;
    const Handle before = std::exchange(packets_[admission.place], packet);
    return admission.displaced ? std::optional(before) : std::nullopt;
  }

  // The packets that leave next, in this order, at the start of `out`; returns how many: at most kMostAtOnce.
  // The queue still has them.
  std::size_t next(std::span<Handle> out) noexcept {
    std::array<QueuePlace, kMostAtOnce> places;
    const std::size_t n = order_.next(std::span(places).first(std::min(out.size(), kMostAtOnce)));
    for (std::size_t i = 0; i < n; ++i) out[i] = packets_[places[i]];
    return n;
  }
  // The caller took the first n of those that the last next() named; nothing was pushed since.
  void sent(std::size_t n) noexcept { order_.leave(n); }

  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  [[nodiscard]] bool empty() const noexcept { return order_.size() == 0; }

  static constexpr std::size_t kMostAtOnce = 32;

 private:
  QueueOrder order_;
  std::vector<Handle> packets_;  // by place
};

}  // namespace tally
