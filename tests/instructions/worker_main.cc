// tally_worker_instructions ROW: a worker's engine sums 8 MiB in chunks of 256 values, without a transport, as the worker
// benchmark does. run_instructions.py counts what transmit() and receive() take of it. Prints how many chunks they were.

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "harness.h"
#include "worker_run.h"

namespace {

constexpr std::uint64_t kBytes = std::uint64_t{8} << 20;

template <class T>
void sum(bool sparse, bool zeros) {
  tally::bench::WorkerRun<T> run(
      {.elements = 256, .small = true, .sparse = sparse, .zeros = zeros, .small_round = kBytes},
      tally::kernels::best_kernels());
  static_cast<void>(run.engine());
  std::printf("%llu\n", static_cast<unsigned long long>(run.chunks()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view row = argc > 1 ? argv[1] : "";
  const auto is = [&](std::string_view text) { return row.find(text) != std::string_view::npos; };
  const bool zeros = is("zeros");
  const bool sparse = zeros || is("looking");
  tally::bench::require(is("int32") != is("float32"), "int32 or float32 [looking | zeros]");
  is("int32") ? sum<std::int32_t>(sparse, zeros) : sum<float>(sparse, zeros);
  return 0;
}
