#include "daemon/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>

#include "kernels/kernels.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr const char* kExample = TALLY_EXAMPLE_CONFIG;
constexpr std::uint32_t kLongestDrain = 86'400;

std::string complaint(const std::string& what) { return "tallyd: " + what + "\nTry 'tallyd --help'.\n"; }

std::string missing_config() {
  return complaint(std::string("--config FILE is missing. An example: ") + kExample +
                   " (in the source tree: conf/demo.yaml).");
}

std::string footer() {
  return std::string(
             "Signals: SIGUSR1 prints the counters to stdout; SIGHUP reads the configuration again and says\n"
             "what it applied and what takes a restart (tallyctl asks for both); SIGTERM and SIGINT stop "
             "admitting jobs, let the\n"
             "running ones finish for --drain seconds and end; a second one ends at once (within half "
             "a\nsecond of the first it counts as the same).\n"
             "Exit codes: 0 good, 1 failed, 2 wrong usage.\n"
             "An example configuration: ") +
         kExample;
}

CommandLine::Action action_of(bool check, bool dump, bool version) {
  if (version) return CommandLine::Action::kVersion;
  if (check) return CommandLine::Action::kCheck;
  return dump ? CommandLine::Action::kDumpConfig : CommandLine::Action::kRun;
}

}  // namespace

tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  bool check = false;
  bool dump = false;
  bool version = false;
  std::uint32_t drain = 10;
  CLI::App app{"tallyd, a switch in software that sums gradients", "tallyd"};
  try {
    app.footer(footer());
    app.add_option("-c,--config", line.config, "The configuration, YAML (reference: docs/configuration.md)")
        ->type_name("FILE");
    auto* const checking =
        app.add_flag("--check", check, "Only check the configuration: needs no root, starts nothing");
    app.add_flag("--dump-config", dump, "Print the configuration in force, with all defaults")
        ->excludes(checking);
    app.add_flag("--here", line.here,
                 "With --check: also CPUs, memory, devices and EAL arguments, as this machine has them")
        ->needs(checking);
    app.add_option("--drain", drain, "How long SIGTERM waits for running jobs (default 10)")
        ->type_name("SECONDS")
        ->check(CLI::Range(std::uint32_t{0}, kLongestDrain));
    app.add_option("--final-counters", line.final_counters,
                   "Write the counters to this file at the end: JSON, as stats.get answers")
        ->type_name("FILE")
        ->excludes(checking);
    app.add_flag("--version", version, "Versions of tallyd and DPDK, compiler, kernels of this CPU");
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.action = CommandLine::Action::kHelp;
    line.help = app.help();
    return line;
  } catch (const CLI::Error& e) {
    return tl::unexpected<std::string>(complaint(e.what()));
  }
  line.action = action_of(check, dump, version);
  line.drain = std::chrono::seconds(drain);
  if (line.action != CommandLine::Action::kVersion && line.config.empty()) {
    return tl::unexpected<std::string>(missing_config());
  }
  return line;
}

std::string version_text() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  const std::string others = text::listed(kernels::usable_kernels(), ", ", &kernels::Kernels::name);
  return "tallyd " TALLY_VERSION "\nDPDK " TALLY_DPDK_VERSION "\ncompiler " + compiler + "\nkernels " +
         std::string(kernels::best_kernels().name) + " (this CPU can run " + others + ")\n";
}

}  // namespace tally::daemon
