#include "demo_options.h"

#include <CLI/CLI.hpp>
#include <regex>

namespace tally {
namespace {

constexpr std::uint32_t kMostIterations = 10'000;

std::string check_loss(const std::string& text) {
  static const std::regex percentage("(0|[1-9][0-9]?)(\\.[0-9]{1,4})?%");
  if (std::regex_match(text, percentage)) return {};
  return "'" + text + "' is not a loss; write a percentage below 100%, such as 1% or 0.1%";
}

}  // namespace

Result<DemoOptions> parse_demo_options(int argc, const char* const* argv) {
  DemoOptions options;
  CLI::App app{"tally-demo: one switch and three training jobs on this machine; every sum is checked",
               "tally-demo"};
  try {
    app.add_option("--tallyd", options.tallyd, "The switch's program (default: beside this one, or in PATH)")
        ->type_name("FILE");
    app.add_option("--config", options.config, "The switch's configuration")->type_name("FILE");
    app.add_option("--loss", options.loss, "Lose this share of all frames at every port, on purpose: 1%")
        ->type_name("PERCENT")
        ->check(check_loss);
    auto* const driver =
        app.add_option("--driver", options.driver,
                       "Workers use kernel sockets, the switch the interfaces port0, port1, ... through this "
                       "driver: af_xdp or af_packet (tools/veth-rack makes the interfaces)")
            ->check(CLI::IsMember({"af_xdp", "af_packet"}));
    auto* const hosts = app.add_option("--hosts", options.hosts, "The workers' network namespaces, as files")
                            ->type_name("FILE,...")
                            ->delimiter(',');
    driver->needs(hosts);
    hosts->needs(driver);
    app.add_option("--iterations", options.iterations,
                   "How often BERT is summed, others more often (default 4)")
        ->check(CLI::Range(1U, kMostIterations));
    app.add_option("--seed", options.seed, "Of all values (default 1)");
    app.add_flag("--verbose", options.verbose, "Show what the switch says while it runs");
    auto* const worker = app.add_subcommand("worker", "One worker; started by tally-demo itself")->group("");
    worker->add_option("--iterations", options.iterations)->required();
    worker->add_option("--seed", options.seed)->required();
    app.footer("Exit codes: 0 all sums right, 1 failed or a sum was wrong, 2 wrong usage.");
    app.parse(argc, argv);
    if (worker->parsed()) {
      options.role = DemoOptions::Role::kWorker;
    } else if (options.config.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--config FILE is missing; the source tree has conf/demo.yaml");
    }
  } catch (const CLI::CallForHelp&) {
    options.role = DemoOptions::Role::kHelp;
    options.help = app.help();
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  return options;
}

}  // namespace tally
