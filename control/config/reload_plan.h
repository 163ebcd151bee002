#pragma once
// What a configuration that was read again asks of a running box: what can be done while it runs, and what
// takes a restart. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "tally/error.h"

namespace tally::config {

struct ReloadPlan {
  struct Resize {
    std::string job{};
    std::uint32_t window = 0;
    bool operator==(const Resize&) const = default;
  };
  struct Again {
    JobConfig job{};                  // a session
    std::vector<std::string> keys{};  // that differ, as in `restart`
  };

  struct Reset {
    std::string session{};
    std::uint32_t run = 0;
    bool operator==(const Reset&) const = default;
  };

  std::vector<std::string> withdraw{};  // names of jobs that are gone
  std::vector<Resize> resize{};         // jobs of the discipline pool
  std::vector<JobConfig> declare{};     // jobs that are new
  std::vector<Again> again{};           // sessions that differ: withdrawn, then declared as they are now
  std::optional<LogSection::Level> log_level{};  // another
  std::vector<Reset> reset{};                    // sessions that differ in `run` alone
  // Keys that differ and stay as they are, by their path in `wanted`: "dataplane.slots", "jobs[1].lease".
  std::vector<std::string> restart{};
};

// `running`: what is in force; `wanted`: a configuration without errors. Jobs are the same when their names
// are, in whatever order they stand.
[[nodiscard]] ReloadPlan plan_reload(const Config& running, const Config& wanted);

// Jobs of a configuration that was read again, on the box as it runs: its addresses, its memory and its
// ports' mtu change with a restart only, whatever that configuration says of them. Pure.

// Whether packets of the job would be served. The first reason why not, for a person; `where` names the job.
// `running`: what is in force.
[[nodiscard]] Result<void> serves(const Config& running, const JobConfig& job);

struct Replacements {
  std::vector<ReloadPlan::Again> good{};
  std::vector<Error> refused{};  // one for each session that has to stay as it runs
};

// Which of plan.again can take the place of the session of its name. One that stays may have the addresses
// of a member that another was to get.
[[nodiscard]] Replacements replacements(const Config& running, std::vector<ReloadPlan::Again> wanted);

}  // namespace tally::config
