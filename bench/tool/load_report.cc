#include "load_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "perf/machine.h"
#include "tally/net.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::bench {
namespace {

constexpr double kOnWire = 14 + 8 + kHeaderBytes + 4 + 20;  // Ethernet, UDP, ours, FCS, preamble and gap

bool tagged(const LoadSetting& s) noexcept { return s.format.vlan != jobs::kUntagged; }

const char* dtype_name(const LoadSetting& s) noexcept {
  if (s.format.dtype == Dtype::kInt16) return "int16";
  return s.format.dtype == Dtype::kFloat32 ? "float32" : "int32";
}

// A run in which no result was timed has no latency.
std::string micro(const LoadFigures& f, TimeNs ns) {
  return f.latency.count > 0 ? text::fixed(static_cast<double>(ns) / 1e3, 1) : "n/a";
}

std::vector<std::string> cells(const LoadSetting& s, const LoadFigures& f) {
  const double bits = wire_bits(s);
  const double sent = f.sent_per_s();
  const double gbit = sent * bits / 1e9;
  return {f.name,
          f.asked > 0 ? text::fixed(f.asked / 1e6, 3) : "max",
          text::fixed(sent / 1e6, 3),
          text::fixed(f.received_per_s() / 1e6, 3),
          text::fixed(sent * s.elements / 1e9, 3),
          text::fixed(gbit, 2),
          text::fixed(f.received_per_s() * bits / 1e9, 2),
          s.line_rate > 0 ? text::fixed(100 * gbit / s.line_rate, 1) : "n/a",
          s.ceiling > 0 ? text::fixed(100 * sent / s.ceiling, 1) : "n/a",
          std::to_string(f.late),
          std::to_string(f.resent),
          micro(f, f.latency.p50),
          micro(f, f.latency.p99),
          micro(f, f.latency.p999),
          micro(f, f.latency.max),
          f.box_cpu_s ? text::fixed(*f.box_cpu_s * 1e9 / static_cast<double>(f.sent), 1) : "n/a",
          f.busy ? text::fixed(100 * *f.busy, 1) : "n/a",
          f.cycles_per_packet ? text::fixed(*f.cycles_per_packet, 0) : "n/a"};
}

const std::vector<std::string>& columns() {
  static const std::vector<std::string> names{"run",        "asked M/s", "in M/s",    "out M/s",   "Gel/s",
                                              "in Gb/s",    "out Gb/s",  "% of line", "% of ceil", "late",
                                              "resent",     "p50 us",    "p99 us",    "p99.9 us",  "max us",
                                              "CPU ns/pkt", "busy %",    "cycles/pkt"};
  return names;
}

const char* checked_text(LoadSetting::Checked checked) noexcept {
  switch (checked) {
    case LoadSetting::Checked::kEverySum:
      return "every sum checked";
    case LoadSetting::Checked::kHeaders:
      return "the sums in every result's header checked, and the values of every 128th";
    case LoadSetting::Checked::kNothing:
      break;
  }
  return "nothing checked";
}

text::ColumnTable table_of() {
  text::ColumnTable table(columns());
  table.widen(0, 10);
  for (std::size_t i = 1; i < columns().size(); ++i) table.widen(i, 8);
  return table;
}

}  // namespace

double wire_bits(const LoadSetting& s) noexcept {
  return 8 * (kOnWire + (tagged(s) ? sizeof(VlanTag) : 0) + (s.ipv6 ? 40 : 20) + 4.0 * s.elements);
}

std::vector<std::string> load_warnings(const LoadSetting& s) {
  auto warnings = perf::machine_warnings(s.machine);
  warnings.insert(warnings.end(), s.warnings.begin(), s.warnings.end());
  return warnings;
}

std::string load_head(const LoadSetting& s) {
  std::string out = "# " + perf::machine_line(s.machine) + ", " + s.dpdk + "\n# " + s.ports + ", " +
                    std::to_string(s.workers) + " workers, " + std::to_string(s.elements) +
                    " elements per packet, " + dtype_name(s) + (s.ipv6 ? ", IPv6" : ", IPv4") +
                    (tagged(s) ? ", VLAN " + std::to_string(s.format.vlan) : "") + ", window " +
                    std::to_string(s.window) +
                    (s.job.empty() ? ", echo"
                     : s.multicast ? ", multicast results"
                                   : ", unicast results") +
                    ", MTU " + std::to_string(s.mtu) + (s.hugepages ? ", hugepages" : ", no hugepages") +
                    (s.cpu < 0 ? "" : ", generator on CPU " + std::to_string(s.cpu)) + "\n";
  for (const auto& warning : load_warnings(s)) out += "# warning: " + warning + "\n";
  out +=
      "# in: contributions; out: RESULT frames; Gb/s with headers, FCS, preamble and gap; us: from the last "
      "contribution of a chunk to its result; ";
  out += std::string(checked_text(s.checked)) + "\n";
  return out + table_of().header_line();
}

std::string load_line(const LoadSetting& s, const LoadFigures& f) {
  std::string line = table_of().line(cells(s, f));
  for (const auto& remark : load_remarks(f)) line += "# " + remark + "\n";
  return line;
}

std::vector<std::string> load_remarks(const LoadFigures& f) {
  std::vector<std::string> remarks;
  if (f.longest_gap > kMillisecond)
    remarks.push_back("others had the generator's CPU for up to " +
                      text::fixed(static_cast<double>(f.longest_gap) / 1e6, 1) + " ms");
  if (f.asked > 0 && !(f.sent_per_s() >= f.asked * 0.99))
    remarks.push_back(f.busy
                          ? "not all was taken in time: the data core was at its limit, or others had its CPU"
                      : f.disturbed() ? "not sent in time: " + std::to_string(f.skipped) +
                                            ", while others had the generator's CPU"
                                      : "not sent in time: " + std::to_string(f.skipped) +
                                            "; generator, ports or window are the limit");
  if (f.corrupt > 0)
    remarks.push_back(std::to_string(f.corrupt) + " results arrived damaged and were asked for again");
  return remarks;
}

std::uint64_t damaged_results(const std::vector<LoadFigures>& runs) noexcept {
  std::uint64_t n = 0;
  for (const auto& run : runs) n += run.corrupt;
  return n;
}

std::string no_rate_text(const std::vector<LoadFigures>& runs) {
  const auto finals = std::ranges::count(runs, "final", &LoadFigures::name);
  return (finals == 0 ? "no trial was carried, so none was confirmed by a run of --seconds"
                      : "trials were carried, but none of the " + std::to_string(finals) +
                            " runs of --seconds that followed") +
         std::string(": each had late or damaged results, or sent less than 99 % of what was asked for");
}

std::string disturbed_text() {
  return "the search found nothing: others had the generator's CPU in one run after the other, so none says "
         "what the "
         "box carries. Give the generator a CPU of its own (--cpu), and data cores others";
}

std::string load_csv(const LoadSetting& s, const std::vector<LoadFigures>& runs) {
  std::string out =
      "run,asked_mpps,in_mpps,out_mpps,gelements_s,in_gbit_s,out_gbit_s,line_percent,ceiling_percent,late,"
      "resent,p50_us,"
      "p99_us,p999_us,max_us,box_cpu_ns_per_packet,busy_percent,cycles_per_packet\n";
  for (const auto& run : runs) {
    std::string line;
    for (const auto& cell : cells(s, run)) line += (line.empty() ? "" : ",") + cell;
    out += line + "\n";
  }
  return out;
}

std::string load_json(const LoadSetting& s, const std::vector<LoadFigures>& runs,
                      const StepFigures* profile) {
  const auto or_null = [](const auto& value) { return value ? nlohmann::json(*value) : nlohmann::json(); };
  const auto rated = [](double value, double whole) {
    return whole > 0 ? nlohmann::json(value / whole) : nlohmann::json();
  };
  nlohmann::json environment = perf::machine_json(s.machine);
  environment["warnings"] = load_warnings(s);
  environment["dpdk"] = s.dpdk;
  environment["hugepages"] = s.hugepages;
  environment["generator_cpu"] = s.cpu < 0 ? nlohmann::json() : nlohmann::json(s.cpu);
  nlohmann::json out{{"environment", std::move(environment)},
                     {"ports", s.ports},
                     {"job", s.job},
                     {"workers", s.workers},
                     {"elements", s.elements},
                     {"dtype", dtype_name(s)},
                     {"ipv6", s.ipv6},
                     {"vlan", tagged(s) ? nlohmann::json(s.format.vlan) : nlohmann::json()},
                     {"echo", s.checked == LoadSetting::Checked::kNothing},
                     {"window", s.window},
                     {"mtu", s.mtu},
                     {"results", s.multicast ? "multicast" : "unicast"},
                     {"deadline_ms", s.deadline_ms},
                     {"runs", nlohmann::json::array()}};
  for (const auto& f : runs) {
    const double gbit = f.sent_per_s() * wire_bits(s) / 1e9;
    out["runs"].push_back({{"name", f.name},
                           {"asked_per_s", f.asked > 0 ? nlohmann::json(f.asked) : nlohmann::json()},
                           {"seconds", f.seconds},
                           {"sent", f.sent},
                           {"received", f.received},
                           {"sent_per_s", f.sent_per_s()},
                           {"received_per_s", f.received_per_s()},
                           {"elements_per_s", f.sent_per_s() * s.elements},
                           {"in_gbit_s", gbit},
                           {"out_gbit_s", f.received_per_s() * wire_bits(s) / 1e9},
                           {"line_share", rated(gbit, s.line_rate)},
                           {"ceiling_share", rated(f.sent_per_s(), s.ceiling)},
                           {"chunks", f.chunks},
                           {"late_chunks", f.late},
                           {"resent", f.resent},
                           {"corrupt", f.corrupt},
                           {"skipped", f.skipped},
                           {"compared_by_value", f.compared},
                           {"longest_gap_ns", f.longest_gap},
                           {"away_ns", f.away},
                           {"full_share", f.full},
                           {"latency_ns",
                            {{"count", f.latency.count},
                             {"p50", f.latency.p50},
                             {"p99", f.latency.p99},
                             {"p99.9", f.latency.p999},
                             {"max", f.latency.max}}},
                           {"box_cpu_s", or_null(f.box_cpu_s)},
                           {"busy_share", or_null(f.busy)},
                           {"cycles_per_packet", or_null(f.cycles_per_packet)},
                           {"remarks", load_remarks(f)},
                           {"carried", f.carried()},
                           {"disturbed", f.disturbed()}});
  }
  if (profile != nullptr) out["profile"] = step_json(*profile);
  return out.dump(1) + "\n";
}

}  // namespace tally::bench
