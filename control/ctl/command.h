#pragma once
// The command line of tallyctl: a noun, a verb, what they are about. Pure but for files that are named.

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace tally::ctl {

using Json = nlohmann::ordered_json;

// What the process returns.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,  // the daemon refused, or could not
  kExitUsage = 2,
  kExitNotMet = 3,       // health is not good, a configuration has errors, the doctor found a problem
  kExitUnreachable = 4,  // no daemon
  kExitNotPermitted = 5,
};

enum class Output : std::uint8_t {
  kTable,
  kJson,
  kNames,  // of jobs, one a line: for completion
};

// What the answer is shown as: one for each method that tallyctl asks.
enum class Page : std::uint8_t {
  kJobs,
  kJob,
  kPorts,
  kCores,
  kSlots,
  kDrops,
  kStats,
  kConfig,
  kCheck,
  kDiff,
  kReload,
  kRestart,
  kRemoved,
  kLog,
  kHealth,
  kVersion,
  kTop,
  kEvents,
  kDoctor,
  kFleet,
  kPlan,
  kPlanRate,
  kTrace,  // written to `file`
  kTraceState,
  kHelp,  // `text` is printed, and nothing asked
};

struct Command {
  Page page = Page::kHelp;
  std::string method{};
  Json parameters = Json::object();
  Output output = Output::kTable;
  std::string socket{};    // path; empty: the one that is found
  std::string instance{};  // empty: any
  std::chrono::milliseconds timeout{5000};
  std::chrono::milliseconds interval{1000};  // of top
  bool once = false;                         // top: one frame, no control sequences
  bool every_load = false;                   // plan: not only the fullest
  std::string file{};            // config check, job add: what is read and sent; trace write: what is written
  std::uint64_t most_bytes = 0;  // of the file of a trace
  std::string text{};
};

// On failure: what to print to stderr before exiting with kExitUsage.
[[nodiscard]] tl::expected<Command, std::string> parse_command(int argc, const char* const* argv);

// All verbs with their long options, such as {"job abort", {"--help", "--reason"}}, and "" with those of all of
// them: what completions and the manual must have.
struct VerbWords {
  std::string verb{};
  std::vector<std::string> options{};
};
[[nodiscard]] std::vector<VerbWords> verb_words();

}  // namespace tally::ctl
