#pragma once
// A thread beside those that work on packets: it takes no signals and runs on no CPU of theirs.

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace tally {

// Where there is another CPU at all.
inline void keep_off(const std::vector<std::uint16_t>& cpus) noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (const std::uint16_t cpu : cpus) {
    if (cpu < CPU_SETSIZE) CPU_CLR(cpu, &allowed);
  }
  if (CPU_COUNT(&allowed) != 0) (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

// name: at most 15 bytes, for ps and debuggers. avoid: CPUs of the data cores. Throws std::system_error where there is
// no thread to be had.
template <class Function>
[[nodiscard]] std::thread background_thread(const char* name, const std::vector<std::uint16_t>& avoid,
                                            Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  struct Restored {
    const sigset_t& mask;
    ~Restored() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  };
  const Restored restored{before};
  return std::thread([name, avoid, run = std::move(function)] {
    (void)pthread_setname_np(pthread_self(), name);
    keep_off(avoid);
    run();
  });
}

}  // namespace tally
