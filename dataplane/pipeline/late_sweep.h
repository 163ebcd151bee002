#pragma once
// Which entry of the jobs with stragglers the age sweep looks at next: one job's entries after the other's,
// all of them in turn. Jobs without stragglers are not in its list. Owner: the core.

#include <cstdint>
#include <vector>

#include "job_table.h"

namespace tally {

class LateSweep {
 public:
  LateSweep() { jobs_.reserve(kMaxJobs); }

  // Between bursts; `table` as for Pipeline::adopt.
  void adopt(const JobTable* table) {
    jobs_.clear();
    forget();
    for (std::uint32_t id = 1; table != nullptr && id <= kMaxJobs; ++id) {
      const Job* const job = table->find(JobId{static_cast<std::uint16_t>(id)});
      if (job != nullptr && job->stragglers.timeout != 0 && job->slots.count != 0) jobs_.push_back(job);
    }
    at_ = offset_ = 0;  // where it was may be behind the end of what is another job's now
  }
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }

  // Only when not empty.
  [[nodiscard]] const Job& job() const noexcept { return *jobs_[at_]; }
  [[nodiscard]] std::uint32_t line() const noexcept { return job().slots.first + offset_; }
  // The entry behind it; false: the next is another round's, or another job's.
  bool step() noexcept {
    const std::uint32_t lines = entry_lines(job().elements);
    offset_ += lines;
    if (offset_ + lines <= job().slots.count) return true;
    skip();
    return false;
  }
  void skip() noexcept {
    offset_ = 0;
    if (++at_ >= jobs_.size()) at_ = 0;
  }

  // An entry was found: it stays where the sweep is until it is finished or forgotten.
  void find() noexcept { found_ = true; }
  void forget() noexcept { found_ = false; }
  [[nodiscard]] bool found() const noexcept { return found_; }

 private:
  std::vector<const Job*> jobs_;
  std::size_t at_ = 0;
  std::uint32_t offset_ = 0;  // lines behind the job's first
  bool found_ = false;
};

}  // namespace tally
