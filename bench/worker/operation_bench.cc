// Where the time of one small operation goes, end to end: this process is one rank of a job at a running
// tallyd (tools/bench-worker --part steps starts all). Both ranks meet at a barrier, then sum; the time of
// every step is taken between the calling thread and the transport, without which nothing else is different.
// All ranks write what they saw.
//
//   TALLY_... tally_operation_bench --operations N --bytes N --type float|int32 --json FILE [--watch]
//
// --watch: counts the system calls and allocations of the calling thread and of the progress thread instead,
// and takes no time.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "call_watch.h"
#include "harness.h"
#include "tally/worker.h"
#include "traced_transport.h"

namespace tally::bench {
namespace {

struct Words {
  std::uint32_t operations = 500;
  std::size_t bytes = 4;
  std::string type = "int32";
  std::string json;
  bool watch = false;
};

constexpr std::uint32_t kWarmUp = 50;

int complain(const Error& error) {
  std::fprintf(stderr, "tally_operation_bench: %s\n", error.text().c_str());
  return 1;
}

// The progress thread blocks all signals, and a trap that is blocked is deadly.
void watch() {
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGSYS);
  pthread_sigmask(SIG_UNBLOCK, &trap, nullptr);
  const std::string why_not = e2e::watch_this_thread();
  require(why_not.empty(), why_not.c_str());
}

// Every rank contributes 1, so each sum is the number of ranks.
template <class T>
int measure(Worker& worker, OperationTrace& trace, const Words& words, std::uint16_t world) {
  std::vector<T> values(words.bytes / sizeof(T));
  nlohmann::json rows = nlohmann::json::array();
  for (std::uint32_t i = 0; i < kWarmUp + words.operations; ++i) {
    std::fill(values.begin(), values.end(), T{1});
    if (const auto together = worker.barrier(); !together) return complain(together.error());
    trace.arm();
    const TimeNs called = steady_now();
    const Operation operation = worker.allreduce_async(std::span(values));
    const TimeNs submitted = steady_now();
    const auto done = operation.wait();
    const TimeNs returned = steady_now();
    trace.armed = false;
    if (!done) return complain(done.error());
    for (const T value : values) require(value == static_cast<T>(world), "a sum is wrong");
    if (i >= kWarmUp)
      rows.push_back({called, submitted, trace.lent.load(), trace.first_sent.load(), trace.last_sent.load(),
                      trace.last_empty.load(), trace.last_found.load(), trace.last_taken.load(), returned,
                      done->retransmissions});
  }
  write_json(words.json, {{"columns",
                           {"called", "submitted", "lent", "first_sent", "last_sent", "last_empty",
                            "last_found", "last_taken", "returned", "sent_again"}},
                          {"rows", std::move(rows)}});
  return 0;
}

template <class T>
int count(Worker& worker, const Words& words) {
  std::vector<T> values(words.bytes / sizeof(T));
  for (std::uint32_t i = 0; i < kWarmUp; ++i)
    if (const auto done = worker.allreduce_async(std::span(values)).wait(); !done)
      return complain(done.error());
  e2e::begin_counting();
  for (std::uint32_t i = 0; i < words.operations; ++i)
    if (const auto done = worker.allreduce_async(std::span(values)).wait(); !done)
      return complain(done.error());
  const e2e::WatchedCounts counts = e2e::end_counting();
  write_json(words.json, {{"operations", words.operations},
                          {"system_calls", counts.system_calls},
                          {"allocator_calls", counts.allocations},
                          {"locks", counts.locks},
                          {"names", counts.names}});
  return 0;
}

template <class T>
int run_as(Worker& worker, OperationTrace& trace, const Words& words, std::uint16_t world) {
  return words.watch ? count<T>(worker, words) : measure<T>(worker, trace, words, world);
}

int run(const Words& words) {
  auto options = WorkerOptions::from_environment();
  if (!options) return complain(options.error());
  register_traced_transport();
  OperationTrace trace;
  trace_to_open = &trace;
  options->transport = "traced:" + options->transport;
  if (words.watch) on_attach = &watch;
  auto worker = Worker::join(*options);
  if (!worker) return complain(worker.error());
  if (words.watch) watch();
  const int code = words.type == "float" ? run_as<float>(*worker, trace, words, options->world)
                                         : run_as<std::int32_t>(*worker, trace, words, options->world);
  if (code != 0) return code;
  if (const auto left = worker->leave(); !left) return complain(left.error());
  return 0;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Words words;
  CLI::App app{"Where the time of one small operation goes."};
  app.add_option("--operations", words.operations);
  app.add_option("--bytes", words.bytes)->check(CLI::Range(4, 1 << 26));
  app.add_option("--type", words.type)->check(CLI::IsMember({"float", "int32"}));
  app.add_option("--json", words.json)->required();
  app.add_flag("--watch", words.watch);
  CLI11_PARSE(app, argc, argv);
  return tally::bench::run(words);
}
