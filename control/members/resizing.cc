#include "resizing.h"

#include <string>
#include <utility>

#include "leases.h"
#include "renewal.h"

namespace tally {
namespace {

std::string objection_to(const JobMembership& job, std::uint32_t window) {
  if (job.config.discipline != Discipline::kPool) {
    return "it shares slots: what it holds follows from its quota, not from its window";
  }
  // Without a generation the job takes it when it forms.
  const bool fresh = !job.active() && !job.reforming() && !job.offered();
  if (fresh) return {};
  if (job.phase != JobPhase::kRunning) {
    return "a job can be resized while it runs or before it begins, and this one is " +
           std::string(name_of(job.phase));
  }
  const std::uint32_t largest = job.term.record.largest_window.host();
  if (window <= largest) return {};
  return "window is " + std::to_string(window) + "; the largest of this generation is " +
         std::to_string(largest) + ", and its workers and their histories are sized for that";
}

}  // namespace

Result<void> resize_job(JobMembership& job, BoxState& box, std::uint32_t window, TimeNs now) {
  JobConfig wanted = job.config;
  wanted.window = window;
  if (auto valid = validate(wanted); !valid) return valid;
  tick_job(job, box, now);  // who is dead by now cannot be called back
  box.slots_changed = true;
  if (std::string no = objection_to(job, window); !no.empty()) {
    return fail(ErrorCode::kInvalidArgument, std::move(no), "job '" + job.config.name + "'");
  }
  job.config.window = window;
  job.limit = kNoLimit;
  job.shrunk_for.clear();
  if (job.phase == JobPhase::kRunning && window != job.term.window) begin_reforming(job, box, now);
  return {};
}

}  // namespace tally
