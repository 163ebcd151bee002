#pragma once
// The network of a planner's topology in virtual time: every directed link, every box and every server is a queue that
// takes packets one after the other at its rate. A packet is handed on when all of it has come (store and forward), and
// waits in line with those of everybody else. Nothing is dropped.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "frames.h"
#include "planner/split.h"
#include "schedule.h"
#include "tally/time.h"

namespace tally::routes {

using planner::Index;
using planner::kNone;

// Something that sends and receives: a worker, a box or a server.
struct End {
  enum class Kind : std::uint8_t { kWorker, kBox, kServer };
  Kind kind{};
  std::size_t number = 0;  // the caller's
  Index at = kNone;        // its switch
  Index up = kNone;        // links of its host; a box has none
  Index down = kNone;
  Index index = kNone;  // of a box or a server, in the topology
};

// How packets between two ends are put on their ways.
enum class Spreading : std::uint8_t {
  kInOrder,     // in turn, each way its part; put in order again before they are handed over
  kAsTheyCome,  // in turn, and whoever is faster is first
  kByFlow,      // all of them on one way, drawn by their ends: what ECMP does in most networks
};

class Fabric final : public sim::Actor {
 public:
  // Takes what has arrived.
  using Arrive = std::function<void(const End& to, const Bytes& frame)>;

  struct Options {
    TimeNs hop = 500;  // from the end of a packet on a link to where it waits next
    // As the plan has it: results that are ignored meet no queue, and take the time of an empty network.
    planner::Results results = planner::Results::kIgnored;
    Spreading spreading = Spreading::kInOrder;
  };

  // All of them outlive it. spread: of the plan; where it says nothing, equal parts, as ECMP would have them.
  Fabric(sim::Schedule& time, const planner::Topology& topology, planner::Ways& ways,
         const planner::Spread& spread, const Options& options);
  void connect(Arrive arrive) { arrive_ = std::move(arrive); }

  // Both ends outlive the packet. sums: what a box has to add; what it only hands on waits in line, for a box sees packets
  // in order, and takes nothing of its rate.
  // Returns when the first link has taken it: the sender's card.
  TimeNs send(const End& from, const End& to, Bytes frame, bool sums);

  void on_event(std::uint32_t what, std::uint32_t packet) override;

  // Bits that each resource has carried, and how long a packet has waited there at most, ns.
  struct Use {
    double bits = 0;
    double waited = 0;
  };
  [[nodiscard]] const std::vector<Use>& uses() const noexcept { return uses_; }
  // Counts from now on.
  void forget() { uses_.assign(uses_.size(), {}); }

 private:
  struct Packet {
    Bytes frame;
    std::vector<planner::Resource> way;
    std::size_t next = 0;  // of the way
    bool sums = false;
    const End* from = nullptr;
    std::uint64_t sequence = 0;  // of both ends
    double bits = 0;
    const End* to = nullptr;
  };
  // What is left to each way between two ends until all have had their part.
  struct Turns {
    std::vector<double> shares;
    std::vector<double> credits;
  };

  struct Order {
    std::uint64_t sent = 0;
    std::uint64_t arrived = 0;
    std::map<std::uint64_t, Bytes> early;
  };

  void put_in_order(const End& from, const End& to, std::uint64_t sequence, Bytes frame);
  [[nodiscard]] const planner::Way& way_between(const End& from, const End& to, bool back);
  void go_on(std::uint32_t packet);
  [[nodiscard]] std::uint32_t take();

  sim::Schedule& time_;
  const planner::Topology& topology_;
  planner::Ways& ways_;
  const planner::Spread& spread_;
  Options options_;
  Arrive arrive_;
  std::vector<double> rates_;  // bits a ns, which are Gbit/s
  std::vector<double> free_;   // ns
  std::vector<Use> uses_;
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> unused_;
  std::map<std::pair<std::uint64_t, bool>, Turns> turns_;
  std::map<std::pair<const End*, const End*>, Order> orders_;
};

// What a frame of the simulation takes on a wire, in bits: those that carry values stand for full ones.
[[nodiscard]] double wire_bits(const Bytes& frame);

}  // namespace tally::routes
