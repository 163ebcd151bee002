#pragma once
// CPU time of another process of this machine.

#include <time.h>

#include <sys/types.h>

namespace tally::bench {

// Of all its threads, so far, in seconds; 0 if there is none with this number.
inline double process_cpu_seconds(pid_t process) noexcept {
  clockid_t clock{};
  timespec t{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace tally::bench
