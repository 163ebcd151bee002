// What comes midway: starts when the other jobs are half way, and the switch is asked then and at its end
// what happened to the slots.
#include <algorithm>
#include <cstdio>

#include "demo_run.h"

namespace tally {
namespace {

std::vector<std::string> names(const std::vector<DemoJob>& jobs, bool midway) {
  std::vector<std::string> some;
  for (const auto& job : jobs) {
    if (job.model().comes_midway == midway) some.emplace_back(job.model().job);
  }
  return some;
}

}  // namespace

void DemoRun::follow_midway() {
  if (failed_ || midway_ == Midway::kGone) return;
  if (midway_ == Midway::kNotYet) {
    if (!half_way(jobs_)) return;
    midway_ = Midway::kHere;
    if (const auto started = start_workers(true); !started) return fail(started.error().text());
  } else {
    const auto done = [](const DemoJob& job) { return !job.model().comes_midway || job.finished(); };
    if (!std::ranges::all_of(jobs_, done)) return;
    midway_ = Midway::kGone;
  }
  asked_ = true;
  box_->process.signal(SIGUSR1);
}

void DemoRun::tell_midway() {
  const auto others = names(jobs_, false);
  const auto late = names(jobs_, true);
  const auto of_others = slot_use(box_report_, others);
  const auto of_late = slot_use(box_report_, late);
  // Not in this part of the report; or there is no other, or none that shares slots.
  if (!of_others || others.empty() || late.empty() || (others_before_ && !of_late)) return;
  asked_ = false;
  progress_.clear();
  std::printf("%s\n",
              (others_before_ ? meanwhile_text(listed(others), listed(late),
                                               since(*of_others, *others_before_), *of_late)
                              : before_text(listed(others), listed(late), config_.shared_slots, *of_others))
                  .c_str());
  std::fflush(stdout);
  if (!others_before_) others_before_ = of_others;
}

}  // namespace tally
