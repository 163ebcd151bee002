#pragma once
// The control thread: signals and timers around the control loop.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "daemon/claims.h"
#include "daemon/control_socket.h"
#include "daemon/sd_notify.h"
#include "io/data_plane.h"
#include "members/membership.h"
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
    std::string path{};       // of the configuration, read again with SIGHUP
    config::Config config{};  // with which the box has started
    std::chrono::seconds drain{};
    const Claims* claims = nullptr;  // outlive the run
    UniqueFd final_counters{};  // a file that gets them as JSON at the end; none: nobody wants them
  };

  // Runs until SIGTERM or SIGINT have ended it, and stops the cores of `plane`. control: where tallyctl finds
  // it, if anywhere. False: the final counters could not be written, which the log says.
  [[nodiscard]] bool run(const Start& start, io::DataPlane& plane, members::MembershipEngine engine,
                         bool hugepages, std::optional<ControlSocket> control);

 private:
  struct Signals;
  std::unique_ptr<Signals> signals_;
  ServiceManager manager_;
};

}  // namespace tally::daemon
