#pragma once
// A job by itself, as the control interface gives it: read by the tables that read `jobs:` of a file, checked
// beside the jobs that run. Pure, but for the file of its token.

#include <string>
#include <tl/expected.hpp>

#include "config/config.h"
#include "config/diagnostic.h"
#include "config/load_config.h"
#include "config/yaml_node.h"

namespace tally::config {

// Diagnostic::file of what is about the job itself, and about the box.
inline constexpr const char* kOneJob = "job";
inline constexpr const char* kTheBox = "box";

struct OneJob {
  JobConfig job{};
  Diagnostics warnings{};
};

// job: an entry of `jobs:`, which stands in no file. running: what is in force, without a job of that name.
// directory: what a relative token_file is relative to. The messages are those of a file with these jobs, as
// far as they are of this one: their paths are relative to the job ("quota.cap"; "": the job as a whole) where
// their file is kOneJob.
[[nodiscard]] tl::expected<OneJob, Diagnostics> read_one_job(const YamlNode& job, const Config& running,
                                                             const std::string& directory,
                                                             TokenFiles token_files = TokenFiles::kRead);

// The entry of `jobs:` that says the same as this job.
[[nodiscard]] YamlNode node_of(const JobConfig& job);
// What `keys` has in the place of what `job` has, of maps in both key by key.
[[nodiscard]] YamlNode overlaid(YamlNode job, const YamlNode& keys);

}  // namespace tally::config
