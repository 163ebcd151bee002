#pragma once
// A job as JSON: what job.add takes and the state file keeps. Pure.

#include "api/request.h"
#include "config/diagnostic.h"
#include "config/yaml_node.h"

namespace tally::api {

// As the configuration is read: a text is a scalar in quotes, a number or a truth value one without.
[[nodiscard]] config::YamlNode node_of(const Json& value);
// What `keys` has in the place of what `job` has, as config::overlaid does it.
[[nodiscard]] Json overlaid(Json job, const Json& keys);
// The messages of config::read_one_job(): a path is a JSON pointer ("/quota/cap") where it is the job's.
[[nodiscard]] Failure job_failure(config::Diagnostics diagnostics);
[[nodiscard]] config::Diagnostics with_pointers(config::Diagnostics diagnostics);

}  // namespace tally::api
