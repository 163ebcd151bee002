#pragma once
// The HTTP server around libmicrohttpd, one turn at a time: whoever has a thread for it calls turn(). It accepts
// connections itself, so that a process without descriptors closes what comes instead of spinning over it, and has
// a deadline for everything that a client can hold:
//
//   a connection      none beyond Limits::connections; closed when no whole request came for Limits::idle, whatever
//                     trickles in
//   a request         GET and HEAD without a body, of Limits::request_bytes
//   an answer         made once for all who ask within one snapshot; must be taken within Limits::answer
//   an event stream   none beyond Limits::streams; cut when it leaves Limits::unsent bytes unread, or takes nothing for
//                     Limits::answer
//   memory            of answers that are still being read, all together: Limits::kept; the slowest is cut first
//
// Each that is not served is counted by name (Refusal). No exception gets through libmicrohttpd, which is C.
// Owner: one thread.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "http/answers.h"
#include "http/exchange.h"
#include "http/limits.h"
#include "tally/error.h"
#include "tally/time.h"
#include "tally/unique_fd.h"

namespace tally::http {

class Shell {
 public:
  struct Options {
    Exchange& exchange;  // outlives the shell
    std::string version{};
    std::string instance{};
    UniqueFd listener{};  // does not block; none: only adopt() brings connections
    Limits limits{};
    std::function<TimeNs()> now = steady_now;  // as the exchange's
    // What a path answers; another one in tests.
    std::function<Answer(PathId, const Published*, const Own&)> answer = answer_to;
  };

  // Fails where the process has no descriptor or memory left.
  [[nodiscard]] static Result<std::unique_ptr<Shell>> make(Options options);
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  // Whoever is still there is cut off.
  ~Shell();

  // A connection that somebody else accepted.
  void adopt(UniqueFd connection);
  // Waits for something to do, `longest` milliseconds at most, and does it.
  void turn(int longest);
  // From here on nobody is accepted, streams end after what waits for them, and who has asked nothing is closed.
  void begin_to_end();
  [[nodiscard]] const HttpCounts& counts() const noexcept;

 private:
  class Body;
  explicit Shell(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace tally::http
