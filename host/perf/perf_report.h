#pragma once
// What tally-perf measured, as a table for people, CSV and JSON for programs. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "perf/machine.h"
#include "perf/perf_options.h"

namespace tally::perf {

// What a set of measured times comes to.

struct TimeSummary {
  double average = 0, least = 0, p50 = 0, p99 = 0, p999 = 0, most = 0;
};

// The value that `share` (0..1] of `sorted` does not exceed: the nearest rank, no interpolation, so that it
// is a time that was measured. 0 when there is none.
[[nodiscard]] double percentile(const std::vector<double>& sorted, double share);

[[nodiscard]] TimeSummary summarise(std::vector<double> times);

struct PerfRow {
  std::uint64_t bytes = 0;
  TimeSummary us{};                   // of one operation, microseconds, as this rank saw it
  std::uint64_t packets = 0;          // of one operation and rank without repairs, priming included
  std::uint64_t retransmissions = 0;  // of all ranks and iterations
  std::uint64_t wrong = 0;            // elements, of all ranks and iterations
  double largest_error = 0;           // float32: in parts of the bound, this rank
};

struct PerfSetting {
  Machine machine{};
  std::string job{};
  std::string transport{};
  std::uint16_t rank = 0;
  std::uint16_t world = 1;
  std::uint16_t elements = 0;  // of a packet
  std::uint32_t window = 0;
  bool ipv6 = false;
  bool poll = false;
};

// GB/s, as nccl-tests define them: size / time, and times 2(n-1)/n, what a ring would carry.
[[nodiscard]] double algbw(const PerfRow& row) noexcept;
[[nodiscard]] double busbw(const PerfRow& row, std::uint32_t world) noexcept;
// Share of the link's capacity, each way, that the operation's frames took; headers, preamble and gap too.
[[nodiscard]] double line_share(const PerfRow& row, double line_rate_gbit, bool ipv6) noexcept;

[[nodiscard]] std::vector<std::string> perf_warnings(const PerfOptions& options, const PerfSetting& setting);
// Environment, warnings, bound and column heads; then a line for each row.
[[nodiscard]] std::string perf_head(const PerfOptions& options, const PerfSetting& setting);
[[nodiscard]] std::string perf_line(const PerfOptions& options, const PerfSetting& setting,
                                    const PerfRow& row);
[[nodiscard]] std::string perf_csv(const PerfOptions& options, const PerfSetting& setting,
                                   const std::vector<PerfRow>& rows);
[[nodiscard]] std::string perf_json(const PerfOptions& options, const PerfSetting& setting,
                                    const std::vector<PerfRow>& rows);

// Where the benchmarks write what they measured.

// Writes `text` to the file; nothing if `path` is empty. False: it cannot be written, which is said on stderr
// in the name of `program`.
[[nodiscard]] bool write_result_file(const char* program, const std::string& path, const std::string& text);

}  // namespace tally::perf
