#pragma once
// What is published: which chunk group of the gradient every rack sends where, and what that puts on each resource.
// A rate that stands in a plan is reckoned from its tables alone, never from the linear program behind them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/job.h"
#include "planner/split.h"

namespace tally::planner {

// An entry names a box in a byte, and one value of it is taken.
inline constexpr std::size_t kBoxesOfJob = 255;
inline constexpr std::size_t kServersOfJob = 256;

struct Entry {
  static constexpr std::uint8_t kNoBox = 255;

  std::uint8_t box = kNoBox;  // of Tables::boxes; kNoBox: each worker sends to the server itself
  std::uint8_t server = 0;    // of Job::servers; 0 if the job has none

  friend bool operator==(const Entry&, const Entry&) = default;
};

// Workers of one rack share a table: they reach the same box for a group. All racks have the same server for a group,
// since there the partial sums of boxes meet. Of a job without servers all racks have the same box too.
struct Tables {
  std::vector<Index> boxes{};  // of the topology, in the order in which entries name them
  std::vector<Index> racks{};  // switches, as in Party::racks
  std::vector<std::array<Entry, kGroups>> of_rack{};

  friend bool operator==(const Tables&, const Tables&) = default;
};

// What one unit of traffic between two places puts on each resource on its way, its end included.
class LoadModel {
 public:
  struct Load {
    Resource resource = 0;
    double amount = 0;
  };
  using Loads = std::vector<Load>;  // each resource once

  // All of them outlive it.
  LoadModel(const Network& network, const Party& party, const Spread& spread);

  // One stream of a worker of Party::racks[rack] to a box, and what arrives at Party::servers[server] from a switch.
  // If nothing leads there, more than anybody can take.
  const Loads& to_box(std::size_t rack, Index box);
  const Loads& to_server(Index from, std::size_t server);
  // The same for those who want them once: put(resource, amount), and nothing is kept.
  template <class Put>
  void each_to_box(std::size_t rack, Index box, const Put& put);
  template <class Put>
  void each_to_server(Index from, std::size_t server, const Put& put);
  // What every worker puts on its own host's link, wherever it sends.
  [[nodiscard]] Loads from_hosts() const;

 private:
  template <class Put>
  void along(Index from, Index to, const std::vector<double>* shares, Resource end, const Put& put_resource);

  const Network& network_;
  const Party& party_;
  const Spread& spread_;
  std::vector<Loads> to_box_;     // of rack and box; empty: not asked for yet
  std::vector<Loads> to_server_;  // of switch and server
  std::vector<double> sums_;      // of links; all 0 between calls
};

// Of each resource, when every worker sends at 1 Gbit/s.
[[nodiscard]] Rates unit_loads(LoadModel& model, const Topology& topology, const Party& party,
                               const Tables& tables);

struct Rated {
  double rate = 0;           // Gbit/s of every worker
  Resource binding = kNone;  // what is full then; kNone: the job wants no more
};
// How fast workers can send until the first resource is full.
[[nodiscard]] Rated rate_of(const Topology& topology, const Party& party, const Rates& capacity,
                            const Rates& unit);

}  // namespace tally::planner
