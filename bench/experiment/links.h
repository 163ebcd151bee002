#pragma once
// Links of the rack: packets one after the other at the rate, then the delay. In order.

#include <algorithm>
#include <array>
#include <cstdint>

#include "chance.h"
#include "packets.h"
#include "schedule.h"
#include "server/server_queue.h"
#include "tally/ids.h"

namespace tally::experiment {

struct LinkModel {
  double ns_per_byte = 0.8;
  TimeNs delay = 0;
  TimeNs jitter = 0;  // uniform, on top of the delay; order is kept
  double stall = 0;   // probability per packet that the sender stalls before it
  TimeNs stall_time = 0;
  double loss = 0;
  std::uint64_t name = 0;  // of the link, for its chances
};

class Link {
 public:
  Link(sim::Schedule& time, Packets& packets, const Chance& chance, const LinkModel& model, sim::Actor& to,
       std::uint32_t what)
      : time_(time), packets_(packets), chance_(chance), model_(model), to_(to), what_(what) {}

  // Takes the caller's use of the packet.
  void send(PacketId id) {
    const std::uint64_t k = sent_++;
    double start = std::max(static_cast<double>(time_.now()), free_);
    if (model_.stall > 0 && chance_.unit(Purpose::kStall, model_.name, k) < model_.stall)
      start += 2 * static_cast<double>(model_.stall_time) * chance_.unit(Purpose::kStallTime, model_.name, k);
    free_ = start + model_.ns_per_byte * packets_[id].wire_bytes();
    if (model_.loss > 0 && chance_.unit(Purpose::kLoss, model_.name, k) < model_.loss) {
      ++lost_;
      packets_.release(id);
      return;
    }
    TimeNs arrival = static_cast<TimeNs>(free_) + model_.delay;
    if (model_.jitter != 0)
      arrival += static_cast<TimeNs>(static_cast<double>(model_.jitter) *
                                     chance_.unit(Purpose::kJitter, model_.name, k));
    last_ = std::max(arrival, last_ + 1);
    time_.at(last_, to_, what_, id);
  }

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  sim::Schedule& time_;
  Packets& packets_;
  const Chance& chance_;
  LinkModel model_;
  sim::Actor& to_;
  std::uint32_t what_;
  double free_ = 0;
  TimeNs last_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t lost_ = 0;
};

// The link from the box to one server host, and the product's queue in front of it (server_queue.h).
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

  [[nodiscard]] std::uint64_t waiting() const noexcept { return queue_.size(); }
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
