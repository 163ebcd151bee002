#include "switchml/gateway.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "log/log.h"
#include "log/sd_notify.h"
#include "session_service/service.h"
#include "switchml/box_link.h"
#include "switchml/doors.h"
#include "switchml/rpc_server.h"
#include "text/text.h"

namespace tally::switchml_service {
namespace {

using log::log_line;
using log::LogLevel;
using session_service::ConnectionId;

constexpr std::uint64_t kOtherFiles = 64;  // beside two for each connection

// How many connections the limit of files lets us have, once it is as high as it may be.
std::uint32_t connections_possible() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      (std::max<std::uint64_t>(files.rlim_cur, kOtherFiles) - kOtherFiles) / 2, 1, 65'536));
}

Result<UniqueFd> signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&set, number);
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return fail(ErrorCode::kSystem, "signals cannot be blocked");
  std::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail(ErrorCode::kSystem, "signalfd: " + std::generic_category().message(errno));
  return fd;
}

std::string ports_text(const ServiceConfig& config) {
  return text::listed(config.listen, ", ", [](const session_service::Settings::Port& port) {
    return std::to_string(port.port) + " (" + port.name + ")";
  });
}

class Gateway {
 public:
  Gateway(const ServiceConfig& config, Doors doors, UniqueFd signals, UniqueFd awake)
      : service_(settings_of(config)),
        most_(std::min(config.connections, connections_possible())),
        doors_(std::move(doors)),
        signals_(std::move(signals)),
        wake_(std::move(awake)),
        link_(config.tallyd == "auto" ? "" : config.tallyd, config.prefix, [this] { wake(); }),
        rpc_([this] { wake(); }) {
    if (most_ < config.connections)
      log_line(LogLevel::kWarning, "the limit of open files allows " + std::to_string(most_) +
                                       " connections, not " + std::to_string(config.connections) +
                                       " (ulimit -n, LimitNOFILE)");
  }

  void run() {
    while (!ends_) turn();
    manager_.stopping("stopping");
    service_.stop();
    work();
  }

  void ready(const std::string& ports) {
    log_line(LogLevel::kInfo, "ready: SwitchML's session service on TCP " + ports);
    manager_.ready("listening on " + ports);
  }

 private:
  void wake() const noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  void turn() {
    std::array<pollfd, 3> all{
        {{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {doors_.descriptor(), POLLIN, 0}}};
    constexpr int kTurnMs = static_cast<int>(session_service::Service::kTurn / kMillisecond);
    ::poll(all.data(), all.size(), kTurnMs);
    if (all[0].revents != 0) ends_ = true;
    if (all[1].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    }
    const TimeNs now = steady_now();
    take_clients(now);
    take_calls(now);
    take_box(now);
    service_.tick(now);
    work();
    if (const TimeNs interval = manager_.watchdog_interval(); interval != 0 && now >= alive_due_) {
      manager_.alive();
      alive_due_ = now + interval;
    }
  }

  // Calls of who has gone are answered as those of nobody.
  void take_clients(TimeNs now) {
    Doors::News news = doors_.look(now);
    for (const ConnectionId gone : news.gone) service_.closed(gone, now);
    for (Doors::Came& came : news.came) {
      log_line(LogLevel::kDebug, came.where + " has connected");
      service_.opened(came.connection, came.port, std::move(came.where));
      rpc_.serve(came.fd);
      if (doors_.connections() <= most_) continue;
      // The newest is one of them itself, if all others are members.
      if (const auto whom = service_.dispensable()) {
        doors_.hang_up(*whom);
        service_.closed(*whom, now);
      }
      if (const auto left_out = crowd_.take(now))
        log_line(LogLevel::kWarning, "there are more than " + std::to_string(most_) +
                                         " connections: the oldest of nobody's session was closed" +
                                         log::left_out_text(*left_out));
    }
    if (news.trouble.empty()) return;
    if (const auto left_out = trouble_.take(now))
      log_line(LogLevel::kError, "nobody can connect: " + news.trouble + log::left_out_text(*left_out));
  }

  void take_calls(TimeNs now) {
    for (const RpcServer::Event& event : rpc_.take()) {
      if (const auto* const asked = std::get_if<RpcServer::Asked>(&event)) {
        service_.asked(asked->call, doors_.connection_of(asked->peer).value_or(0), asked->request, now);
        continue;
      }
      const session_service::CallId call = std::get<RpcServer::Cancelled>(event).call;
      service_.cancelled(call);
      rpc_.answer({.call = call, .status = {session_service::Code::kAborted, "the call was cancelled"}});
    }
  }

  void take_box(TimeNs now) {
    for (BoxLink::Said& said : link_.take()) {
      if (auto* const report = std::get_if<BoxLink::Report>(&said)) {
        service_.looked(std::move(*report), now);
        continue;
      }
      const auto& done = std::get<BoxLink::Done>(said);
      if (done.add)
        service_.added(done.name, done.result, now);
      else
        service_.removed(done.name, done.result, now);
    }
  }

  void work() {
    session_service::Work work = service_.take();
    for (const session_service::Line& line : work.lines) log_line(line.level, line.text);
    for (const session_service::Answer& answer : work.answers) {
      if (!answer.status.ok())
        log_line(LogLevel::kDebug,
                 std::string("answered ") + name_of(answer.status.code) + ": " + answer.status.text);
      rpc_.answer(answer);
    }
    for (session_service::Order& order : work.orders) link_.order(std::move(order));
    if (service_.sessions() == told_) return;
    told_ = service_.sessions();
    manager_.status(text::counted(told_, "session"));
  }

  session_service::Service service_;
  std::uint32_t most_;
  Doors doors_;
  UniqueFd signals_;
  UniqueFd wake_;
  BoxLink link_;
  RpcServer rpc_;  // goes first: while the link waits for an answer of tallyd nobody calls any more
  log::ServiceManager manager_ = log::ServiceManager::from_environment();
  log::LogLimit crowd_{1, 10 * kSecond};
  log::LogLimit trouble_{1, 10 * kSecond};
  std::size_t told_ = 0;
  TimeNs alive_due_ = 0;
  bool ends_ = false;
};

}  // namespace

Result<void> run_gateway(const ServiceConfig& config) {
  auto stop = signals();
  if (!stop) return tl::unexpected<Error>(std::move(stop.error()));
  std::vector<std::uint16_t> ports;
  for (const auto& port : config.listen) ports.push_back(port.port);
  auto doors = Doors::open(config.address, ports);
  if (!doors) return tl::unexpected<Error>(std::move(doors.error()));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail(ErrorCode::kSystem, "eventfd: " + std::generic_category().message(errno));
  Gateway gateway(config, std::move(*doors), std::move(*stop), std::move(wake));
  gateway.ready(ports_text(config));
  gateway.run();
  log_line(LogLevel::kInfo, "ended; sessions at the box go on");
  return {};
}

}  // namespace tally::switchml_service
