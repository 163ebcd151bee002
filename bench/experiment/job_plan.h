#pragma once
// What a training job does, iteration after iteration: buckets of gradients, each with its time of computing.

#include <cstdint>
#include <string_view>
#include <vector>

#include "chance.h"
#include "setting.h"

namespace tally::experiment {

// One operation for each bucket, last layers first, as backward propagation makes them.
struct Bucket {
  std::uint32_t chunks = 0;
  double backward = 0;  // u, until its gradients are there
  double forward = 0;   // u, in the next iteration, after its sums are there
};

struct JobPlan {
  std::string_view model;
  std::vector<Bucket> buckets;
  std::uint32_t iterations = 0;
  double arrival = 0;  // u
  bool urgent = false;
};

[[nodiscard]] std::vector<JobPlan> plans_of(const Setting& setting, const Chance& chance);

}  // namespace tally::experiment
