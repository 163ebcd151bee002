#pragma once

#include <cstdint>

#include "perf/perf_options.h"
#include "perf/perf_report.h"
#include "perf/sum_check.h"
#include "tally/worker.h"

namespace tally::perf {

// The measurement of tally-perf: each size in turn, all ranks in step.

class PerfRun {
 public:
  // worker: joined; outlives this.
  PerfRun(Worker& worker, const PerfOptions& options, const WorkerMembership& membership) noexcept
      : worker_(worker), options_(options), membership_(membership) {}

  // Warm-up and measured operations of one size, then the counts of all ranks. All ranks call it with the
  // same sizes in the same order. Errors are the worker's.
  [[nodiscard]] Result<PerfRow> measure(std::uint64_t bytes);
  // Wrong elements that this rank itself found, whatever the sum over all ranks said.
  [[nodiscard]] std::uint64_t wrong_here() const noexcept { return wrong_here_; }

 private:
  struct Totals;
  template <class T>
  Result<PerfRow> measure_as(std::size_t count);
  template <class T>
  Result<void> operate(std::span<T> values, std::span<const T> input, Totals& totals, bool measured);
  Result<OperationStats> finish(const Operation& operation);
  Result<PerfRow> of_all_ranks(std::uint64_t bytes, Totals& totals);

  Worker& worker_;
  const PerfOptions& options_;
  const WorkerMembership& membership_;
  std::uint64_t operations_ = 0;  // so far, the same at all ranks: the iteration of the values
  std::uint64_t sizes_ = 0;       // so far: the tensor of the values
  std::uint64_t wrong_here_ = 0;
};

}  // namespace tally::perf
