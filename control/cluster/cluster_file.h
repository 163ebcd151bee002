#pragma once
// The file of a cluster as plain data, and reading it: by the readers of tallyd's own, so every mistake has its line,
// column and what to do. The initialisers are the defaults. No rate has one: a plan for a guess would be a guess.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cluster/addresses.h"
#include "cluster/cluster.h"
#include "cluster/names.h"
#include "config/diagnostic.h"
#include "tally/time.h"

namespace tally::cluster {

struct LeafSpineSection {
  std::uint32_t racks = 0;
  std::uint32_t spines = 0;
  std::uint32_t hosts = 0;  // in each rack
  double nic = 0;
  double uplink = 0;
};

struct FatTreeSection {
  std::uint32_t k = 0;
  double link = 0;
  double nic = 0;
};

// Racks that are alike.
struct RackSection {
  // So many in each rack, or their names, shared out in equal parts.
  struct Hosts {
    std::size_t each = 0;
    Names names{};
    bool operator==(const Hosts&) const = default;
  };
  Names name{};
  Hosts hosts{};
  double nic = 0;
  std::optional<double> uplink{};      // of each rack to each of `to`; empty: `links` say how it is connected
  std::optional<Names> to{};           // empty: to every switch of `switches`
  std::vector<IpNetwork> addresses{};  // one for each rack, or none
};

// Where the hosts of racks have their addresses: one network for each.
struct PlaceSection {
  Names rack{};
  std::vector<IpNetwork> addresses{};
};

// From each of `from` to each of `to`.
struct LinkSection {
  Names from{};
  Names to{};
  double rate = 0;
  std::optional<double> back{};  // empty: as rate
};

struct BoxSection {
  Names name{};  // none: each as the switch that it is at
  Names at{};
  double rate = 0;
  std::optional<std::uint64_t> slots{};
  std::vector<Ipv6> address{};  // one for each, or none
};

struct ServerSection {
  Names name{};
  Names host{};  // either those that are there ...
  Names rack{};  // ... or a new one for each server, in these racks by turns
  std::optional<double> nic{};
  std::optional<double> ingress{};
  std::vector<Ipv6> address{};  // one for each, or none
};

struct JobSection {
  std::string name{};
  std::optional<std::vector<Counted>> workers{};  // empty: on every host that has no server
  std::optional<Names> servers{};                 // empty: all
  std::optional<double> demand{};
  std::optional<std::uint64_t> gradient{};
};

struct ClusterFile {
  LeafSpineSection leaf_spine{};
  FatTreeSection fat_tree{};
  Names switches{};
  std::vector<RackSection> racks{};
  std::vector<PlaceSection> places{};
  std::vector<LinkSection> links{};
  std::vector<BoxSection> boxes{};
  std::vector<ServerSection> servers{};
  std::vector<JobSection> jobs{};
  planner::Routing routing = planner::Routing::kEcmp;
  planner::Results results = planner::Results::kCounted;
  TimeNs slot_time = 100 * kMicrosecond;
};

struct LoadedCluster {
  Cluster cluster{};
  config::Diagnostics warnings{};
};

// On failure: at least one error, and the warnings too.
[[nodiscard]] tl::expected<LoadedCluster, config::Diagnostics> load_cluster(const std::string& path);
[[nodiscard]] tl::expected<LoadedCluster, config::Diagnostics> load_cluster_text(std::string text,
                                                                                 const std::string& name);

// All keys with type, default and meaning, as tables in Markdown.
[[nodiscard]] std::string cluster_reference();

// Of the file's sections, for who reads it and who resolves its names: cluster_schema.cc, resolve.cc.

struct Resolving {
  const ClusterFile& file;
  const config::Places& places;
  config::Report& report;
};
// Finds all names. What it returns is complete if the report has no errors.
[[nodiscard]] Cluster resolved(const Resolving& resolving);

}  // namespace tally::cluster
