#pragma once
// The link from the box to one server host, and the queue in front of it: strict by class, then fair per job,
// bounded.

#include <array>
#include <cstdint>
#include <deque>
#include <map>

#include "links.h"
#include "tally/discipline.h"
#include "tally/ids.h"

namespace tally::experiment {

class ServerLink final : public Actor {
 public:
  // bound: packets that wait at most; one that does not fit is dropped and counted.
  ServerLink(VirtualTime& time, Packets& packets, const Chance& chance, const LinkModel& model,
             std::uint32_t bound, Actor& host, std::uint32_t what)
      : time_(time),
        packets_(packets),
        model_(model),
        bound_(bound),
        link_(time, packets, chance, model, host, what) {}

  void push(PacketId id, JobId job, std::uint8_t priority) {
    ++offered_;
    bytes_ += packets_[id].wire_bytes();
    if (waiting_ == bound_) {
      ++dropped_;
      packets_.release(id);
      return;
    }
    classes_[class_of(priority)].push(id, job);
    longest_ = std::max<std::uint64_t>(longest_, ++waiting_);
    if (!busy_) leave();
  }

  void on_event(std::uint32_t /*what*/, std::uint32_t /*detail*/) override {
    busy_ = false;
    if (waiting_ != 0) leave();
  }

  [[nodiscard]] std::uint64_t packets_offered() const noexcept { return offered_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] std::uint64_t longest() const noexcept { return longest_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return link_.lost(); }

 private:
  // One packet of each job in turn.
  class Class {
   public:
    void push(PacketId id, JobId job) {
      auto& queue = queues_[job];
      if (queue.empty()) turns_.push_back(job);
      queue.push_back(id);
    }
    [[nodiscard]] bool empty() const noexcept { return turns_.empty(); }
    PacketId pop() {
      const JobId job = turns_.front();
      turns_.pop_front();
      auto& queue = queues_[job];
      const PacketId id = queue.front();
      queue.pop_front();
      if (!queue.empty()) turns_.push_back(job);
      return id;
    }

   private:
    std::map<JobId, std::deque<PacketId>> queues_;
    std::deque<JobId> turns_;
  };

  void leave() {
    auto first = classes_.rbegin();
    while (first->empty()) ++first;
    const PacketId id = first->pop();
    --waiting_;
    busy_ = true;
    time_.at(time_.now() + static_cast<TimeNs>(model_.ns_per_byte * packets_[id].wire_bytes()), *this, 0);
    link_.send(id);
  }

  VirtualTime& time_;
  Packets& packets_;
  LinkModel model_;
  std::uint32_t bound_;
  Link link_;
  std::array<Class, 4> classes_;
  std::uint32_t waiting_ = 0;
  bool busy_ = false;
  std::uint64_t offered_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t longest_ = 0;
};

}  // namespace tally::experiment
