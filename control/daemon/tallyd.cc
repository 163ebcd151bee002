// The daemon: a switch in software that sums gradients.

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "config/load_config.h"
#include "daemon/box_start.h"
#include "daemon/check_here.h"
#include "daemon/claims.h"
#include "daemon/command_line.h"
#include "daemon/control_socket.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/made_jobs.h"
#include "daemon/planner_link.h"
#include "http/listen.h"

namespace tally::daemon {
namespace {

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

int check(const std::string& path, bool here) {
  const auto loaded = config::load_config(path, here ? check_here : config::MoreChecks());
  print(stderr, config::to_text(loaded ? loaded->warnings : loaded.error()));
  if (!loaded) return kExitFailed;
  if (const auto cluster = read_cluster(loaded->config.planner); !cluster) {
    print(stderr, config::to_text(cluster.error()));
    return kExitFailed;
  }
  print(stdout, path + ": good: " + summary(loaded->config) + "\n");
  return kExitOk;
}

int dump(const std::string& path) {
  const auto loaded = config::load_config(path);
  print(stderr, config::to_text(loaded ? loaded->warnings : loaded.error()));
  if (!loaded) return kExitFailed;
  print(stdout, config::dump_config(loaded->config));
  return kExitOk;
}

int failed_to_start(const Error& error) {
  log_line(LogLevel::kError, "cannot start: " + error.text());
  return kExitFailed;
}

// A path that was written must be possible; without the one that nobody asked for the box is no worse.
Result<std::optional<ControlSocket>> open_control(const config::Config& config) {
  const std::string path = config::control_socket_path(config);
  if (path.empty()) return std::optional<ControlSocket>();
  auto made = ControlSocket::listen(path, config.control);
  if (made) return std::optional<ControlSocket>(std::move(*made));
  if (config.control.socket != "auto" || made.error().where != "control.socket")
    return tl::unexpected<Error>(std::move(made.error()));
  log_line(LogLevel::kWarning, "tallyctl will not find this box: " + made.error().what +
                                   ". Or write control: {socket: none}, or a path of yours");
  return std::optional<ControlSocket>();
}

// Before EAL takes seconds to start; who comes meanwhile waits.
Result<void> open_http(const config::Config& config, Daemon::Doors& doors) {
  const auto address = config::http_address(config);
  if (!address) return {};
  if (address->path.empty()) {
    auto made = http::listen_at(*address);
    if (!made) return tl::unexpected<Error>(std::move(made.error()));
    doors.http = std::move(*made);
  } else {
    auto made = ControlSocket::listen(address->path, config.control,
                                      {"the socket of HTTP", "control.http", http::kBacklog});
    if (!made) return tl::unexpected<Error>(std::move(made.error()));
    doors.http = made->take();
    doors.http_file.emplace(std::move(*made));
  }
  log_line(LogLevel::kInfo,
           "HTTP at " + http::address_text(*address) +
               (http::is_of_this_machine(*address) ? "" : ": whoever reaches it sees everything but tokens"));
  return {};
}

// Now, so that who cannot have them learns it before anything runs; empty until the end. path: may be empty.
Result<UniqueFd> open_final_counters(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file) return file;
  return fail(ErrorCode::kInvalidArgument,
              "cannot write " + path + ": " + std::generic_category().message(errno), "--final-counters");
}

// Of this program, and of the one that takes its place on the disk. Empty: not known.
std::string own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// The program begins anew, in this process: whoever watches it sees the same one. Returns if it cannot.
int begin_anew(const std::string& program, char** argv) {
  log_line(LogLevel::kInfo, "restarting " + program);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Drivers have files that they keep for ever: locks of hugepages, sockets of ports. They go with the exec, not
  // before it: a thread of EAL that finds its pipe closed ends the process.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execv(program.c_str(), argv);
  log_line(LogLevel::kError, "cannot restart " + program + ": " + std::generic_category().message(errno));
  return kExitFailed;
}

int run(const CommandLine& line, char** argv) {
  const std::string program = own_path();
  const auto loaded = config::load_config(line.config);
  if (!loaded) {
    print(stderr, config::to_text(loaded.error()));
    return kExitFailed;
  }
  const config::Config& config = loaded->config;
  set_log_level(config.log.level);
  for (const config::Diagnostic& warning : loaded->warnings)
    log_line(LogLevel::kWarning, config::one_line(warning));
  const auto cluster = read_cluster(config.planner);
  if (!cluster) {
    print(stderr, config::to_text(cluster.error()));
    return kExitFailed;
  }
  planning::Desk desk = make_desk(config);
  desk.set_cluster(*cluster, steady_now());
  Daemon daemon;
  auto claims = Claims::take(config);
  if (!claims) return failed_to_start(claims.error());
  auto members = start_members(
      config, [&desk](const members::PlanRequest& request) { return desk.plan(request, steady_now()); });
  if (!members) return failed_to_start(members.error());
  auto final_counters = open_final_counters(line.final_counters);
  if (!final_counters) return failed_to_start(final_counters.error());
  Daemon::Doors doors;
  auto control = open_control(config);
  if (!control) return failed_to_start(control.error());
  if (*control) doors.control.emplace(std::move(**control));
  if (auto opened = open_http(config, doors); !opened) return failed_to_start(opened.error());
  auto keeping = find_state(config, log_line);
  if (!keeping) return failed_to_start(keeping.error());
  auto end = Daemon::End::kOver;
  {
    auto box = StartedBox::start(config, log_line);
    if (!box) return failed_to_start(box.error());
    auto ended = daemon.run({desk, line.config, program, config, line.drain, &*claims, std::move(*keeping),
                             std::move(*final_counters)},
                            box->plane(), std::move(*members), box->hugepages(), std::move(doors));
    if (!ended) return failed_to_start(ended.error());
    end = *ended;
  }
  if (end == Daemon::End::kRestart) return begin_anew(program, argv);
  return end == Daemon::End::kUntold ? kExitFailed : kExitOk;
}

int act(const CommandLine& line, char** argv) {
  switch (line.action) {
    case CommandLine::Action::kHelp:
      print(stdout, line.help);
      return kExitOk;
    case CommandLine::Action::kVersion:
      print(stdout, version_text());
      return kExitOk;
    case CommandLine::Action::kCheck:
      return check(line.config, line.here);
    case CommandLine::Action::kDumpConfig:
      return dump(line.config);
    case CommandLine::Action::kRun:
      break;
  }
  return run(line, argv);
}

}  // namespace
}  // namespace tally::daemon

int main(int argc, char** argv) {
  try {
    const auto line = tally::daemon::parse_command_line(argc, argv);
    if (line) return tally::daemon::act(*line, argv);
    tally::daemon::print(stderr, line.error());
    return tally::daemon::kExitUsage;
  } catch (const std::exception& e) {
    tally::daemon::log_line(tally::daemon::LogLevel::kError, std::string("ended by a failure: ") + e.what());
    return tally::daemon::kExitFailed;
  }
}
