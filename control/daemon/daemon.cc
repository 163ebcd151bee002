#include "daemon/daemon.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include <algorithm>
#include <asio.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "api/long_answer.h"
#include "api/results.h"
#include "daemon/box_start.h"
#include "daemon/control_box.h"
#include "daemon/control_loop.h"
#include "daemon/control_server.h"
#include "daemon/counters_report.h"
#include "daemon/event_feed.h"
#include "daemon/fleet_link.h"
#include "daemon/log.h"
#include "daemon/plane.h"
#include "daemon/planner_link.h"
#include "daemon/reload.h"
#include "http/exchange.h"
#include "http/http_server.h"
#include "kernels/kernels.h"

namespace tally::daemon {
namespace {

// Of this thread.
TimeNs cpu_time() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<TimeNs>(t.tv_sec) * kSecond + static_cast<TimeNs>(t.tv_nsec);
}

// One life of the control loop on the event loop.
class Life {
 public:
  Life(asio::io_context& io, asio::signal_set& signals, const log::ServiceManager& manager,
       const Daemon::Start& start, io::DataPlane& plane, members::MembershipEngine engine, TimeNs drain,
       std::optional<ControlSocket> control, http::Exchange* exchange, std::unique_ptr<fleet::Store> store)
      : io_(io),
        signals_(signals),
        timer_(io),
        manager_(manager),
        claims_(*start.claims),
        exchange_(exchange),
        reload_(
            start.config, feed_.sink(), set_log_level,
            [this](PortIndex port, const impair::PortImpairment& faults) { plane_.impair(port, faults); }),
        plane_(plane),
        loop_(plane_, std::move(engine), feed_.sink(), drain, steady_now()),
        planner_(start.desk, plane_, loop_.members(), start.config, feed_.sink()),
        box_({plane_, loop_, reload_, turn_times_, feed_.sink(), start.path, start.program, start.keeping,
              [&io](std::function<void()> then) { asio::post(io, std::move(then)); }, [this] { restart(); },
              steady_now, [this] { turn(); },
              [this](TimeNs now) { return fleet_ ? fleet_->status(now) : nullptr; }, &planner_}) {
    if (store)
      fleet_.emplace(
          start.config, std::move(store),
          FleetFace{[this] { return room(); },
                    {[this] { return shared_jobs(); },
                     [this](const std::string& job, const Ipv6& home) { return set_home(job, home); },
                     [this](const Ipv6& address) { planner_.box_seen(address, steady_now()); },
                     [this](const std::string& job, const members::HomeNeeds& needs) {
                       return objection_to_home(job, needs);
                     },
                     [this](const std::string& job, const members::HomeNews& news) {
                       loop_.members().engine().hear_of_home(job, news);
                     }},
                    {&start.desk, [this](planning::Work work) { planner_.reckon_for_fleet(std::move(work)); },
                     [this] { return planner_.take_reckoned(); }}},
          feed_.sink(), steady_now());
    feed_.send_to(exchange_);
    if (!control) return;
    server_.emplace(io_, std::move(*control), box_, feed_.sink());
    feed_.send_to(&*server_);
  }

  Daemon::End run() {
    wait_for_signal();
    turn();
    io_.run();
    feed_.send_to(static_cast<ControlServer*>(nullptr));
    feed_.send_to(static_cast<http::Exchange*>(nullptr));
    server_.reset();  // whatever takes its time from here on, nobody waits for an answer
    leave_fleet();
    return restarts_ ? Daemon::End::kRestart : Daemon::End::kOver;
  }

  void print_counters() { print(box_.take()); }

  // For people, and as JSON for the file, if there is one. False: it could not be written.
  [[nodiscard]] bool tell_final_counters(const UniqueFd& file) {
    const auto all = std::make_shared<const api::Snapshot>(box_.take());
    print(*all);
    if (!file) return true;
    const std::string json = api::LongAnswer::stats(all).all() + "\n";
    for (std::size_t done = 0; done < json.size();) {
      const ssize_t n = ::write(file.get(), json.data() + done, json.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        log_line(LogLevel::kError,
                 "--final-counters: cannot write: " + std::generic_category().message(errno));
        return false;
      }
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  static constexpr TimeNs kStatusInterval = kSecond;
  static constexpr TimeNs kFarewell = 500 * kMillisecond;

  static void print(const api::Snapshot& all) {
    const std::string text = counters_text(all);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  void wait_for_signal() {
    signals_.async_wait([this](const asio::error_code& error, int number) {
      if (error) return;
      take_signal(number);
      wait_for_signal();
    });
  }

  void take_signal(int number) {
    if (number == SIGUSR1) return print_counters();
    if (number == SIGHUP) {
      box_.reload_soon();  // the log says what came of it
    } else if (number == SIGUSR2) {
      if (!loop_.ending()) {
        manager_.stopping("ending, jobs are kept");
        if (const std::string lost = box_.not_kept(); !lost.empty())
          log_line(LogLevel::kWarning,
                   lost + " will be lost: nothing keeps what job.add made (control.state)");
      }
      loop_.end_keeping_jobs(steady_now());
    } else {
      restarts_ = false;  // who wants it to end wants no other in its place
      loop_.end(steady_now());
      manager_.stopping("shutting down");
    }
    turn();
  }

  // Its turns go on until the answer has left.
  void restart() {
    restarts_ = true;
    loop_.end_keeping_jobs(steady_now());
    manager_.status("restarting, jobs are kept");
  }

  void turn() {
    const TimeNs now = steady_now();
    const TimeNs began = cpu_time();
    if (!loop_.ending()) planner_.turn(now);
    const TimeNs wait = loop_.turn(now);
    if (loop_.done()) {
      turn_times_.add(cpu_time() - began);
      return io_.stop();
    }
    box_.turn(now);
    if (fleet_) {
      if (loop_.ending()) fleet_->leave(now);
      fleet_->set_plans(planner_.has_cluster(), now);
      fleet_->turn(now);
      planner_.set_fleet(fleet_->who_plans());
    }
    if (exchange_ != nullptr && exchange_->take_wish(now)) exchange_->publish(box_.snapshot(), now);
    feed_.look_at_evictions(plane_, loop_.members().watch(), now);
    turn_times_.add(cpu_time() - began);
    tell_manager(now);
    // A signal takes a turn out of order; a timer that had expired by then must not start a second chain.
    timer_.expires_after(std::chrono::nanoseconds(wait));
    timer_.async_wait([this, turn_number = ++turns_](const asio::error_code& error) {
      if (!error && turn_number == turns_) turn();
    });
  }

  FleetRoom room() {
    const api::Json totals = api::slot_totals(*box_.snapshot());
    std::uint64_t reserved = 0;
    for (const api::JobCounts& job : box_.snapshot()->jobs)
      if (job.declared) reserved += std::uint64_t{job.status.reserved} * plane_.cores();
    const auto shared = totals["shared_slots"].get<std::uint64_t>();
    std::uint64_t rate = 0;
    for (std::size_t port = 0; port < plane_.ports(); ++port)
      rate += plane_.rate(PortIndex{static_cast<std::uint16_t>(port)});
    return {.free_slots = shared > reserved ? shared - reserved : 0,
            .free_bytes = totals["own_free"].get<std::uint64_t>(),
            .rate = rate};
  }

  std::vector<SharedJob> shared_jobs() {
    std::vector<SharedJob> all;
    if (loop_.done()) return all;
    for (const auto& [i, job] : config::jobs_of<config::NativeConfig>(reload_.config())) {
      if (!job->boxes) continue;
      const auto here = loop_.members().engine().boxes_job(job->name);
      if (!here) continue;
      SharedJob& shared =
          all.emplace_back(SharedJob{job->name, here->workers, here->servers, here->token_check, *job->boxes,
                                     here->needs, here->no_room});
      shared.boxes.home = here->home;
    }
    return all;
  }

  std::string objection_to_home(const std::string& job, const members::HomeNeeds& needs) {
    for (std::size_t port = 0; port < plane_.ports(); ++port)
      if (plane_.link(PortIndex{static_cast<std::uint16_t>(port)}).up)
        return loop_.members().engine().objection_to_home(job, needs);
    return "no port of this box has a link";
  }

  Result<void> set_home(const std::string& job, const Ipv6& home) {
    auto done = loop_.members().engine().set_home(job, home, steady_now());
    loop_.members().look(steady_now());
    return done;
  }

  // A moment for the farewell, which is on its way since the end began; without it the fleet waits for the lease.
  void leave_fleet() {
    if (!fleet_) return;
    const TimeNs end = steady_now() + kFarewell;
    fleet_->leave(steady_now());
    for (TimeNs now = steady_now(); now < end && !fleet_->left(); now = steady_now()) {
      fleet_->turn(now);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void tell_manager(TimeNs now) {
    const TimeNs interval = manager_.watchdog_interval();
    // A core that stands still for a quarter of the manager's patience is not called alive.
    if (interval != 0 && now >= watchdog_ + interval && loop_.box().longest_silence(now) < interval) {
      manager_.alive();
      watchdog_ = now;
    }
    if (now < status_at_ + kStatusInterval) return;
    status_at_ = now;
    claims_.hang_up();
    if (loop_.ending()) return;
    const members::MembershipEngine& jobs = loop_.members().engine();
    std::string status =
        std::to_string(jobs.running()) + " of " + std::to_string(jobs.declared()) + " jobs running";
    if (status == status_) return;
    status_ = std::move(status);
    manager_.status(status_);
  }

  asio::io_context& io_;
  asio::signal_set& signals_;
  asio::steady_timer timer_;
  const log::ServiceManager& manager_;
  const Claims& claims_;
  http::Exchange* const exchange_;  // nullptr: there is no HTTP
  EventFeed feed_{};
  Reload reload_;
  RunningPlane plane_;
  ControlLoop loop_;
  PlannerLink planner_;
  std::uint64_t turns_ = 0;
  api::TurnTimes turn_times_{};
  std::optional<FleetLink> fleet_{};
  ControlBox box_;
  std::optional<ControlServer> server_{};
  bool restarts_ = false;
  TimeNs watchdog_ = 0;
  TimeNs status_at_ = 0;
  std::string status_{};
};

}  // namespace

struct Daemon::Signals {
  Signals() {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) set.add(number);
  }
  asio::io_context io{1};
  asio::signal_set set{io};
};

Daemon::Daemon() : signals_(std::make_unique<Signals>()), manager_(log::ServiceManager::from_environment()) {
  std::signal(SIGPIPE, SIG_IGN);
}
Daemon::~Daemon() = default;

Result<Daemon::End> Daemon::run(const Start& start, io::DataPlane& plane, members::MembershipEngine engine,
                                bool hugepages, Doors doors) {
  const auto drain_ns = static_cast<TimeNs>(std::chrono::nanoseconds(start.drain).count());
  std::optional<http::Exchange> exchange;
  if (doors.http) exchange.emplace();
  std::unique_ptr<fleet::Store> store;
  if (!start.config.fleet.endpoints.empty()) {
    auto made = FleetLink::store_of(start.config);
    if (!made) return tl::unexpected<Error>(std::move(made.error()));
    store = std::move(*made);
  }
  Life life(signals_->io, signals_->set, manager_, start, plane, std::move(engine), drain_ns,
            std::move(doors.control), exchange ? &*exchange : nullptr, std::move(store));
  std::unique_ptr<http::HttpServer> server;
  if (exchange) {
    auto made = http::HttpServer::start({.exchange = *exchange,
                                         .version = TALLY_VERSION,
                                         .instance = start.config.instance,
                                         .listener = std::move(doors.http)},
                                        start.config.dataplane.cores);
    if (!made) return tl::unexpected<Error>(std::move(made.error()));
    server = std::move(*made);
  }
  const std::string what = summary(start.config);
  log_line(LogLevel::kInfo, "ready: " + what + ", " + (hugepages ? "hugepages" : "ordinary memory") +
                                ", kernels " + std::string(kernels::best_kernels().name));
  manager_.ready(what);
  const End end = life.run();
  server.reset();  // who follows sees the end before the cores stop
  // From here on a signal ends the process, should a core never return.
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, SIG_DFL);
  plane.stop();
  const bool told = life.tell_final_counters(start.final_counters);
  log_line(LogLevel::kInfo, "ended");
  return end == End::kOver && !told ? End::kUntold : end;
}

}  // namespace tally::daemon
