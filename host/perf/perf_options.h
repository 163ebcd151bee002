#pragma once
// The command line of tally-perf.

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tally/error.h"

namespace tally::perf {

// What is summed, and, of floats, how it travels.
enum class PerfType : std::uint8_t { kFloat, kInt32, kInt16, kExact };

[[nodiscard]] constexpr const char* name_of(PerfType type) noexcept {
  switch (type) {
    case PerfType::kFloat:
      return "float";
    case PerfType::kInt32:
      return "int32";
    case PerfType::kInt16:
      return "int16";
    case PerfType::kExact:
      return "exact";
  }
  return "";
}
// Of the integers that stand for one value.
[[nodiscard]] constexpr int bits_of(PerfType type) noexcept {
  return type == PerfType::kInt16 ? 16 : type == PerfType::kExact ? 384 : 32;
}

struct PerfOptions {
  std::uint64_t min_bytes = 4 << 10;
  std::uint64_t max_bytes = 64 << 20;
  std::uint64_t factor = 4;  // >= 2
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  PerfType type = PerfType::kFloat;
  bool zeros = false;  // all ranks but 0 have zeros: as in a broadcast
  std::uint64_t seed = 1;
  double line_rate = 0;              // of a worker's link, Gbit/s; 0: not known
  std::chrono::seconds timeout{60};  // of one operation
  bool all_ranks = false;            // every rank prints its table, not only rank 0
  std::string json{};                // file; rank 0 writes it
  std::string csv{};
};

struct PerfHelp {
  std::string text;
};

// Options of the worker (--job, --rank ...) go into the environment, where WorkerOptions::from_environment()
// finds them: one place says what is right. Call before other threads exist.
[[nodiscard]] Result<std::variant<PerfOptions, PerfHelp>> parse_perf_options(int argc,
                                                                             const char* const* argv);

// Bytes of the messages, from min_bytes to at most max_bytes; each a whole number of elements.
[[nodiscard]] std::vector<std::uint64_t> perf_sizes(const PerfOptions& options);

}  // namespace tally::perf
