#pragma once
// Clusters of two racks and of many, and jobs in them.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cluster/cluster_file.h"
#include "planning/facts.h"

namespace tally::planning {

inline Ipv6 at(std::uint8_t rack, std::uint8_t host) { return mapped({10, 0, rack, host}); }

inline std::shared_ptr<const cluster::Cluster> cluster_of(const std::string& text) {
  auto loaded = cluster::load_cluster_text(text, "c.yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::make_shared<const cluster::Cluster>(std::move(loaded->cluster)) : nullptr;
}

inline std::shared_ptr<const cluster::Cluster> two_racks(const std::string& uplink = "10G") {
  return cluster_of("leaf_spine: {racks: 2, spines: 1, hosts: 3, nic: 10G, uplink: " + uplink +
                    "}\n"
                    "places: [{rack: \"rack[1-2]\", addresses: \"10.0.[1-2].0/24\"}]\n"
                    "boxes: [{at: racks, rate: 20G, address: \"10.0.[1-2].1\"}]\n"
                    "servers: [{name: \"ps[1-2]\", rack: \"rack[1-2]\", nic: 10G}]\n");
}

// Two in each rack, and both servers.
inline JobFacts four_workers(const std::string& name) {
  return {.job = name,
          .ranks = {at(1, 11), at(1, 12), at(2, 11), at(2, 12)},
          .servers = {at(1, 9), at(2, 9)},
          .boxes = {at(1, 1), at(2, 1)},
          .usable = 3};
}

// 64 racks with a box each under 8 spines, and 16 servers.
inline std::shared_ptr<const cluster::Cluster> many_racks() {
  return cluster_of(
      "leaf_spine: {racks: 64, spines: 8, hosts: 8, nic: 25G, uplink: 50G}\n"
      "places: [{rack: \"rack[1-64]\", addresses: \"10.0.[1-64].0/24\"}]\n"
      "boxes: [{at: racks, rate: 100G, address: \"10.0.[1-64].1\"}]\n"
      "servers: [{name: \"ps[1-16]\", rack: \"rack[1-16]\", nic: 100G}]\n");
}

// Each with a worker in every one of those racks, over all boxes and servers.
inline std::vector<JobFacts> eight_wide_jobs() {
  std::vector<JobFacts> jobs;
  for (std::uint8_t j = 0; j < 8; ++j) {
    JobFacts facts{.job = "job" + std::to_string(j), .usable = ~std::uint64_t{0}};
    for (std::uint8_t rack = 1; rack <= 64; ++rack) {
      facts.ranks.push_back(at(rack, static_cast<std::uint8_t>(10 + j)));
      facts.boxes.push_back(at(rack, 1));
    }
    for (std::uint8_t server = 1; server <= 16; ++server) facts.servers.push_back(at(server, 9));
    jobs.push_back(std::move(facts));
  }
  return jobs;
}

}  // namespace tally::planning
