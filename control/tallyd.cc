// The daemon: a switch in software that sums gradients.

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "box_options.h"
#include "box_start.h"
#include "command_line.h"
#include "daemon.h"
#include "load_config.h"
#include "log.h"
#include "version_text.h"

namespace tally {
namespace {

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

int check(const std::string& path) {
  const auto loaded = load_config(path);
  print(stderr, to_text(loaded ? loaded->warnings : loaded.error()));
  if (!loaded) return kExitFailed;
  print(stdout, path + ": good: " + summary(loaded->config) + "\n");
  return kExitOk;
}

int dump(const std::string& path) {
  const auto loaded = load_config(path);
  print(stderr, to_text(loaded ? loaded->warnings : loaded.error()));
  if (!loaded) return kExitFailed;
  print(stdout, dump_config(loaded->config));
  return kExitOk;
}

int failed_to_start(const Error& error) {
  log_line(LogLevel::kError, "cannot start: " + error.text());
  return kExitFailed;
}

int run(const CommandLine& line) {
  const auto loaded = load_config(line.config);
  if (!loaded) {
    print(stderr, to_text(loaded.error()));
    return kExitFailed;
  }
  const Config& config = loaded->config;
  set_log_level(log_level(config));
  for (const Diagnostic& warning : loaded->warnings) log_line(LogLevel::kWarning, one_line(warning));
  Daemon daemon;
  auto members = start_members(config);
  if (!members) return failed_to_start(members.error());
  auto box = StartedBox::start(config, log_line);
  if (!box) return failed_to_start(box.error());
  daemon.run({line.config, config, line.drain}, box->plane(), std::move(*members), box->hugepages());
  return kExitOk;
}

int act(const CommandLine& line) {
  switch (line.action) {
    case CommandLine::Action::kHelp:
      print(stdout, line.help);
      return kExitOk;
    case CommandLine::Action::kVersion:
      print(stdout, version_text());
      return kExitOk;
    case CommandLine::Action::kCheck:
      return check(line.config);
    case CommandLine::Action::kDumpConfig:
      return dump(line.config);
    case CommandLine::Action::kRun:
      break;
  }
  return run(line);
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  try {
    const auto line = tally::parse_command_line(argc, argv);
    if (line) return tally::act(*line);
    tally::print(stderr, line.error());
    return tally::kExitUsage;
  } catch (const std::exception& e) {
    tally::log_line(tally::LogLevel::kError, std::string("ended by a failure: ") + e.what());
    return tally::kExitFailed;
  }
}
