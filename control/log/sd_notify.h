#pragma once
// Tells the service manager how the daemon is (sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET
// names. Without it every call does nothing. Owner: the control thread.

#include <string>
#include <string_view>

#include "tally/time.h"
#include "tally/unique_fd.h"

namespace tally::log {

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  [[nodiscard]] static ServiceManager from_environment();

  // status: one line, what `systemctl status` shows.
  void ready(std::string_view status) const noexcept;
  void stopping(std::string_view status) const noexcept;
  void status(std::string_view text) const noexcept;
  void alive() const noexcept;  // WATCHDOG=1

  // How often alive() is due: a quarter of the manager's patience; 0 when it does not watch.
  [[nodiscard]] TimeNs watchdog_interval() const noexcept { return watchdog_; }

 private:
  void send(const std::string& message) const noexcept;

  UniqueFd socket_;
  std::string address_{};  // path; an abstract one begins with a zero byte
  TimeNs watchdog_ = 0;
};

}  // namespace tally::log
