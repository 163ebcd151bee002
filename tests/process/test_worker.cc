// A worker as a program has it: joins, sums, checks every bit, leaves. It says what it does in JSON lines.
// Exit code 0: all was well; 1: an error was told; 2: wrong usage; 3: a sum was wrong.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tally/worker.h"
#include "worker_report.h"
#include "worker_script.h"
#include "worker_values.h"

namespace tally::test {
namespace {

enum ExitCode : int { kGood = 0, kFailed = 1, kWrong = 3 };

// One operation with its memory.
template <class T>
struct Sum {
  std::vector<std::vector<T>> buffers{};
  std::vector<std::span<T>> spans{};
  std::uint64_t first = 0;  // index of its first element in the iteration
  std::optional<Operation> operation{};
};

// The operations of one iteration, filled with this rank's values. None is moved once it is issued.
template <class T>
std::vector<Sum<T>> make_sums(const Script& script, const Values& values, std::uint32_t rank) {
  std::vector<Sum<T>> sums(script.operations.size());
  std::uint64_t next = 0;
  for (std::size_t n = 0; n < sums.size(); ++n) {
    sums[n].first = next;
    for (const std::size_t size : script.operations[n]) {
      fill(std::span(sums[n].buffers.emplace_back(size)), next, values, rank);
      next += size;
    }
    for (auto& buffer : sums[n].buffers) sums[n].spans.emplace_back(buffer);
  }
  return sums;
}

// A time-out of patience ends only this waiting; it is told, and the waiting goes on.
Result<OperationStats> wait_for(const Operation& operation, const Script& script) {
  while (script.patience.count() >= 0) {
    auto stats = operation.wait(script.patience);
    if (stats || stats.error().code != ErrorCode::kTimeout) return stats;
    if (operation.done()) break;
    Line("waiting").add("text", stats.error().text());
  }
  return operation.wait();
}

struct Outcome {
  std::optional<Error> error{};  // the first
  std::vector<std::uint32_t> crcs{};
  std::uint64_t wrong = 0;
  std::uint64_t retransmissions = 0;
  TimeNs began = kNever;  // the first operation
  TimeNs ended = 0;       // the last one
};

// Also after an error: the memory of an operation is in use until it is done.
template <class T>
Outcome wait_for_all(const std::vector<Sum<T>>& sums, const Script& script, const Values& values,
                     std::uint32_t world) {
  Outcome outcome;
  for (const Sum<T>& sum : sums) {
    const auto stats = wait_for(*sum.operation, script);
    if (!stats) {
      if (!outcome.error) outcome.error = stats.error();
      continue;
    }
    outcome.retransmissions += stats->retransmissions;
    outcome.began = std::min(outcome.began, stats->started);
    outcome.ended = std::max(outcome.ended, stats->finished);
    std::uint64_t first = sum.first;
    std::uint32_t crc = 0;
    for (const auto& buffer : sum.buffers) {
      outcome.wrong += count_wrong(std::span(buffer), first, values, world);
      crc = crc32c(crc, std::as_bytes(std::span(buffer)));
      first += buffer.size();
    }
    outcome.crcs.push_back(crc);
  }
  return outcome;
}

template <class T>
int iterate(Worker& worker, const Script& script, std::uint32_t iteration, std::uint32_t rank,
            std::uint32_t world) {
  const Values values{.seed = script.seed, .iteration = iteration};
  auto sums = make_sums<T>(script, values, rank);
  for (Sum<T>& sum : sums) {
    const ReduceOptions options{.timeout = script.timeout};
    sum.operation = sum.spans.size() == 1
                        ? worker.allreduce_async(sum.spans.front(), options)
                        : worker.allreduce_async(std::span<const std::span<T>>(sum.spans), options);
  }
  const Outcome outcome = wait_for_all(sums, script, values, world);
  if (outcome.error) {
    say_error("iteration", *outcome.error);
    return kFailed;
  }
  Line("iteration")
      .add("n", iteration)
      .add("crc", outcome.crcs)
      .add("wrong", outcome.wrong)
      .add("retransmissions", outcome.retransmissions)
      .add("began_us", outcome.began / kMicrosecond)
      .add("ended_us", outcome.ended / kMicrosecond);
  return outcome.wrong == 0 ? kGood : kWrong;
}

// Returns when a line came, or stdin ended.
void wait_for_a_word() {
  for (int c = 0; c != EOF && c != '\n';) c = std::getchar();
}

// Whether a line has come, or stdin has ended; returns at once. From then on it is true.
bool a_word_is_there() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) > 0;
}

// Whether any rank has been told to end: the ranks sum who was, so all know after the same iteration.
Result<bool> ends_here(Worker& worker) {
  std::int32_t told = a_word_is_there() ? 1 : 0;
  if (const auto stats = worker.allreduce_async(std::span(&told, 1)).wait(); !stats)
    return tl::unexpected(stats.error());
  return told > 0;
}

// One join, its iterations, its end. Returns an ExitCode.
int live(const Script& script, const WorkerOptions& options) {
  auto worker = Worker::join(options);
  if (!worker) {
    say_error("join", worker.error());
    return kFailed;
  }
  if (const auto membership = worker->membership()) say_joined(*membership);
  int outcome = kGood;
  bool told = false;
  for (std::uint32_t n = 0; n < script.iterations && !told && outcome == kGood; ++n) {
    if (std::ranges::find(script.pauses, n) != script.pauses.end()) {
      Line("paused").add("n", n);
      wait_for_a_word();
    }
    if (n > 0) std::this_thread::sleep_for(script.gap);
    outcome = script.int32 ? iterate<std::int32_t>(*worker, script, n, options.rank, options.world)
                           : iterate<float>(*worker, script, n, options.rank, options.world);
    if (!script.until_told || outcome != kGood) continue;
    const auto end = ends_here(*worker);
    if (!end) {
      say_error("iteration", end.error());
      outcome = kFailed;
    } else {
      told = *end;
    }
  }
  if (script.ending == Ending::kLeave && outcome == kGood) {
    if (const auto left = worker->leave(); !left) {
      say_error("leave", left.error());
      outcome = kFailed;
    }
  }
  say_statistics(worker->statistics());
  if (script.ending == Ending::kVanish) _exit(outcome);
  return outcome;
}

int all_lives(const Script& script, const WorkerOptions& options) {
  speak_for(options.rank);
  Line("started").add("pid", static_cast<std::uint64_t>(getpid()));
  for (std::uint32_t life = 0; life < script.lives; ++life) {
    if (const int outcome = live(script, options); outcome != kGood) return outcome;
  }
  return kGood;
}

// This rank, and its neighbours each in a thread of its own. Returns the worst of their exit codes.
int run(const Script& script, const WorkerOptions& options) {
  std::vector<int> outcomes(script.neighbours.size() + 1, kGood);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < script.neighbours.size(); ++i) {
    WorkerOptions other = options;
    other.rank = script.neighbours[i].rank;
    other.transport = script.neighbours[i].transport;
    other.address = script.neighbours[i].address;
    threads.emplace_back([&, i, other] { outcomes[i] = all_lives(script, other); });
  }
  outcomes.back() = all_lives(script, options);
  for (std::thread& thread : threads) thread.join();
  return *std::ranges::max_element(outcomes);
}

}  // namespace
}  // namespace tally::test

int main(int argc, char** argv) {
  using namespace tally::test;
  const Script script = parse_script(argc, argv);
  const auto options = tally::WorkerOptions::from_environment();
  if (!options) {
    say_error("options", options.error());
    return kFailed;
  }
  return run(script, *options);
}
