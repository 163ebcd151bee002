#pragma once
// The one trace of a box: lends the data cores what they copy frames into, and takes it back when one of the
// limits is reached, or nobody reads any more. Pure. Owner: the control thread.

#include <cstdint>
#include <string>

#include "api/trace.h"
#include "daemon/plane.h"
#include "daemon/watch.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::daemon {

class Tracer {
 public:
  // plane, jobs: outlive it.
  Tracer(Plane& plane, const JobWatch& jobs) noexcept : plane_(plane), jobs_(jobs) {}

  // unix_ns: what is added to `now` makes the time of day.
  [[nodiscard]] Result<void> start(const api::TraceWish& wish, TimeNs now, std::uint64_t unix_ns);
  [[nodiscard]] api::TraceBatch read(TimeNs now);
  void stop() { end("it was stopped"); }
  [[nodiscard]] api::TraceStatus status() const;
  // In every turn of control.
  void turn(TimeNs now);

 private:
  static constexpr TimeNs kPatience = 10 * kSecond;  // with a reader that has gone

  void end(const std::string& why);
  [[nodiscard]] Result<io::TraceFilter> filter_of(const api::TraceWish& wish) const;
  [[nodiscard]] std::string comment_of(const io::TracedFrame& frame) const;
  [[nodiscard]] std::string job_name(std::uint16_t id) const;

  Plane& plane_;
  const JobWatch& jobs_;
  api::TraceStatus status_{};
  std::uint64_t unix_ns_ = 0;
  TimeNs until_ = 0;
  TimeNs read_at_ = 0;
};

}  // namespace tally::daemon
