#include "switchml/command_line.h"

#include <CLI/CLI.hpp>

namespace tally::switchml_service {
namespace {

std::string complaint(const std::string& what) {
  return "tally-switchml: " + what + "\nTry 'tally-switchml --help'.\n";
}

}  // namespace

tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  bool check = false;
  bool version = false;
  CLI::App app{"tally-switchml, the session service of SwitchML's clients beside a tallyd", "tally-switchml"};
  try {
    app.footer(
        "SIGTERM and SIGINT end it; sessions that run go on, and are found again at the next start.\n"
        "Exit codes: 0 good, 1 failed, 2 wrong usage.\n"
        "An example configuration: " TALLY_EXAMPLE_CONFIG);
    app.add_option("-c,--config", line.config, "The configuration, YAML (keys: docs/switchml.md)")
        ->type_name("FILE");
    app.add_flag("--check", check,
                 "Only check the configuration: needs no root and no tallyd, starts nothing");
    app.add_flag("--version", version, "The version");
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.action = CommandLine::Action::kHelp;
    line.text = app.help();
    return line;
  } catch (const CLI::Error& e) {
    return tl::unexpected<std::string>(complaint(e.what()));
  }
  if (version) {
    line.action = CommandLine::Action::kVersion;
    line.text = "tally-switchml " TALLY_VERSION "\n";
    return line;
  }
  if (line.config.empty())
    return tl::unexpected<std::string>(complaint("--config FILE is missing. An example: " TALLY_EXAMPLE_CONFIG
                                                 " (in the source tree: conf/switchml-service.yaml)."));
  if (check) line.action = CommandLine::Action::kCheck;
  return line;
}

}  // namespace tally::switchml_service
