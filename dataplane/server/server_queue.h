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

#include "tally/discipline.h"
#include "tally/ids.h"
#include "tally/wire.h"

namespace tally::server {

// In which order packets leave for external servers, and who gives way when there are too many: strict by
// class, within a class fair among jobs by bytes, and bounded. It knows places, not packets: ServerQueue
// keeps those. Pure; all memory is there from the start, and what costs time is packets, not jobs that exist.
// Owner: one thread.

struct ServerQueueOptions {
  std::uint32_t capacity = 512;  // packets, 1..65,534
  // Bytes by which a job may go ahead of the others of its class; at least those of the largest packet, or
  // its turn comes without anything being sent.
  std::uint32_t quantum = kMaxDatagramBytes + 66;
};

using QueuePlace = std::uint16_t;  // 0..capacity-1
inline constexpr QueuePlace kNoPlace = 0xFFFF;

class QueueOrder {
 public:
  explicit QueueOrder(const ServerQueueOptions& options);

  // Where the new packet is, or kNoPlace: there are packets enough that are no worse. displaced: another
  // packet had this place, and has left the queue.
  struct Admission {
    QueuePlace place = kNoPlace;
    bool displaced = false;
  };
  // job: 1..kMaxJobs. A full queue refuses the newcomer, but for two cases: the lowest class that waits is
  // lower than its own; or it is the same, and some job has at least two packets more than its own there.
  // Then the newest packet of the job with the most packets in that class gives way.
  Admission admit(JobId job, std::uint8_t priority, std::uint32_t bytes) noexcept;

  // The packets that leave next, in this order: as many as `out` takes and the queue has. They stay. Once
  // named, a packet goes before the others of its class.
  std::size_t next(std::span<QueuePlace> out) noexcept;
  // The first n of those that the last next() named are gone; nothing was admitted since.
  void leave(std::size_t n) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  using Index = std::uint16_t;  // of a packet or of a flow
  static constexpr Index kNone = 0xFFFF;
  static constexpr std::size_t kClasses = 4;
  struct Links {
    Index before = kNone;
    Index after = kNone;
  };
  struct Chain {
    Index first = kNone;
    Index last = kNone;
  };
  struct Packet : Links {
    Index flow = kNone;  // kNone: named by next()
    std::uint8_t level = 0;
    std::uint32_t bytes = 0;
  };
  // Packets of one job and class that wait; exists while there are some.
  struct Flow : Links {
    std::uint16_t row = 0;  // in flows_of_
    std::uint16_t packets = 0;
    std::uint32_t credit = 0;  // bytes that it may send before the next flow's turn
    Chain waiting;
  };
  struct Class {
    Chain named;  // by next(), in order
    Chain flows;  // whose turn it is, then the others in order
    std::uint32_t packets = 0;
  };

  template <class T>
  static void append(std::vector<T>& all, Chain& chain, Index at) noexcept;
  template <class T>
  static void unlink(std::vector<T>& all, Chain& chain, Index at) noexcept;
  [[nodiscard]] static std::size_t row_of(JobId job, std::uint8_t level) noexcept {
    return level * (kMaxJobs + std::size_t{1}) + raw(job);
  }
  Index open_flow(std::size_t row, std::uint8_t level) noexcept;
  void take_from_flow(Index packet) noexcept;
  bool name_one(Class& of) noexcept;
  void free(Index packet) noexcept;
  [[nodiscard]] Index longest(const Class& of) const noexcept;
  bool make_room(std::size_t row, std::uint8_t level) noexcept;

  std::uint32_t quantum_;
  std::size_t size_ = 0;
  std::array<Class, kClasses> classes_{};
  std::vector<Packet> packets_;
  std::vector<Flow> flows_;      // as many as packets
  std::vector<Index> flows_of_;  // by class and job
  Chain free_packets_;           // last in, first out
  Chain free_flows_;
};

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

}  // namespace tally::server
