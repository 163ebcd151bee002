#include "demo_worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "demo_jobs.h"
#include "demo_record.h"
#include "kernels.h"
#include "sum_check.h"
#include "tally/worker.h"
#include "value_stream.h"

namespace tally {
namespace {

// A batch is in flight at a time, as frameworks send gradients in buckets: all its tensors at once, or one
// that is larger alone.
constexpr std::uint64_t kBatchElements = (64 << 20) / sizeof(float);
constexpr std::chrono::seconds kPatience{120};  // for a tensor; the demo is to end, whatever happens

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Tensor {
  std::uint32_t number = 0;
  std::uint64_t first = 0;  // parameter of the model
  std::vector<float> values{};
  std::optional<Operation> operation{};
};

class DemoWorker {
 public:
  DemoWorker(Worker& worker, const WorkerMembership& membership, const DemoModel& model,
             const DemoOptions& options)
      : worker_(worker), membership_(membership), model_(model), options_(options) {}

  Result<void> run() {
    say({.kind = DemoRecord::Kind::kJoined});
    for (std::uint32_t i = 0; i < options_.iterations; ++i) {
      if (auto done = iterate(i); !done) return done;
    }
    if (auto done = worker_.leave(kPatience); !done) return done;
    const auto statistics = worker_.statistics();
    total_.kind = DemoRecord::Kind::kFinished;
    total_.retransmissions = statistics.retransmissions + statistics.queries;
    total_.epochs = statistics.epochs;
    say(total_);
    return {};
  }

 private:
  Result<void> iterate(std::uint32_t iteration);
  Result<void> reduce(std::vector<Tensor>& batch);
  Result<void> give_up(const std::vector<Tensor>& batch, const Error& why);
  void check(const Tensor& tensor, std::uint32_t iteration);
  void say(const DemoRecord& record) const;

  Worker& worker_;
  const WorkerMembership& membership_;
  const DemoModel& model_;
  const DemoOptions& options_;
  DemoRecord total_{};
};

Result<void> DemoWorker::iterate(std::uint32_t iteration) {
  const ValueStream stream(options_.seed, iteration, membership_.rank);
  std::uint32_t next = 0;
  std::uint64_t first = 0;
  while (next < model_.tensors.size()) {
    std::vector<Tensor> batch;
    std::uint64_t elements = 0;
    const double making = cpu_seconds();
    while (next < model_.tensors.size() &&
           (batch.empty() || elements + model_.tensors[next] <= kBatchElements)) {
      const std::uint32_t n = model_.tensors[next];
      auto& tensor =
          batch.emplace_back(Tensor{.number = next, .first = first, .values = std::vector<float>(n)});
      fill(tensor.values, stream, first, tensor_scale(options_.seed, next));
      first += n;
      elements += n;
      ++next;
    }
    total_.making_s += cpu_seconds() - making;
    if (auto done = reduce(batch); !done) return done;
    const double checking = cpu_seconds();
    for (const auto& tensor : batch) check(tensor, iteration);
    total_.checking_s += cpu_seconds() - checking;
  }
  return {};
}

// The ranks begin together, so that the time is of the reduction and not of a rank that is still checking.
Result<void> DemoWorker::reduce(std::vector<Tensor>& batch) {
  if (const auto together = worker_.barrier_async().wait(kPatience); !together)
    return tl::unexpected<Error>(together.error());
  const double begun = wall_seconds();
  for (auto& tensor : batch) tensor.operation = worker_.allreduce_async(std::span<float>(tensor.values));
  for (const auto& tensor : batch) {
    const auto stats = tensor.operation->wait(kPatience);
    if (!stats) return give_up(batch, stats.error());
  }
  total_.reducing_s += wall_seconds() - begun;
  return {};
}

// The values are libtally's until their operations have ended.
Result<void> DemoWorker::give_up(const std::vector<Tensor>& batch, const Error& why) {
  worker_.abort("rank " + std::to_string(membership_.rank) + " gave up: " + why.text());
  for (const auto& tensor : batch) (void)tensor.operation->wait();
  return tl::unexpected<Error>(why);
}

void DemoWorker::check(const Tensor& tensor, std::uint32_t iteration) {
  const auto result = check_sums(tensor.values, tensor.first, tensor_scale(options_.seed, tensor.number),
                                 {options_.seed, iteration, membership_.world, membership_.elements});
  if (result.wrong > 0) {
    std::fprintf(stderr,
                 "iteration %u, tensor %u: %lu elements WRONG; the first is element %lu: %.9g, not %.9g\n",
                 iteration, tensor.number, result.wrong, result.first_wrong, result.got, result.expected);
  }
  total_.largest_error = std::max(total_.largest_error, result.largest_error);
  const auto bytes = std::as_bytes(std::span(tensor.values));
  say({.kind = DemoRecord::Kind::kTensor,
       .iteration = iteration,
       .tensor = tensor.number,
       .crc = best_kernels().crc32c(bytes.data(), bytes.size()),
       .wrong = result.wrong});
}

void DemoWorker::say(const DemoRecord& record) const {
  // The parent is gone: nobody wants to know, and PR_SET_PDEATHSIG ends this process.
  if (write(kRecordsFd, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) _exit(1);
}

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  return 1;
}

}  // namespace

int run_demo_worker(const DemoOptions& options) {
  const auto how = WorkerOptions::from_environment();
  if (!how) return complain(how.error());
  const DemoModel* const model = find_model(how->job);
  if (model == nullptr) return complain({.what = "the demo has no job '" + how->job + "'"});
  auto worker = Worker::join(*how);
  if (!worker) return complain(worker.error());
  const auto membership = worker->membership();
  if (!membership) return complain(worker->why_closed().value_or(Error{}));
  DemoWorker demo(*worker, *membership, *model, options);
  const auto done = demo.run();
  return done ? 0 : complain(done.error());
}

}  // namespace tally
