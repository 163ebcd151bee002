#pragma once
// Why a plan is as it is, for people and programs that ask: rate, what binds, how full everything is, what others do.

#include <string>
#include <vector>

#include "planner/baselines.h"

namespace tally::planner {

struct ResourceLoad {
  Resource resource = 0;
  std::string name;
  double load = 0;  // Gbit/s of this job
  double room = 0;  // Gbit/s that it could have there

  [[nodiscard]] double share() const noexcept { return room > 0 ? load / room : 0; }
};

struct Explanation {
  std::string job;
  std::string form;                   // "any box", "product form" ...
  double rate = 0;                    // Gbit/s of every worker
  double promised = 0;                // Gbit/s before the split was rounded to chunk groups
  std::string binding;                // what is full: "server ps1"; "the job's demand"
  std::vector<ResourceLoad> loads{};  // of what the job uses, the fullest first
  Baselines baselines{};
  std::string advice{};  // "a ring would be faster: 12.9 against 12.5 Gbit/s"; empty if it would not
};

[[nodiscard]] Explanation explain(const Topology& topology, const Plan& plan, const Rates& capacity,
                                  const Baselines& baselines);

}  // namespace tally::planner
