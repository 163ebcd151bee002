// A worker of `make demo` (tools/demo, tools/demo-fleet): sums a model's gradients again and again and checks every sum. Who it
// is comes from TALLY_* (worker.h); what it does is told in lines on stdout:
//
// joined: all ranks are there
// tensor ITERATION NUMBER ELEMENTS CRC WRONG: a sum; CRC32C of its bytes, elements outside the bound
// finished RETRANSMISSIONS ERROR REDUCING VERIFYING: all of them; the largest error in parts of its bound,
//   seconds with sums under way, and of CPU for the values and their checks

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "layer_list.h"
#include "perf/sum_check.h"
#include "tally/worker.h"

namespace tally::bench {
namespace {

// A batch is in flight at a time, as frameworks send gradients in buckets: all its tensors at once, or one
// that is larger alone.
constexpr std::uint64_t kBatchElements = (64 << 20) / sizeof(float);
constexpr std::chrono::seconds kPatience{120};  // for a tensor; the demo is to end, whatever happens

// Each divided, to have a small model of the same shape.
std::vector<std::uint32_t> tensors_of(std::string_view model, std::uint32_t divisor) {
  std::span<const std::uint32_t> tensors;
  if (model == "resnet50") tensors = kResnet50;
  if (model == "bert") tensors = kBertBase;
  if (model == "dlrm") tensors = kDlrm;
  if (tensors.empty()) throw std::invalid_argument("there is no model " + std::string(model));
  std::vector<std::uint32_t> sizes;
  for (const auto size : tensors) sizes.push_back(std::max(1U, size / divisor));
  return sizes;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Tensor {
  std::uint32_t number = 0;
  std::uint64_t first = 0;  // parameter of the model
  std::vector<float> values{};
  std::optional<Operation> operation{};
};

class DemoWorker {
 public:
  DemoWorker(Worker& worker, const WorkerMembership& membership, std::vector<std::uint32_t> tensors,
             std::uint64_t seed)
      : worker_(worker), membership_(membership), tensors_(std::move(tensors)), seed_(seed) {}

  // 0: until a rank has a line on stdin.
  Result<void> run(std::uint32_t iterations) {
    std::puts("joined");
    for (std::uint32_t i = 0; iterations == 0 || i < iterations; ++i) {
      if (auto done = iterate(i); !done) return done;
      if (iterations != 0) continue;
      const auto ends = is_told();
      if (!ends) return tl::unexpected<Error>(ends.error());
      if (*ends) break;
    }
    if (auto done = worker_.leave(kPatience); !done) return done;
    const auto counted = worker_.statistics();
    std::printf("finished %" PRIu64 " %.17g %.3f %.3f\n", counted.retransmissions + counted.queries,
                largest_error_, reducing_s_, verifying_s_);
    return {};
  }

 private:
  // All ranks hear the same, so that they end after the same iteration.
  Result<bool> is_told() {
    constexpr int kPause = 20;  // ms, so that whoever reads the lines keeps up
    pollfd in{STDIN_FILENO, POLLIN, 0};
    std::int32_t votes = ::poll(&in, 1, kPause) > 0 ? 1 : 0;
    const auto voted = worker_.allreduce_async(std::span(&votes, 1)).wait(kPatience);
    if (!voted) return tl::unexpected<Error>(voted.error());
    return votes > 0;
  }

  Result<void> iterate(std::uint32_t iteration) {
    std::uint32_t next = 0;
    std::uint64_t first = 0;
    while (next < tensors_.size()) {
      const double making = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      std::vector<Tensor> batch;
      std::uint64_t elements = 0;
      for (; next < tensors_.size() && (batch.empty() || elements + tensors_[next] <= kBatchElements);
           ++next) {
        batch.push_back({.number = next, .first = first, .values = std::vector<float>(tensors_[next])});
        perf::fill(batch.back().values, perf::ValueStream(seed_, iteration, membership_.rank), first,
                   perf::tensor_scale(seed_, next));
        first += tensors_[next];
        elements += tensors_[next];
      }
      verifying_s_ += seconds_of(CLOCK_THREAD_CPUTIME_ID) - making;
      if (auto done = reduce(batch); !done) return done;
      const double checking = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      for (const auto& tensor : batch) check(tensor, iteration);
      verifying_s_ += seconds_of(CLOCK_THREAD_CPUTIME_ID) - checking;
    }
    return {};
  }

  // The ranks begin together, so that the time is of the reduction and not of a rank that is still checking.
  Result<void> reduce(std::vector<Tensor>& batch) {
    if (const auto together = worker_.barrier_async().wait(kPatience); !together)
      return tl::unexpected<Error>(together.error());
    const double begun = seconds_of(CLOCK_MONOTONIC);
    for (auto& tensor : batch) tensor.operation = worker_.allreduce_async(std::span<float>(tensor.values));
    for (const auto& tensor : batch) {
      const auto stats = tensor.operation->wait(kPatience);
      if (stats) continue;
      worker_.abort("rank " + std::to_string(membership_.rank) + " gave up: " + stats.error().text());
      for (const auto& other : batch) (void)other.operation->wait();  // until then the values are libtally's
      return tl::unexpected<Error>(stats.error());
    }
    reducing_s_ += seconds_of(CLOCK_MONOTONIC) - begun;
    return {};
  }

  void check(const Tensor& tensor, std::uint32_t iteration) {
    const auto result =
        perf::check_sums(tensor.values, tensor.first, perf::tensor_scale(seed_, tensor.number),
                         {seed_, iteration, membership_.world, membership_.elements});
    if (result.wrong > 0) {
      std::fprintf(stderr,
                   "iteration %u, tensor %u: %" PRIu64 " elements WRONG; the first is element %" PRIu64
                   ": %.9g, not %.9g\n",
                   iteration, tensor.number, result.wrong, result.first_wrong, result.got, result.expected);
    }
    largest_error_ = std::max(largest_error_, result.largest_error);
    const auto bytes = std::as_bytes(std::span(tensor.values));
    std::printf("tensor %u %u %zu %08x %" PRIu64 "\n", iteration, tensor.number, tensor.values.size(),
                kernels::best_kernels().crc32c(bytes.data(), bytes.size()), result.wrong);
  }

  Worker& worker_;
  const WorkerMembership& membership_;
  const std::vector<std::uint32_t> tensors_;
  const std::uint64_t seed_;
  double largest_error_ = 0;
  double reducing_s_ = 0;   // wall clock from the first call of a batch to the end of its last operation
  double verifying_s_ = 0;  // CPU
};

int complain(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 1;
}

int work(std::vector<std::uint32_t> tensors, std::uint32_t iterations, std::uint64_t seed) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line is read while it is news
  const auto how = WorkerOptions::from_environment();
  if (!how) return complain(how.error().text());
  auto worker = Worker::join(*how);
  if (!worker) return complain(worker.error().text());
  const auto membership = worker->membership();
  if (!membership) return complain(worker->why_closed().value_or(Error{}).text());
  const auto done = DemoWorker(*worker, *membership, std::move(tensors), seed).run(iterations);
  return done ? 0 : complain(done.error().text());
}

// resnet50|bert|dlrm DIVISOR ITERATIONS|0 SEED, or only the first two: then it prints how large the tensors
// are.
int run(std::span<char*> words) {
  const auto number = [&](std::size_t i) { return std::stoul(words[i]); };
  if (words.size() != 3 && words.size() != 5)
    throw std::invalid_argument("it is tools/demo that starts this");
  const auto tensors = tensors_of(words[1], static_cast<std::uint32_t>(number(2)));
  if (words.size() == 5) return work(tensors, static_cast<std::uint32_t>(number(3)), number(4));
  for (const auto size : tensors) std::printf("%u\n", size);
  return 0;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  try {
    return tally::bench::run({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& e) {
    return tally::bench::complain(e.what());
  }
}
