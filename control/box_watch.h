#pragma once
// Links that come and go, cores that stand still, memory that runs out: looked at every kBoxLook, told once.
// Pure. Owner: the control thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "log.h"
#include "log_limit.h"
#include "plane.h"
#include "tally/time.h"

namespace tally {

inline constexpr TimeNs kBoxLook = 100 * kMillisecond;
// An idle core sleeps 1 ms at most, so this is no sleep.
inline constexpr TimeNs kStalled = 100 * kMillisecond;

class BoxWatch {
 public:
  BoxWatch(const Plane& plane, LogSink log, TimeNs now);

  void look(TimeNs now);
  // How long ago the core did its last turn that we know of, of the core for which that is longest.
  [[nodiscard]] TimeNs longest_silence(TimeNs now) const;

 private:
  [[nodiscard]] TimeNs silence(std::size_t core, TimeNs now) const;
  void look_at_links();
  void look_at_cores(TimeNs now);
  void look_at_memory(TimeNs now);
  void look_at_punts(TimeNs now);

  const Plane& plane_;
  LogSink log_;
  TimeNs started_;
  std::vector<bool> link_up_;
  std::vector<TimeNs> stalled_since_;  // 0: it runs
  std::uint64_t no_mbuf_ = 0;
  std::uint64_t punts_lost_ = 0;
  LogLimit memory_lines_{1, 60 * kSecond};
  LogLimit punt_lines_{1, 60 * kSecond};
};

}  // namespace tally
