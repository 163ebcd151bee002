#include "ring_run.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace tally {
namespace {

using Clock = std::chrono::steady_clock;

// Small whole numbers: their sums are exact in any order, so one wrong bit shows.
float value_of(std::uint32_t rank, std::uint32_t operation, std::size_t i) {
  return static_cast<float>((i * 31 + rank * 977 + operation * 131) % 1021) - 510.0F;
}

void fill(std::span<float> values, std::uint32_t rank, std::uint32_t operation) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank, operation, i);
}

std::uint64_t count_wrong(std::span<const float> sums, std::uint32_t world, std::uint32_t operation) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float right = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) right += value_of(rank, operation, i);
    if (sums[i] != right) ++wrong;
  }
  return wrong;
}

}  // namespace

RingOptions parse_ring_options(int argc, const char* const* argv, bool launched) {
  RingOptions options;
  CLI::App app{"Allreduce by a ring, to stand beside tally-perf. Started by tools/bench-rings."};
  app.add_option("-b,--bytes", options.bytes, "Of one array of float32 (default 16 MiB)")
      ->check(CLI::Range(4U, 1U << 30U));
  app.add_option("-n,--iterations", options.iterations, "Measured operations (default 5)")
      ->check(CLI::Range(1U, 1'000'000U));
  app.add_option("-w,--warm-up", options.warm_up, "Operations before these (default 1)");
  app.add_option("--json", options.json, "Rank 0 writes its figures to this file");
  if (!launched) {
    app.add_option("--rank", options.rank, "0 .. world - 1")->required();
    app.add_option("--world", options.world, "Number of ranks")->required()->check(CLI::Range(1U, 64U));
    app.add_option("--store", options.store, "Empty directory in which the ranks find each other")
        ->required();
    app.add_option("--address", options.address, "Of this rank's interface")->required();
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    std::exit(code == 0 ? 0 : 2);
  }
  return options;
}

std::uint64_t run_ring(const Ring& ring, const RingOptions& options) {
  std::vector<float> values(options.bytes / sizeof(float));
  std::vector<double> us;
  std::uint64_t wrong = 0;
  for (std::uint32_t operation = 0; operation < options.warm_up + options.iterations; ++operation) {
    fill(values, ring.rank, operation);
    ring.barrier();
    const auto begun = Clock::now();
    ring.sum(values);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begun;
    if (operation >= options.warm_up) us.push_back(took.count());
    wrong += count_wrong(values, ring.world, operation);
  }
  ring.barrier();
  if (ring.everywhere) wrong = ring.everywhere(wrong);
  if (ring.rank == 0 && !options.json.empty()) {
    const nlohmann::json out{{"ring", ring.name},
                             {"world", ring.world},
                             {"bytes", values.size() * sizeof(float)},
                             {"us", us},
                             {"wrong", wrong}};
    std::ofstream(options.json) << out.dump(1) << "\n";
  }
  return wrong;
}

}  // namespace tally
