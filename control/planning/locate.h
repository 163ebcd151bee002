#pragma once
// Addresses become hosts, servers and boxes of a cluster.

#include <span>
#include <vector>

#include "cluster/cluster.h"
#include "planning/facts.h"
#include "tally/error.h"

namespace tally::planning {

// For each job what the planner takes: its workers' hosts, by rank, its servers by index, its usable boxes in the order
// of `boxes`. An address is one host for all jobs. Which of a rack's hosts it is nobody says, and it does not matter:
// they are alike. Fails for a job of which somebody is nowhere in the cluster, naming whom.
[[nodiscard]] std::vector<Result<planner::Job>> located(const cluster::Cluster& cluster,
                                                        std::span<const JobFacts> jobs);

}  // namespace tally::planning
