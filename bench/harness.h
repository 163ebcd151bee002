#pragma once
// Measures several things in one run, in turn (A B C A B C), and reports medians: the machine's speed swings
// between minutes, so only figures taken side by side may be compared.

#include <time.h>

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tally::bench {

struct Contender {
  std::string name;
  // Does one round of work and returns {seconds of the timed part, operations done in it}. Ends the process
  // with a message when a result is wrong: a fast wrong sum is no figure.
  std::function<std::pair<double, std::uint64_t>()> round;
};

struct Figure {
  std::string name;
  double median_ns = 0;  // per operation
  double min_ns = 0;
  double max_ns = 0;
};

// One warm-up round of each, then `rounds` of each, interleaved.
[[nodiscard]] std::vector<Figure> measure(std::vector<Contender>& contenders, int rounds);

// What a bench of one table does: measures, prints (times in `unit`, of which `per_ns` make a nanosecond) and
// writes to `file` unless that is empty.
void report(const std::string& file, std::vector<Contender>& contenders, int rounds, const char* unit,
            double per_ns);

// CPU, cores, governor, kernel, load, version: what a reader needs to judge a figure; and warnings about what
// spoils figures on this machine right now.
[[nodiscard]] nlohmann::json environment();
void print_environment();

// `--json FILE` from the command line; empty if absent. Ends the process (exit code 2) on anything else.
[[nodiscard]] std::string json_argument(int argc, char** argv);
// Ends the process (exit code 1) if it cannot. JSON: nothing where file is empty.
void write_text(const std::string& file, const std::string& text);
void write_json(const std::string& file, const nlohmann::json& results);

// Ends the process (exit code 1) when a result is wrong.
void require(bool right, const char* what);

// A round that other processes on the machine may have disturbed.
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
