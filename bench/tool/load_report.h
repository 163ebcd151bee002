#pragma once
// What tally-bench measured, as a table for people, CSV and JSON for programs. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "load_figures.h"
#include "load_format.h"
#include "perf/machine.h"
#include "step_report.h"

namespace tally::bench {

struct LoadSetting {
  perf::Machine machine{};
  std::string dpdk{};   // its release
  std::string ports{};  // devices, or "in-memory port"
  std::string job{};    // empty with the in-memory port
  std::uint16_t workers = 0;
  std::uint16_t elements = 0;
  std::uint32_t window = 0;
  std::uint16_t mtu = 0;
  bool multicast = false;
  bool ipv6 = false;
  LoadFormat format{};
  bool hugepages = false;
  enum class Checked : std::uint8_t {
    kEverySum,  // the sums of each awaited result, and the values of samples
    kHeaders,   // the sums in the header of each result, and the values of samples
    kNothing,   // echo
  } checked = Checked::kEverySum;
  int cpu = -1;          // of the generator; -1: floats
  double line_rate = 0;  // of all ports together, Gbit/s; 0: none
  double ceiling = 0;    // packets per second; 0: not known
  double deadline_ms = 0;
  std::vector<std::string> warnings{};  // beside the machine's
};

// Bits that a contribution, or a RESULT, takes of a link: with FCS, preamble and gap.
[[nodiscard]] double wire_bits(const LoadSetting& setting) noexcept;

[[nodiscard]] std::vector<std::string> load_warnings(const LoadSetting& setting);
// What a reader of the run's figures must know, for people.
[[nodiscard]] std::vector<std::string> load_remarks(const LoadFigures& figures);
// Results that arrived damaged in all runs.
[[nodiscard]] std::uint64_t damaged_results(const std::vector<LoadFigures>& runs) noexcept;
// Why a search ended without a rate; for people.
[[nodiscard]] std::string no_rate_text(const std::vector<LoadFigures>& runs);
// Why a search gave up; for people.
[[nodiscard]] std::string disturbed_text();
// Environment, warnings and column heads; then a line for each run.
[[nodiscard]] std::string load_head(const LoadSetting& setting);
[[nodiscard]] std::string load_line(const LoadSetting& setting, const LoadFigures& figures);
[[nodiscard]] std::string load_csv(const LoadSetting& setting, const std::vector<LoadFigures>& runs);
// profile: null if there is none.
[[nodiscard]] std::string load_json(const LoadSetting& setting, const std::vector<LoadFigures>& runs,
                                    const StepFigures* profile = nullptr);

}  // namespace tally::bench
