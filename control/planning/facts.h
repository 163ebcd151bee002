#pragma once
// What a planner must know of a running job, wherever it sits: its home's membership has it, and nothing else has to be
// asked.

#include <cstdint>
#include <string>
#include <vector>

#include "members/plan_source.h"
#include "tally/net.h"

namespace tally::planning {

// Addresses with IPv4 as ::ffff:a.b.c.d.
struct JobFacts {
  std::string job{};
  std::vector<Ipv6> ranks{};    // by rank, as their JOINs came
  std::vector<Ipv6> servers{};  // by index
  std::vector<Ipv6> boxes{};    // the job's
  std::uint64_t usable = 0;     // a bit for each of them that a plan may have; at least one

  bool operator==(const JobFacts&) const = default;
};

// The same as membership asks for a plan; it points to the facts.
[[nodiscard]] inline members::PlanRequest request_of(const JobFacts& facts) {
  return {.job = facts.job,
          .world = static_cast<std::uint16_t>(facts.ranks.size()),
          .servers = static_cast<std::uint8_t>(facts.servers.size()),
          .addresses = facts.boxes,
          .usable = facts.usable,
          .rank_addresses = facts.ranks,
          .server_addresses = facts.servers};
}

}  // namespace tally::planning
