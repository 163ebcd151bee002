#pragma once
// What the parent knows of one job of the demo, from the records of its workers. Pure.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "box_report.h"
#include "crc_ledger.h"
#include "demo_config.h"
#include "demo_jobs.h"
#include "demo_record.h"

namespace tally {

class DemoJob {
 public:
  using Clock = std::chrono::steady_clock;

  DemoJob(const DemoModel& model, std::uint16_t world, std::uint32_t iterations)
      : model_(model),
        iterations_(iterations),
        ledger_(model.tensors.size(), iterations, world),
        finals_(world),
        finished_(world) {}

  // Returns a complaint for people when ranks got different sums; else empty.
  std::string take(std::uint16_t rank, const DemoRecord& record, Clock::time_point now);

  [[nodiscard]] const DemoModel& model() const noexcept { return model_; }
  [[nodiscard]] std::uint16_t world() const noexcept { return static_cast<std::uint16_t>(finals_.size()); }
  [[nodiscard]] std::uint32_t iterations() const noexcept { return iterations_; }
  [[nodiscard]] bool finished(std::uint16_t rank) const { return finished_[rank]; }
  [[nodiscard]] bool finished() const;          // all ranks, and all their results were compared
  [[nodiscard]] double share() const noexcept;  // of the elements, 0..1
  // Elements outside the bound, and results whose bits differ between ranks.
  [[nodiscard]] std::uint64_t wrong() const noexcept { return wrong_ + ledger_.differing(); }
  [[nodiscard]] std::uint64_t compared() const noexcept { return ledger_.reported(); }

  // Bytes that a worker gives to be summed, and gets back, in one iteration.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return model_.parameters() * sizeof(float); }
  [[nodiscard]] double wall_s() const;       // from the first tensor to the last
  [[nodiscard]] double reducing_s() const;   // mean of the ranks
  [[nodiscard]] double verifying_s() const;  // CPU for values and checks, mean of the ranks
  [[nodiscard]] double algbw() const;        // bytes of all iterations / reducing_s, GB/s
  [[nodiscard]] std::uint64_t retransmissions() const;
  [[nodiscard]] double largest_error() const;

 private:
  const DemoModel& model_;
  std::uint32_t iterations_;
  CrcLedger ledger_;
  std::vector<DemoRecord> finals_;  // by rank
  std::vector<bool> finished_;      // by rank
  std::uint64_t elements_ = 0;      // reported, of all ranks
  std::uint64_t wrong_ = 0;
  Clock::time_point begun_{};
  Clock::time_point ended_{};
};

// The jobs that do not come midway have done half of their work.
[[nodiscard]] bool half_way(const std::vector<DemoJob>& jobs);

// A line for each job. configs: of the same jobs; report: what the switch counted.
[[nodiscard]] std::string demo_table(const std::vector<DemoJob>& jobs,
                                     const std::vector<DemoJobConfig>& configs, const BoxReport& report);

}  // namespace tally
