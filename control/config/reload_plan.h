#pragma once
// What a configuration that was read again asks of a running box: what can be done while it runs, and what
// takes a restart. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/value_types.h"
#include "tally/error.h"

namespace tally::config {

struct ReloadPlan {
  struct Change {
    NativeConfig job{};
    std::string path{};                // jobs[2], of the wanted configuration
    std::vector<std::string> now{};    // keys that differ: "window", "quota.cap"
    std::vector<std::string> later{};  // ... and take effect with the next generation
  };
  struct Again {
    JobConfig job{};                  // a session
    std::vector<std::string> keys{};  // that differ, as in `restart`
  };

  struct Reset {
    std::string session{};
    std::uint32_t run = 0;
    std::string path{};  // jobs[2]
    bool operator==(const Reset&) const = default;
  };

  // Other faults on purpose for a port, which keep no more frames than those of now.
  struct Impair {
    std::size_t port = 0;
    std::string name{};
    ImpairSection impair{};
    std::vector<std::string> keys{};  // that differ, as in `restart`
  };

  std::vector<std::string> withdraw{};  // names of jobs that are gone
  std::vector<Change> change{};         // native jobs
  std::vector<JobConfig> declare{};     // jobs that are new
  std::vector<Again> again{};           // sessions that differ: withdrawn, then declared as they are now
  std::optional<LogSection::Level> log_level{};  // another
  std::vector<Impair> impair{};
  std::optional<PlannerSection> planner{};  // another
  std::vector<Reset> reset{};               // sessions that differ in `run` alone
  // Keys that differ and stay as they are, by their path in `wanted`: "dataplane.slots", "jobs[1].dialect".
  std::vector<std::string> restart{};
};

// `running`: what is in force; `wanted`: a configuration without errors. Jobs are the same when their names
// are, in whatever order they stand.
[[nodiscard]] ReloadPlan plan_reload(const Config& running, const Config& wanted);

struct Difference {
  std::string what{};  // "dataplane.slots", "jobs[1].window", "job 'bert' is new"
  Applies applies = Applies::kRestart;
};
// What the plan is about, in the order in which it is carried out.
[[nodiscard]] std::vector<Difference> differences(const ReloadPlan& plan);

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
