#pragma once
// What the reading methods answer, or rows of that, made of a snapshot. Times are in nanoseconds where the name says _ns,
// sizes in bytes, shares in parts of one. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "api/snapshot.h"
#include "config/diagnostic.h"

namespace tally::api {

// Jobs: job_results.cc.

// A row of job.list: the job at that place.
void add_job(const Snapshot& box, std::size_t job, Json& list);
[[nodiscard]] Json job_show(const Snapshot& box, const JobCounts& job);
// The one that is declared, else the last of those that are gone; nullptr: there is none of that name.
[[nodiscard]] const JobCounts* find_job(const Snapshot& box, const std::string& name);
// With the nearest name, and those there are.
[[nodiscard]] Failure no_such_job(const Snapshot& box, const std::string& name);
[[nodiscard]] Failure no_such_job(std::vector<std::string> names, const std::string& name);
// slot.show without its list of jobs, and a row of that: nothing of a job that holds none.
[[nodiscard]] std::string_view phase_of(const JobCounts& job);  // "gone": it is not declared any more
[[nodiscard]] Json slot_totals(const Snapshot& box);
void add_slot_holder(const Snapshot& box, std::size_t job, Json& list);

// The rest of the box: box_results.cc.

[[nodiscard]] Json port_list(const Snapshot& box);
[[nodiscard]] Json core_list(const Snapshot& box);
// Rows of drop.list, each with a sentence and an advice: what has happened to packets of that job; those of
// the box as a whole, where there are no more jobs.
void add_drops(const Snapshot& box, std::size_t job, Json& list);
// All reasons in Markdown: docs/drops.md.
[[nodiscard]] std::string drops_markdown();
// What keeps the box from serving, whoever asks: it ends, a link is down (of memif there is one for each worker that is
// there), a core stands still. Objects of what, name and text.
[[nodiscard]] Json box_problems(const Snapshot& box);
// state: "good" or "degraded"; ending: a drain or a shutdown is under way; problems: box_problems and those of jobs.
[[nodiscard]] Json health(const Snapshot& box);
// Down, though somebody is to be there: behind a port of memif there is one worker, or none at the moment.
[[nodiscard]] bool is_down(const Snapshot& box, std::size_t port);
// in_fleet: whether the box is in one; the rest only then.
[[nodiscard]] Json fleet_show(const Snapshot& box);
// plan.show: plan_results.cc. What is said of the planner; rows of jobs, those that are planned first and then the
// others of the box; rows of what the cluster has. A job's loads: the fullest, or `every` one.
[[nodiscard]] Json plan_head(const Snapshot& box);
[[nodiscard]] std::size_t plan_jobs(const Snapshot& box);
void add_plan_job(const Snapshot& box, std::size_t row, Json& list);
void add_plan_job_with_loads(const Snapshot& box, std::size_t row, Json& list);
void add_plan_switch(const Snapshot& box, std::size_t row, Json& list);
void add_plan_link(const Snapshot& box, std::size_t row, Json& list);
void add_plan_box(const Snapshot& box, std::size_t row, Json& list);
void add_plan_server(const Snapshot& box, std::size_t row, Json& list);
// Of one job alone, without the cluster; null: there is none of that name.
[[nodiscard]] Json plan_of_job(const Snapshot& box, const std::string& name, bool every_load);
// stats.get without what has a row for each job.
[[nodiscard]] Json totals(const Snapshot& box);

[[nodiscard]] Json diagnostics_json(const config::Diagnostics& diagnostics);

}  // namespace tally::api
