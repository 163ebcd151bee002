#pragma once
// What tally-bench measured: the figures of each run, and all of them as a table for people, CSV and JSON for
// programs. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load_frames.h"
#include "perf/machine.h"
#include "step_profile.h"
#include "tally/time.h"

namespace tally::bench {

struct LatencyFigures {
  std::uint64_t count = 0;
  TimeNs p50 = 0, p99 = 0, p999 = 0, max = 0;
};

// Of a run of the generator, or of the in-memory port.
struct LoadFigures {
  std::string name{};          // "max", "trial", "final", "50 % load"
  double asked = 0;            // contributions per second; 0: as many as the window allows
  double seconds = 0;          // measured
  std::uint64_t sent = 0;      // contributions taken by the ports in that time
  std::uint64_t received = 0;  // RESULT frames that came, repeated ones too
  std::uint64_t chunks = 0;    // finished everywhere
  std::uint64_t late = 0;      // chunks; until the last one sent in that time was finished
  std::uint64_t resent = 0;    // contributions, for these
  std::uint64_t corrupt = 0;   // results that arrived damaged, while warming up too
  std::uint64_t skipped = 0;   // contributions that were due and neither port nor window had room for
  std::uint64_t compared = 0;  // results compared value by value
  double full = 0;             // share of bursts of which a port took not all: the other end is the limit
  TimeNs longest_gap = 0;      // in which the generator did not run: others had its CPU
  TimeNs away = 0;             // all such gaps of more than a millisecond
  LatencyFigures latency{};    // last contribution of a chunk -> each of its results
  std::optional<double> box_cpu_s{};  // of the box's process, in that time
  std::optional<double> busy{};       // share of the time in which the data core had frames
  std::optional<double> cycles_per_packet{};

  [[nodiscard]] double sent_per_s() const noexcept { return static_cast<double>(sent) / seconds; }
  [[nodiscard]] double received_per_s() const noexcept { return static_cast<double>(received) / seconds; }
  // Nothing was late, and what was asked for was sent but for 1 %.
  [[nodiscard]] bool carried() const noexcept {
    return late == 0 && corrupt == 0 && sent_per_s() >= kEnough * asked;
  }
  // Not carried, and it says nothing of the box: had the generator had its CPU, enough would have been sent.
  [[nodiscard]] bool disturbed() const noexcept {
    if (carried() || late > 0 || corrupt > 0) return false;
    const double missed = asked * static_cast<double>(away) / 1e9;
    return static_cast<double>(sent) + missed >= kEnough * asked * seconds;
  }
  static constexpr double kEnough = 0.99;
};

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
