#pragma once
// A cluster and its jobs, with every name found: what a topology is made of, and may be made of again with a box more
// or a link less. Rates are in Gbit/s; numbers are places in the vectors here, and the same in the topology.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/addresses.h"
#include "planner/job.h"
#include "planner/split.h"
#include "planner/topology.h"

namespace tally::cluster {

using planner::Index;

struct Cluster {
  struct Switch {
    std::string name{};
    bool rack = false;  // hosts hang on it
  };
  struct Host {
    std::string name{};
    Index at = 0;  // a switch
    double nic = 0;
  };
  struct Link {
    Index from = 0;  // switches
    Index to = 0;
    double rate = 0;
    double back = 0;
  };
  struct Box {
    std::string name{};
    Index at = 0;  // a switch
    double rate = 0;
    std::optional<std::uint64_t> slots{};  // bytes of slot memory; empty: as much as it takes
    std::optional<Ipv6> address{};
  };
  struct Server {
    std::string name{};
    Index host = 0;
    double ingress = 0;
    std::optional<Ipv6> address{};
  };
  // Where hosts of a rack have their addresses. No address is in two networks.
  struct Place {
    IpNetwork network{};
    Index rack = 0;  // a switch with hosts
  };
  struct Job {
    planner::Job plan{};
    std::uint64_t gradient = 0;  // bytes; 0: it is not said
  };

  std::vector<Switch> switches{};
  std::vector<Host> hosts{};
  std::vector<Link> links{};  // between two switches one at most
  std::vector<Box> boxes{};
  std::vector<Server> servers{};
  std::vector<Place> places{};  // by network
  std::vector<Job> jobs{};
  planner::Routing routing = planner::Routing::kEcmp;
  planner::Results results = planner::Results::kCounted;
  double slot_seconds = 0;  // how long a chunk holds its slot
};

[[nodiscard]] planner::Topology topology_of(const Cluster& cluster);

// What one can lose, by name: "box=rack3" or "link=rack3-spine1". Its rate is 0 then, both ways.
[[nodiscard]] Result<Cluster> without(Cluster cluster, const std::string& what);

// kNone: there is none of that name.
[[nodiscard]] Index switch_named(const Cluster& cluster, const std::string& name);

}  // namespace tally::cluster
