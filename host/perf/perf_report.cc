#include "perf/perf_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <utility>

#include "perf/sum_check.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::perf {

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  // 0.99 * 100 is a little more than 99 in binary; the hundredth of 100 is not meant.
  const double rank = std::ceil(share * static_cast<double>(sorted.size()) - 1e-9);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

TimeSummary summarise(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  return {.average = sum / static_cast<double>(times.size()),
          .least = times.front(),
          .p50 = percentile(times, 0.5),
          .p99 = percentile(times, 0.99),
          .p999 = percentile(times, 0.999),
          .most = times.back()};
}

namespace {

// Ethernet 14, IPv4 20 or IPv6 40, UDP 8, ours 56, FCS 4, preamble and gap 20.
constexpr std::uint64_t kFrameOverhead4 = 14 + 20 + 8 + kHeaderBytes + 4 + 20;
constexpr std::uint64_t kFrameOverhead6 = kFrameOverhead4 + 20;

bool virtual_port(const std::string& transport) { return transport.find("net_") != std::string::npos; }

std::vector<std::string> cells(const PerfOptions& options, const PerfSetting& setting, const PerfRow& row) {
  const bool rated = options.line_rate > 0;
  return {std::to_string(row.bytes),
          std::to_string(row.bytes / 4),
          name_of(options.type),
          text::fixed(row.us.average, 1),
          text::fixed(row.us.least, 1),
          text::fixed(row.us.p50, 1),
          text::fixed(row.us.p99, 1),
          text::fixed(row.us.p999, 1),
          text::fixed(row.us.most, 1),
          text::fixed(algbw(row), 3),
          text::fixed(busbw(row, setting.world), 3),
          rated ? text::fixed(100 * line_share(row, options.line_rate, setting.ipv6), 1) : "n/a",
          std::to_string(row.retransmissions),
          options.check ? std::to_string(row.wrong) : "n/a"};
}

text::ColumnTable table_of() {
  text::ColumnTable table({"size B", "count", "type", "avg us", "min us", "p50 us", "p99 us", "p99.9 us",
                           "max us", "algbw GB/s", "busbw GB/s", "% of line", "retransmits", "#wrong"},
                          0);
  table.widen(0, 11);
  table.widen(1, 10);
  table.widen(2, 5);
  for (std::size_t column = 3; column < 9; ++column) table.widen(column, 10);
  return table;
}

}  // namespace

double algbw(const PerfRow& row) noexcept {
  return row.us.average > 0 ? static_cast<double>(row.bytes) / row.us.average * 1e-3 : 0;
}

double busbw(const PerfRow& row, std::uint32_t world) noexcept {
  return algbw(row) * 2 * (world - 1) / world;
}

double line_share(const PerfRow& row, double line_rate_gbit, bool ipv6) noexcept {
  if (row.us.average <= 0 || line_rate_gbit <= 0) return 0;
  const std::uint64_t bytes = row.bytes + row.packets * (ipv6 ? kFrameOverhead6 : kFrameOverhead4);
  return static_cast<double>(bytes) * 8 / (row.us.average * 1e3 * line_rate_gbit);
}

std::vector<std::string> perf_warnings(const PerfOptions& options, const PerfSetting& setting) {
  auto warnings = machine_warnings(setting.machine);
  if (!setting.poll)
    warnings.emplace_back(
        "this worker sleeps up to 1 ms when idle, and so may the box: small messages measure "
        "that (--idle poll; dataplane.idle: poll)");
  if (virtual_port(setting.transport) && options.line_rate == 0)
    warnings.emplace_back("a virtual port has no line rate: the CPU that copies the packets is the limit");
  if (options.iterations < 1000)
    warnings.emplace_back("p99.9 needs 1000 iterations or more (-n); below that it is the maximum");
  return warnings;
}

std::string perf_head(const PerfOptions& options, const PerfSetting& setting) {
  std::string out = "# " + machine_line(setting.machine) + "\n# job " + setting.job + ", rank " +
                    std::to_string(setting.rank) + " of " + std::to_string(setting.world) + ", " +
                    setting.transport + ", " + std::to_string(setting.elements) +
                    " elements per packet, window " + std::to_string(setting.window) +
                    (setting.poll ? ", polling\n" : ", idle adaptive\n");
  for (const auto& warning : perf_warnings(options, setting)) out += "# warning: " + warning + "\n";
  if (options.check && options.type != PerfType::kInt32) {
    std::string bound = bound_text(setting.world, bits_of(options.type));
    bound.insert(bound.find('\n') + 1, "#   ");
    out += "# wrong: not within " + bound + "\n";
  }
  out +=
      "# in place, sum; times from the call to its end, the ranks start together; busbw = algbw * 2(n-1)/n "
      "is a ring's measure\n";
  return out + table_of().header_line();
}

std::string perf_line(const PerfOptions& options, const PerfSetting& setting, const PerfRow& row) {
  return table_of().line(cells(options, setting, row));
}

std::string perf_csv(const PerfOptions& options, const PerfSetting& setting,
                     const std::vector<PerfRow>& rows) {
  std::string out =
      "size_bytes,count,type,avg_us,min_us,p50_us,p99_us,p999_us,max_us,algbw_gbytes_s,busbw_gbytes_s,"
      "line_percent,retransmits,wrong\n";
  for (const auto& row : rows) {
    std::string line;
    for (const auto& cell : cells(options, setting, row)) line += (line.empty() ? "" : ",") + cell;
    out += line + "\n";
  }
  return out;
}

std::string perf_json(const PerfOptions& options, const PerfSetting& setting,
                      const std::vector<PerfRow>& rows) {
  nlohmann::json environment = machine_json(setting.machine);
  environment["warnings"] = perf_warnings(options, setting);
  nlohmann::json out{{"environment", std::move(environment)},
                     {"job", setting.job},
                     {"transport", setting.transport},
                     {"world", setting.world},
                     {"elements", setting.elements},
                     {"window", setting.window},
                     {"polling", setting.poll},
                     {"type", name_of(options.type)},
                     {"zeros", options.zeros},
                     {"iterations", options.iterations},
                     {"warm_up", options.warm_up},
                     {"checked", options.check},
                     {"seed", options.seed},
                     {"rows", nlohmann::json::array()}};
  for (const auto& row : rows) {
    nlohmann::json one{{"bytes", row.bytes},
                       {"us",
                        {{"avg", row.us.average},
                         {"min", row.us.least},
                         {"p50", row.us.p50},
                         {"p99", row.us.p99},
                         {"p99.9", row.us.p999},
                         {"max", row.us.most}}},
                       {"algbw_gbytes_s", algbw(row)},
                       {"busbw_gbytes_s", busbw(row, setting.world)},
                       {"line_share", nullptr},
                       {"packets", row.packets},
                       {"retransmissions", row.retransmissions},
                       {"wrong", nullptr},
                       {"largest_error_of_bound", row.largest_error}};
    if (options.line_rate > 0) one["line_share"] = line_share(row, options.line_rate, setting.ipv6);
    if (options.check) one["wrong"] = row.wrong;
    out["rows"].push_back(std::move(one));
  }
  return out.dump(1) + "\n";
}

bool write_result_file(const char* program, const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) std::fprintf(stderr, "%s: cannot write %s\n", program, path.c_str());
  return static_cast<bool>(out);
}

}  // namespace tally::perf
