#pragma once
// The training jobs of a setting: what each does, iteration after iteration (buckets of gradients, each with
// its time of computing), and its row of the job table as control would publish it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chance.h"
#include "jobs/job_table.h"
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

// By job; ids are 1, 2, ...
[[nodiscard]] std::vector<jobs::NativeJob> rows_of(const Setting& setting, const std::vector<JobPlan>& plans);

[[nodiscard]] inline std::string name_of(const jobs::NativeJob& job) {
  return "job" + std::to_string(raw(job.id));
}

// Slots of the shared region, or of all pools together: the share of the demand that the setting allows.
[[nodiscard]] std::uint32_t slots_of(const Setting& setting);
// A pool for which there is not even the smallest window: its jobs have no slots.
[[nodiscard]] bool gets_no_pool(const Setting& setting);

}  // namespace tally::experiment
