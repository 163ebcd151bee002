#pragma once
// Times rounds that other processes on the machine may disturb.

#include <sys/resource.h>
#include <time.h>

#include <cstdint>
#include <utility>

namespace tally::bench {

struct Round {
  double seconds = 0;  // CPU time of the thread: what is measured never sleeps
  std::uint64_t operations = 0;
  bool disturbed = false;  // the kernel gave the core to somebody else in between, who used its caches
};

class RoundTimer {
 public:
  RoundTimer() : switches_(switches()), start_(now()) {}
  [[nodiscard]] Round done(std::uint64_t operations) const {
    const double seconds = now() - start_;
    return {seconds, operations, switches() != switches_};
  }

 private:
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  static long switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

  long switches_;
  double start_;
};

// As Contender::round wants it: repeats a disturbed round, a few times.
template <class Rounds>
std::pair<double, std::uint64_t> undisturbed(Rounds& rounds) {
  constexpr int kTries = 10;
  Round round;
  for (int i = 0; i < kTries; ++i) {
    round = rounds.round();
    if (!round.disturbed) break;
  }
  return {round.seconds, round.operations};
}

}  // namespace tally::bench
