#pragma once
// The clients of the control interface: lines in, answers out, one request of all clients in each round of
// the event loop, so that signals and the control loop's turns come in between; after one that took its time
// the next waits as long, so that at least half of the thread's time is left. A client is not read while its
// last answer is not written: what it costs is a line and an answer, however slow it is. Answers that grow
// with the box are made piece by piece, as the client takes them, and each piece is as a request. Who follows
// events and reads slowly loses some, and is told how many. Owner: the control thread.

#include <cstddef>
#include <memory>
#include <string>

#include "api/api.h"
#include "daemon/control_socket.h"
#include "daemon/log.h"
#include "tally/time.h"

// Not by its header: asio allocates in another way where nothing of the standard library stands before it, and
// all sources must agree.
namespace asio {
class io_context;
}

namespace tally::daemon {

struct ControlLimits {
  std::size_t clients = 64;
  std::size_t reserved = 8;    // beside them, for those who may change things
  TimeNs dear = kMillisecond;  // what requests have cost when the next one waits as long
  TimeNs idle =
      60 * kSecond;  // without a whole request or a byte of an answer taken; who follows may be silent
  std::size_t events = 256;  // that wait for a client
};

class ControlServer {
 public:
  // io and box outlive it. Serves from now on, whenever io runs.
  ControlServer(asio::io_context& io, ControlSocket socket, api::Box& box, LogSink log,
                ControlLimits limits = {});
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Nobody is answered any more, and the socket is removed.
  ~ControlServer();

  [[nodiscard]] std::size_t clients() const noexcept;

  // Clients that follow events.
  [[nodiscard]] std::size_t followers() const noexcept;
  // line: of api::event_line(). Does not wait for anybody.
  void tell(const std::string& line);

 private:
  class Hall;
  std::shared_ptr<Hall> hall_;  // what waits on io may outlive the server, and does nothing then
};

}  // namespace tally::daemon
