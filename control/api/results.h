#pragma once
// What the reading methods answer, made of a snapshot. Times are in nanoseconds where the name says _ns,
// sizes in bytes, shares in parts of one. Pure.

#include <string>
#include <vector>

#include "api/request.h"
#include "api/snapshot.h"
#include "config/diagnostic.h"

namespace tally::api {

// Jobs: job_results.cc.

[[nodiscard]] Json job_list(const Snapshot& box);
[[nodiscard]] Json job_show(const Snapshot& box, const JobCounts& job);
// The one that is declared, else the last of those that are gone; nullptr: there is none of that name.
[[nodiscard]] const JobCounts* find_job(const Snapshot& box, const std::string& name);
// With the nearest name, and those there are.
[[nodiscard]] Failure no_such_job(const Snapshot& box, const std::string& name);
[[nodiscard]] Failure no_such_job(std::vector<std::string> names, const std::string& name);
[[nodiscard]] Json slot_show(const Snapshot& box);

// The rest of the box: box_results.cc.

[[nodiscard]] Json port_list(const Snapshot& box);
[[nodiscard]] Json core_list(const Snapshot& box);
// Reasons that have happened, those of one job each; with a sentence and an advice.
[[nodiscard]] Json drop_list(const Snapshot& box);
// All reasons in Markdown: docs/drops.md.
[[nodiscard]] std::string drops_markdown();
// state: "good" or "degraded"; problems: a sentence for each.
[[nodiscard]] Json health(const Snapshot& box);
[[nodiscard]] Json stats(const Snapshot& box);

[[nodiscard]] Json diagnostics_json(const config::Diagnostics& diagnostics);

}  // namespace tally::api
