#pragma once
// The job a plan is made for, and what the planner needs to know of it at hand.

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/topology.h"
#include "tally/error.h"

namespace tally::planner {

struct Job {
  std::string name;
  std::vector<Index> workers;    // hosts; one that stands twice has two workers
  std::vector<Index> servers{};  // none: the boxes finish the sums, as today's tallyd does by itself
  // Of the servers, frozen for the job's life, in whole chunk groups; empty: by what they can merge.
  std::vector<double> shares{};
  double demand = std::numeric_limits<double>::infinity();  // more than this a worker never sends, Gbit/s
  struct Use {
    Index box = kNone;
    double most = std::numeric_limits<double>::infinity();  // Gbit/s of the job that it takes in
  };
  std::vector<Use> boxes{};  // that it may use; empty: all there are
  // What no box merges reaches the servers through a box all the same, as tallyd's does: it would load that box no
  // less than what is merged, so everything is merged.
  bool through_boxes = false;
};

// A chunk is of group `chunk mod kGroups`.
inline constexpr std::size_t kGroups = 1024;
inline constexpr double kOneGroup = 1.0 / kGroups;  // of the gradient
// Whole numbers that add up to `total`, in proportion to the amounts: each rounded down, and one more for those that
// lost most by it (of equals the first). Amounts are not negative and not all 0.
[[nodiscard]] std::vector<std::size_t> largest_remainder(std::span<const double> amounts, std::size_t total);

// A job on a topology of which others leave `capacity`.
struct Party {
  struct Rack {
    Index at = kNone;  // a switch
    double workers = 0;
    Index box = kNone;  // its own
  };
  struct Server {
    Index number = kNone;
    Index at = kNone;  // the switch its host hangs on
    double share = 0;  // a multiple of kOneGroup
  };
  std::vector<Rack> racks{};
  std::vector<Server> servers{};
  std::vector<std::pair<Index, double>> hosts{};  // each once, and how many workers it has
  double workers = 0;
  double demand = 0;   // Gbit/s, the job's
  double slowest = 0;  // Gbit/s: what the demand and the narrowest host link let every worker send
  // How many Gbit/s of the job each box can take at most, for want of slots or because it is not the job's; empty: no
  // such limit.
  std::vector<double> box_limits{};
  bool through_boxes = false;  // with servers
};

// Fails for a job without workers, with numbers that do not exist or with shares that do not fit its servers.
[[nodiscard]] Result<Party> party_of(const Topology& topology, const Job& job, const Rates& capacity);

// What the servers can merge, by their own rate and their host's link.
[[nodiscard]] double ingress_of(const Topology& topology, const Rates& capacity, Index server);
// What a box has for this job.
[[nodiscard]] double box_rate(const Topology& topology, const Party& party, const Rates& capacity, Index box);

}  // namespace tally::planner
