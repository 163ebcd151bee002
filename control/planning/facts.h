#pragma once
// What a planner must know of a running job, wherever it sits: its home's membership has it, and nothing else has to be
// asked.

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace tally::planning
