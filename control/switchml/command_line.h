#pragma once
// The command line of tally-switchml. Pure.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace tally::switchml_service {

struct CommandLine {
  enum class Action : std::uint8_t { kRun, kCheck, kHelp, kVersion };
  Action action = Action::kRun;
  std::string config{};
  std::string text{};  // to be printed, of kHelp and kVersion
};

// On failure: what to print to stderr before exiting with 2.
[[nodiscard]] tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv);

}  // namespace tally::switchml_service
