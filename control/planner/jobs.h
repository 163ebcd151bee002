#pragma once
// Plans where a job is not alone: with boxes that are asked for slots first, and with other jobs on the network.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/plan.h"

namespace tally::planner {

// Slot memory of boxes. A box is asked for as many slots as the job's load needs there, and answers with how many of
// them it keeps for the job; the last answer of a box counts.
struct Admission {
  std::function<std::uint64_t(Index box, std::uint64_t wanted)> ask;
  double slot_bytes = 0;  // of values in a slot
  double seconds = 0;     // how long a slot is taken: the round trip and how far workers are apart
};
// After the first solution so many more; the last of them keeps to what boxes have promised by then.
inline constexpr int kSolvedAgain = 3;

// make_plan() with boxes' limits by what they answer. The plan's rate is one that all given slots carry. Fails also if
// boxes give too little for any rate at all.
[[nodiscard]] Result<Plan> make_admitted_plan(const Network& network, const Job& job, const Rates& capacity,
                                              const Admission& admission, const Options& options = {});

// Plans of jobs, in the order in which they were given. First each has of every resource its share by workers among
// the jobs that may use it. Then, one after the other, that with most workers first, each is planned again with what it
// has and its share of what all others leave; the better plan counts.
// After a loss: the topology with its rate at 0, and Effort::kAtOnce; with more effort afterwards.
[[nodiscard]] std::vector<Result<Plan>> make_plans(const Network& network, std::span<const Job> jobs,
                                                   const Rates& capacity, const Options& options = {});

}  // namespace tally::planner
