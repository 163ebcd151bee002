#pragma once
// What happens, told to the clients that follow, of the control interface and of HTTP: lines of the log with what they are about, and what is
// noticed for them alone. Costs a comparison while nobody follows and there is no HTTP. Owner: the control thread.

#include <cstdint>
#include <map>

#include "daemon/control_server.h"
#include "daemon/log.h"
#include "daemon/member_loop.h"
#include "daemon/plane.h"
#include "http/exchange.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::daemon {

class EventFeed {
 public:
  EventFeed() = default;
  EventFeed(const EventFeed&) = delete;  // sinks refer to it
  EventFeed& operator=(const EventFeed&) = delete;

  // Who takes the events from now on; nullptr: nobody. It outlives the feed, or is taken away first.
  void send_to(ControlServer* server) noexcept { server_ = server; }
  // Likewise, who remembers them for those that come over HTTP.
  void send_to(http::Exchange* exchange) noexcept { http_ = exchange; }
  // Writes a line to the log, and tells it. The feed outlives it.
  [[nodiscard]] LogSink sink();
  // Slots that were taken from jobs since the last look, at most once a second.
  void look_at_evictions(const Plane& plane, const JobWatch& jobs, TimeNs now);

 private:
  [[nodiscard]] bool heard() const noexcept;
  void tell(LogLevel level, std::string_view text, const About& about);

  ControlServer* server_ = nullptr;
  http::Exchange* http_ = nullptr;
  std::uint64_t number_ = 0;
  TimeNs looked_ = 0;
  std::map<JobId, std::uint64_t> evicted_{};  // at the last look
};

}  // namespace tally::daemon
