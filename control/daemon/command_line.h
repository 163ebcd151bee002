#pragma once
// The command line of tallyd.

#include <chrono>
#include <string>
#include <tl/expected.hpp>

namespace tally::daemon {

// What the process returns.
enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2 };

struct CommandLine {
  enum class Action { kRun, kCheck, kDumpConfig, kVersion, kHelp };
  Action action = Action::kRun;
  bool here = false;               // kCheck: also what only this machine can tell
  std::string config{};            // path; empty for kVersion and kHelp only
  std::string final_counters{};    // file for the counters at the end; empty: none
  std::chrono::seconds drain{10};  // how long SIGTERM waits for the workers of running jobs
  std::string help{};              // for kHelp
};

// On failure: what to print to stderr before exiting with kExitUsage.
[[nodiscard]] tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv);

// What `tallyd --version` prints: tallyd, DPDK, compiler, the kernels of this CPU.
[[nodiscard]] std::string version_text();

}  // namespace tally::daemon
