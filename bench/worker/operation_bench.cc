// Where the time of one small operation goes, end to end: this process is one rank of a job at a running
// tallyd (tools/bench-worker --part steps starts all). Both ranks meet at a barrier, then sum; the time of
// every step is taken between the calling thread and the transport, without which nothing else is different.
// All ranks write what they saw.
//
//   TALLY_... tally_operation_bench --operations N --bytes N --type float|int32 --json FILE [--watch]
//
// --watch: counts the system calls and allocations of the calling thread and of the progress thread instead,
// and takes no time.

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/transport.h"
#include "call_watch.h"
#include "command_line.h"
#include "harness.h"
#include "tally/worker.h"

namespace tally::bench {
namespace {

// A transport that notes when what happens to one operation, and does everything else as the one inside it.
// Scheme 'traced': traced:udp, traced:dpdk:DEVICE. Owner threads as Transport's.

// Of one operation, steady_clock, ns; 0: it has not happened. The caller arms it, the progress thread writes.
struct OperationTrace {
  std::atomic<TimeNs> lent = 0;        // room for the first datagram was asked for
  std::atomic<TimeNs> first_sent = 0;  // the first burst is with the port or the kernel
  std::atomic<TimeNs> last_sent = 0;
  std::atomic<TimeNs> last_empty =
      0;  // receive() was called last without finding anything before the last result
  std::atomic<TimeNs> last_found = 0;  // receive() was called that found the last result
  std::atomic<TimeNs> last_taken = 0;  // ... and has handed it to the engine
  std::atomic<bool> armed = false;

  // The caller's thread, with no operation under way.
  void arm() noexcept;
};

// Transports that are opened while a thread has one of these belong to it.
extern thread_local OperationTrace* trace_to_open;
// Called by progress threads before their first turn, if set; for watching them. Set before threads exist.
extern std::function<void()> on_attach;

void register_traced_transport();

thread_local OperationTrace* trace_to_open = nullptr;
std::function<void()> on_attach;

void OperationTrace::arm() noexcept {
  for (auto* each : {&lent, &first_sent, &last_sent, &last_empty, &last_found, &last_taken}) *each = 0;
  armed.store(true, std::memory_order_release);
}

class TracedTransport final : public Transport {
 public:
  TracedTransport(std::unique_ptr<Transport> inside, OperationTrace& trace)
      : inside_(std::move(inside)), trace_(trace) {}

  Result<void> attach() override {
    auto attached = inside_->attach();
    if (on_attach) on_attach();
    return attached;
  }
  std::uint16_t most_elements() const noexcept override { return inside_->most_elements(); }
  std::size_t receive(const DatagramSink& sink) override {
    if (!armed()) return inside_->receive(sink);
    const TimeNs begun = steady_now();
    const std::size_t handed = inside_->receive(sink);
    if (trace_.first_sent == 0) return handed;
    if (handed == 0) {
      empty_ = begun;
    } else {
      trace_.last_empty = empty_;
      trace_.last_found = begun;
      trace_.last_taken = steady_now();
    }
    return handed;
  }
  std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) override {
    if (armed()) first(trace_.lent);
    return inside_->lend(wanted, bytes);
  }
  void send(std::size_t filled) override {
    inside_->send(filled);
    if (!armed() || filled == 0) return;
    first(trace_.first_sent);
    trace_.last_sent = steady_now();
    empty_ = trace_.last_sent;
  }
  void joined(const engine::Membership& membership) override { inside_->joined(membership); }
  void wait(TimeNs now, TimeNs until) override { inside_->wait(now, until); }
  void wake() noexcept override { inside_->wake(); }
  std::string describe() const override { return inside_->describe(); }
  std::string trouble() const override { return inside_->trouble(); }

 private:
  [[nodiscard]] bool armed() const noexcept { return trace_.armed.load(std::memory_order_acquire); }
  static void first(std::atomic<TimeNs>& when) noexcept {
    if (when == 0) when = steady_now();
  }

  std::unique_ptr<Transport> inside_;
  OperationTrace& trace_;
  TimeNs empty_ = 0;
};

Result<std::unique_ptr<Transport>> open(const TransportOptions& options) {
  auto inside = make_transport(options.device, options);
  if (!inside) return inside;
  return std::unique_ptr<Transport>(std::make_unique<TracedTransport>(std::move(*inside), *trace_to_open));
}

void register_traced_transport() { register_transport("traced", &open); }

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
  tally::bench::CommandLine line("Where the time of one small operation goes.");
  line.option("--operations", words.operations);
  line.option("--bytes", words.bytes).range(4, 1 << 26);
  line.option("--type", words.type).one_of({"float", "int32"});
  line.option("--json", words.json).required();
  line.flag("--watch", words.watch);
  line.parse(argc, argv);
  return tally::bench::run(words);
}
