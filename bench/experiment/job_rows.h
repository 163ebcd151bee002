#pragma once
// The rows of the job table as control would publish them for a setting.

#include <string>
#include <vector>

#include "job_plan.h"
#include "jobs/job_table.h"
#include "setting.h"

namespace tally::experiment {

// By job; ids are 1, 2, ...
[[nodiscard]] std::vector<jobs::Job> rows_of(const Setting& setting, const std::vector<JobPlan>& plans);

[[nodiscard]] inline std::string name_of(const jobs::Job& job) { return "job" + std::to_string(raw(job.id)); }

// Slots of the shared region, or of all pools together: the share of the demand that the setting allows.
[[nodiscard]] std::uint32_t slots_of(const Setting& setting);
// A pool for which there is not even the smallest window: its jobs have no slots.
[[nodiscard]] bool gets_no_pool(const Setting& setting);

}  // namespace tally::experiment
