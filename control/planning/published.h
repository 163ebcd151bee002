#pragma once
// The planner's tables as members and boxes of a job are told them (docs/protocol_boxes.md, 17.1).

#include <cstdint>
#include <span>

#include "planner/table.h"
#include "planner/topology.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/plan.h"

namespace tally::planning {

// Who of the topology is who of the job.
struct Places {
  std::span<const Ipv6> boxes{};            // addresses, by the number a box has in the topology
  std::span<const planner::Index> racks{};  // of each rank: the switch its host hangs on; 1..kMaxRanks
  std::uint8_t servers = 1;                 // 1..kMaxServers
};

// What a rack sends to the servers itself is passed on by the box at its switch, which it meets anyway; where there is
// none, by the first box of the plan. Of racks with equal routes one table is told. Fails if more boxes or tables are
// used than a plan can name, if nobody has a box, and for a rank whose rack the tables do not have.
[[nodiscard]] Result<Plan> published(const planner::Topology& topology, const planner::Tables& tables,
                                     const Places& places);

}  // namespace tally::planning
