#include "demo_job.h"

#include <algorithm>
#include <numeric>

#include "column_table.h"
#include "numbers.h"
#include "slot_use.h"

namespace tally {

std::string DemoJob::take(std::uint16_t rank, const DemoRecord& record, Clock::time_point now) {
  ended_ = now;
  if (record.kind == DemoRecord::Kind::kJoined) begun_ = now;  // the last rank to join begins it
  if (record.kind == DemoRecord::Kind::kFinished) {
    finals_[rank] = record;
    finished_[rank] = true;
  }
  if (record.kind != DemoRecord::Kind::kTensor) return {};
  wrong_ += record.wrong;
  if (record.tensor < model_.tensors.size()) elements_ += model_.tensors[record.tensor];
  if (!ledger_.report(record.iteration, record.tensor, rank, record.crc)) return {};
  return std::string(model_.job) + ": iteration " + std::to_string(record.iteration) + ", tensor " +
         std::to_string(record.tensor) + ": rank " + std::to_string(rank) +
         " got other bits than a rank before it";
}

bool DemoJob::finished() const {
  return ledger_.complete() && std::all_of(finished_.begin(), finished_.end(), [](bool f) { return f; });
}

double DemoJob::share() const noexcept {
  const double all = static_cast<double>(model_.parameters()) * iterations_ * world();
  return static_cast<double>(elements_) / all;
}

double DemoJob::wall_s() const { return std::chrono::duration<double>(ended_ - begun_).count(); }

double DemoJob::reducing_s() const {
  const auto add = [](double sum, const DemoRecord& r) { return sum + r.reducing_s; };
  return std::accumulate(finals_.begin(), finals_.end(), 0.0, add) / world();
}

double DemoJob::verifying_s() const {
  const auto add = [](double sum, const DemoRecord& r) { return sum + r.making_s + r.checking_s; };
  return std::accumulate(finals_.begin(), finals_.end(), 0.0, add) / world();
}

double DemoJob::algbw() const {
  const double seconds = reducing_s();
  return seconds > 0 ? static_cast<double>(bytes()) * iterations_ / seconds * 1e-9 : 0;
}

std::uint64_t DemoJob::retransmissions() const {
  const auto add = [](std::uint64_t sum, const DemoRecord& r) { return sum + r.retransmissions; };
  return std::accumulate(finals_.begin(), finals_.end(), std::uint64_t{0}, add);
}

double DemoJob::largest_error() const {
  double largest = 0;
  for (const auto& record : finals_) largest = std::max(largest, record.largest_error);
  return largest;
}

bool half_way(const std::vector<DemoJob>& jobs) {
  return std::ranges::all_of(jobs,
                             [](const DemoJob& j) { return j.model().comes_midway || j.share() >= 0.5; });
}

std::string demo_table(const std::vector<DemoJob>& jobs, const std::vector<DemoJobConfig>& configs,
                       const BoxReport& report) {
  ColumnTable table({"job", "slots", "workers", "bytes", "iterations", "time s", "reducing s", "algbw GB/s",
                     "verifying CPU s", "retransmissions", "slots taken", "slots lost", "#wrong"},
                    2);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const DemoJob& job = jobs[i];
    const auto use = slot_use(report, configs[i].name);
    table.add({configs[i].name, configs[i].slots_text(), std::to_string(job.world()),
               with_commas(job.bytes()), std::to_string(job.iterations()), fixed(job.wall_s(), 1),
               fixed(job.reducing_s(), 1), fixed(job.algbw(), 3), fixed(job.verifying_s(), 1),
               with_commas(job.retransmissions()), use ? with_commas(use->taken) : "-",
               use ? with_commas(use->lost) : "-", std::to_string(job.wrong())});
  }
  return table.text();
}

}  // namespace tally
