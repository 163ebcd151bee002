#pragma once
// A link: packets one after the other at its rate, then the delay. In order.

#include <algorithm>
#include <cstdint>

#include "chance.h"
#include "packets.h"
#include "schedule.h"

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

}  // namespace tally::experiment
