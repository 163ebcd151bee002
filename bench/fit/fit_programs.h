#pragma once
// The programs whose fit is told to people: ours, from the register lists that the executions share, and
// SwitchML's. The daemon asks dataplane/pipeline/fit.h about two of them.

#include <cstdint>
#include <string>
#include <vector>

#include "jobs/session.h"
#include "pipeline/fit.h"

namespace tally::bench {

struct ToldProgram {
  std::string name;
  pipeline::ProgramNeed need;
  std::vector<std::string> remarks{};  // what the program does that no array shows
};

// As pipeline::pool_program.
[[nodiscard]] ToldProgram pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                                       const pipeline::Profile& profile);
// The same with stragglers: two registers more at each entry.
[[nodiscard]] ToldProgram straggler_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                                            const pipeline::Profile& profile);
// Our program of the discipline `shared`. entries: of the shared region on one core; ledger_rows: of all jobs
// together, a span of chunks each.
[[nodiscard]] ToldProgram shared_program(std::uint64_t entries, std::uint64_t ledger_rows,
                                         std::uint32_t elements, std::uint32_t jobs,
                                         const pipeline::Profile& profile);
// That of jobs over several boxes. plans: how many of them there are at once.
[[nodiscard]] ToldProgram planned_program(std::uint64_t entries, std::uint64_t ledger_rows,
                                          std::uint32_t elements, std::uint32_t jobs, std::uint32_t plans,
                                          const pipeline::Profile& profile);
// As pipeline::session_program.
[[nodiscard]] ToldProgram session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world,
                                          jobs::TsiRule tsi, const pipeline::Profile& profile);
// The published program of SwitchML: 64 elements a pass in 32 arrays of pairs, a bitmap and a count per slot.
[[nodiscard]] ToldProgram switchml_program(std::uint64_t pairs, std::uint32_t elements);

[[nodiscard]] std::string to_text(const pipeline::FitReport& report,
                                  const std::vector<std::string>& remarks = {});

}  // namespace tally::bench
