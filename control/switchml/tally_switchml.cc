// tally-switchml: the session service that SwitchML's clients ask before they send anything, beside a tallyd.

#include <cstdio>
#include <exception>
#include <string>

#include "log/log.h"
#include "switchml/command_line.h"
#include "switchml/gateway.h"
#include "switchml/service_config.h"
#include "text/text.h"

namespace tally::switchml_service {
namespace {

constexpr int kGood = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

int act(const CommandLine& line) {
  if (line.action == CommandLine::Action::kHelp || line.action == CommandLine::Action::kVersion) {
    print(stdout, line.text);
    return kGood;
  }
  const auto loaded = load_service(line.config);
  print(stderr, config::to_text(loaded ? loaded->warnings : loaded.error()));
  if (!loaded) return kFailed;
  if (line.action == CommandLine::Action::kCheck) {
    print(stdout, line.config + ": good: " + text::counted(loaded->config.listen.size(), "port") + "\n");
    return kGood;
  }
  log::set_log_level(loaded->config.log.level);
  if (const auto ran = run_gateway(loaded->config); !ran) {
    log::log_line(log::LogLevel::kError, "cannot start: " + ran.error().text());
    return kFailed;
  }
  return kGood;
}

}  // namespace
}  // namespace tally::switchml_service

int main(int argc, char** argv) {
  try {
    const auto line = tally::switchml_service::parse_command_line(argc, argv);
    if (line) return tally::switchml_service::act(*line);
    tally::switchml_service::print(stderr, line.error());
    return tally::switchml_service::kUsage;
  } catch (const std::exception& e) {
    tally::log::log_line(tally::log::LogLevel::kError, std::string("ended by a failure: ") + e.what());
    return 1;
  }
}
