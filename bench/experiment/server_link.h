#pragma once
// The link from the box to one server host, and the product's queue in front of it (server_queue.h).

#include <algorithm>
#include <array>
#include <cstdint>

#include "links.h"
#include "server/server_queue.h"
#include "tally/ids.h"

namespace tally::experiment {

class ServerLink final : public sim::Actor {
 public:
  // bound: packets that wait at most; one that finds no place, or gives its own up, is dropped and counted.
  ServerLink(sim::Schedule& time, Packets& packets, const Chance& chance, const LinkModel& model,
             std::uint32_t bound, sim::Actor& host, std::uint32_t what)
      : time_(time),
        packets_(packets),
        model_(model),
        link_(time, packets, chance, model, host, what),
        queue_({.capacity = bound}) {}

  void push(PacketId id, JobId job, std::uint8_t priority) {
    ++offered_;
    bytes_ += packets_[id].wire_bytes();
    if (const auto away = queue_.push(id, job, priority, packets_[id].wire_bytes())) {
      ++dropped_;
      packets_.release(*away);
    }
    longest_ = std::max<std::uint64_t>(longest_, queue_.size());
    if (!busy_) leave();
  }

  void on_event(std::uint32_t /*what*/, std::uint32_t /*detail*/) override {
    busy_ = false;
    if (!queue_.empty()) leave();
  }

  [[nodiscard]] std::uint64_t packets_offered() const noexcept { return offered_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] std::uint64_t longest() const noexcept { return longest_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return link_.lost(); }

 private:
  void leave() {
    std::array<PacketId, 1> first{};
    if (queue_.next(first) == 0) return;
    queue_.sent(1);
    busy_ = true;
    const PacketId id = first[0];
    time_.at(time_.now() + static_cast<TimeNs>(model_.ns_per_byte * packets_[id].wire_bytes()), *this, 0);
    link_.send(id);
  }

  sim::Schedule& time_;
  Packets& packets_;
  LinkModel model_;
  Link link_;
  server::ServerQueue<PacketId> queue_;
  bool busy_ = false;
  std::uint64_t offered_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t longest_ = 0;
};

}  // namespace tally::experiment
