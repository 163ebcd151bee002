#pragma once
// The control thread: signals and timers around the control loop.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "daemon/claims.h"
#include "daemon/control_socket.h"
#include "daemon/made_jobs.h"
#include "io/data_plane.h"
#include "log/sd_notify.h"
#include "members/membership.h"
#include "planning/desk.h"
#include "tally/unique_fd.h"

namespace tally::daemon {

// Takes the signals from its construction on, so that none is lost or fatal while the box starts.
class Daemon {
 public:
  Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  struct Start {
    planning::Desk& desk;     // of `members`' plans; outlives the run
    std::string path{};       // of the configuration, read again with SIGHUP
    std::string program{};    // the file that takes this process's place with End::kRestart
    config::Config config{};  // with which the box has started
    std::chrono::seconds drain{};
    const Claims* claims = nullptr;  // outlive the run
    Keeping keeping{};               // of the jobs of job.add
    UniqueFd final_counters{};       // a file that gets them as JSON at the end; none: nobody wants them
  };
  enum class End : std::uint8_t {
    kOver,
    kUntold,   // over, and the final counters could not be written, which the log says
    kRestart,  // a new daemon is to take its place
  };

  // Where it is found, if anywhere.
  struct Doors {
    std::optional<ControlSocket> control{};    // by tallyctl
    UniqueFd http{};                           // by browsers and Prometheus; listens
    std::optional<ControlSocket> http_file{};  // whose socket that is, if it is a Unix socket
  };

  // Runs until SIGTERM or SIGINT, or SIGUSR2, have ended it, and stops the cores of `plane`. Fails where HTTP cannot
  // begin.
  [[nodiscard]] Result<End> run(const Start& start, io::DataPlane& plane, members::MembershipEngine engine,
                                bool hugepages, Doors doors);

 private:
  struct Signals;
  std::unique_ptr<Signals> signals_;
  log::ServiceManager manager_;
};

}  // namespace tally::daemon
