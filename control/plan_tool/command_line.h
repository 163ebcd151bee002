#pragma once
// The command line of tally-plan: a verb, a file, what of it. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace tally::plan_tool {

// What the process returns: as tallyctl does.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,  // the file cannot be read, or stdout not be written
  kExitUsage = 2,
  kExitNotMet = 3,  // the file has errors, or a job no plan
};

struct CommandLine {
  enum class Verb : std::uint8_t { kShow, kBuy, kWhatIf, kHelp };
  Verb verb = Verb::kHelp;
  std::string file{};  // - is stdin
  bool json = false;
  std::string job{};                // show, what-if: this one alone; empty: all
  bool all_loads = false;           // show: of everything that is used
  std::size_t boxes = 0;            // buy
  std::string rate = "100G";        // buy: of each
  std::vector<std::string> at{};    // buy: names of switches; empty: all that have no box
  bool instead = false;             // buy: without the boxes of the file
  std::vector<std::string> lose{};  // what-if
  std::string text{};               // to be printed, of kHelp
};

// On failure: what to print to stderr before exiting with kExitUsage.
[[nodiscard]] tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv);

// Each verb with its long options: what the completion and the manual must have.
struct VerbWords {
  std::string verb{};
  std::vector<std::string> options{};
};
[[nodiscard]] std::vector<VerbWords> verb_words();

}  // namespace tally::plan_tool
