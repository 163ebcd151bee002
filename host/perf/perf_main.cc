// tally-perf: the allreduce benchmark of a job's workers; one process per rank.

#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "perf/interrupt_watch.h"
#include "perf/perf_options.h"
#include "perf/perf_report.h"
#include "perf/sum_check.h"
#include "tally/worker.h"

namespace tally::perf {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(const Error& error, int code) {
  std::fprintf(stderr, "tally-perf: %s\n", error.text().c_str());
  return code;
}

// Counts travel as int32; sums of 64 ranks stay inside.
constexpr std::uint64_t kMostCounted = 1 << 24;

std::int32_t counted(std::uint64_t n) { return static_cast<std::int32_t>(std::min(n, kMostCounted)); }

// The measurement: each size in turn, all ranks in step.
class PerfRun {
 public:
  // worker: joined; outlives this.
  PerfRun(Worker& worker, const PerfOptions& options, const WorkerMembership& membership) noexcept
      : worker_(worker), options_(options), membership_(membership) {}

  // Warm-up and measured operations of one size, then the counts of all ranks. All ranks call it with the
  // same sizes in the same order. Errors are the worker's.
  Result<PerfRow> measure(std::uint64_t bytes) {
    ++sizes_;
    return options_.type == PerfType::kInt32 ? measure_as<std::int32_t>(bytes / sizeof(std::int32_t))
                                             : measure_as<float>(bytes / sizeof(float));
  }

 private:
  [[nodiscard]] ReduceOptions reduce_options() const {
    ReduceOptions options;
    if (options_.type == PerfType::kInt16) options.wire = WireType::kInt16;
    if (options_.type == PerfType::kExact) options.wire = WireType::kExact;
    return options;
  }
  [[nodiscard]] bool has_zeros() const noexcept { return options_.zeros && membership_.rank != 0; }

  struct Totals {
    std::vector<double> us{};
    std::uint64_t retransmissions = 0;
    std::uint64_t packets = 0;  // of the newest operation
    SumCheckResult checked{};
  };

  template <class T>
  Result<PerfRow> measure_as(std::size_t count) {
    std::vector<T> values(count);
    std::vector<T> input;
    if (!options_.check) {  // sums overwrite the values, and sums of sums would grow without end
      const ValueStream stream(options_.seed, 0, membership_.rank);
      input.resize(count);
      if (!has_zeros()) fill(std::span(input), stream, 0, tensor_scale(options_.seed, sizes_));
    }
    Totals totals;
    for (std::uint32_t i = 0; i < options_.warm_up + options_.iterations; ++i) {
      if (const auto done = operate<T>(values, input, totals, i >= options_.warm_up); !done)
        return tl::unexpected<Error>(done.error());
    }
    return of_all_ranks(count * sizeof(T), totals);
  }

  template <class T>
  Result<void> operate(std::span<T> values, std::span<const T> input, Totals& totals, bool measured) {
    const float scale = tensor_scale(options_.seed, sizes_);
    const ValueStream stream(options_.seed, ++operations_, membership_.rank);
    if (!options_.check)
      std::copy(input.begin(), input.end(), values.begin());
    else if (has_zeros())
      std::fill(values.begin(), values.end(), T{});
    else
      fill(values, stream, 0, scale);
    // Without it a rank's time would contain how late the others came from filling and checking.
    if (const auto together = finish(worker_.barrier_async()); !together)
      return tl::unexpected<Error>(together.error());
    const auto begun = std::chrono::steady_clock::now();
    const auto stats = finish(worker_.allreduce_async(values, reduce_options()));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    if (!stats) return tl::unexpected<Error>(stats.error());
    if (measured) totals.us.push_back(took.count());
    totals.retransmissions += measured ? stats->retransmissions : 0;
    totals.packets = stats->chunks;
    if (!options_.check) return {};
    totals.checked.add(check_sums(values, 0, scale,
                                  {.seed = options_.seed,
                                   .iteration = operations_,
                                   .world = membership_.world,
                                   .elements = membership_.elements,
                                   .valued = options_.zeros ? std::uint32_t{1} : membership_.world,
                                   .bits = bits_of(options_.type)}));
    return {};
  }

  Result<OperationStats> finish(const Operation& operation) {
    auto stats = operation.wait(options_.timeout);
    if (!stats && stats.error().code == ErrorCode::kTimeout) {
      worker_.abort("rank " + std::to_string(membership_.rank) + " gave up: " + stats.error().text());
      (void)operation.wait();  // the values are libtally's until then
    }
    return stats;
  }

  Result<PerfRow> of_all_ranks(std::uint64_t bytes, Totals& totals) {
    std::array<std::int32_t, 2> counts{counted(totals.retransmissions), counted(totals.checked.wrong)};
    const auto summed = finish(worker_.allreduce_async(std::span<std::int32_t>(counts)));
    if (!summed) return tl::unexpected<Error>(summed.error());
    return PerfRow{.bytes = bytes,
                   .us = summarise(std::move(totals.us)),
                   .packets = totals.packets,
                   .retransmissions = static_cast<std::uint64_t>(counts[0]),
                   .wrong = std::max(static_cast<std::uint64_t>(counts[1]), totals.checked.wrong),
                   .largest_error = totals.checked.largest_error};
  }

  Worker& worker_;
  const PerfOptions& options_;
  const WorkerMembership& membership_;
  std::uint64_t operations_ = 0;  // so far, the same at all ranks: the iteration of the values
  std::uint64_t sizes_ = 0;       // so far: the tensor of the values
};

PerfSetting setting_of(const WorkerOptions& worker, const WorkerMembership& membership) {
  return {.machine = read_machine(),
          .job = worker.job,
          .transport = worker.transport,
          .rank = membership.rank,
          .world = membership.world,
          .elements = membership.elements,
          .window = membership.window,
          .ipv6 = worker.box.find(':') != std::string::npos,
          .poll = worker.poll};
}

int measure_all(Worker& worker, const WorkerOptions& how, const PerfOptions& options) {
  const auto membership = worker.membership();
  if (!membership) return complain(worker.why_closed().value_or(Error{}), kFailed);
  const PerfSetting setting = setting_of(how, *membership);
  const bool prints = options.all_ranks || how.rank == 0;
  if (prints) std::fputs(perf_head(options, setting).c_str(), stdout);
  PerfRun run(worker, options, *membership);
  std::vector<PerfRow> rows;
  std::uint64_t wrong = 0;
  for (const auto bytes : perf_sizes(options)) {
    auto row = run.measure(bytes);
    if (!row) return complain(row.error(), kFailed);
    wrong += row->wrong;
    rows.push_back(*row);
    if (prints) std::fputs(perf_line(options, setting, rows.back()).c_str(), stdout);
    std::fflush(stdout);
  }
  if (const auto left = worker.leave(); !left) return complain(left.error(), kFailed);
  bool written = true;
  if (how.rank == 0) {
    written = write_result_file("tally-perf", options.json, perf_json(options, setting, rows)) && written;
    written = write_result_file("tally-perf", options.csv, perf_csv(options, setting, rows)) && written;
  }
  if (wrong > 0) std::fprintf(stderr, "tally-perf: rank %d: %lu elements were WRONG\n", how.rank, wrong);
  return written && wrong == 0 ? 0 : kFailed;
}

int run(int argc, char** argv) {
  auto parsed = parse_perf_options(argc, argv);
  if (!parsed) {
    complain(parsed.error(), kUsage);
    std::fputs("Try 'tally-perf --help'.\n", stderr);
    return kUsage;
  }
  if (const auto* help = std::get_if<PerfHelp>(&*parsed)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  const auto how = WorkerOptions::from_environment();
  if (!how) return complain(how.error(), kUsage);

  std::atomic<Worker*> joined = nullptr;
  InterruptWatch watch([&joined, rank = how->rank](int signal) {
    if (Worker* const worker = joined.exchange(nullptr))
      worker->abort("rank " + std::to_string(rank) + " was interrupted");  // the others need not wait
    else
      _exit(128 + signal);
  });
  auto worker = Worker::join(*how);
  if (!worker) return complain(worker.error(), kFailed);
  joined = &*worker;
  const int code = measure_all(*worker, *how, std::get<PerfOptions>(*parsed));
  joined = nullptr;
  return watch.signal() != 0 ? 128 + watch.signal() : code;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  try {
    return tally::perf::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-perf: %s\n", e.what());
    return 1;
  }
}
