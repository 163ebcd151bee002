#include "daemon/control_box.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "config/load_config.h"
#include "daemon/box_doctor.h"
#include "daemon/counters_report.h"

namespace tally::daemon {
namespace {

std::uint64_t cycles_now() noexcept { return __builtin_ia32_rdtsc(); }

}  // namespace

ControlBox::ControlBox(Parts parts)
    : parts_(std::move(parts)),
      tracer_(parts_.plane, parts_.loop.members().watch()),
      started_(parts_.now()),
      started_cycles_(cycles_now()) {}

// Of jobs that there are as they are now; of those that are gone, and of all of them after the end, what was
// told last.
api::Snapshot ControlBox::take() {
  const TimeNs now = parts_.now();
  MemberLoop& members = parts_.loop.members();
  const bool done = parts_.loop.done();
  if (!done) members.look(now);
  std::vector<members::JobStatus> jobs;
  if (!done) jobs = members.engine().status(now);
  std::vector<JobId> declared;
  declared.reserve(jobs.size());
  for (const members::JobStatus& job : jobs) declared.push_back(job.id);
  for (const auto& [id, status] : members.watch().jobs()) {
    if (!std::ranges::binary_search(declared, id)) jobs.push_back(status);
  }
  std::ranges::sort(jobs, {}, &members::JobStatus::id);
  const config::Config& config = parts_.reload.config();
  api::Snapshot all = take_snapshot(parts_.plane, std::move(jobs), config.dataplane.cores);
  for (api::JobCounts& job : all.jobs)
    job.declared = done || std::ranges::binary_search(declared, job.status.id);
  for (std::size_t core = 0; core < all.cores.size(); ++core) {
    const TimeNs last = std::max(parts_.plane.statistics(core).last_turn.get(), started_);
    all.cores[core].silent = now > last ? now - last : 0;
  }
  all.instance = config.instance;
  all.now = now;
  all.uptime = now - started_;
  all.uptime_cycles = cycles_now() - started_cycles_;
  all.ending = parts_.loop.ending();
  all.membership = members.engine().counters();
  all.answers_unsent = members.unsent();
  all.control = parts_.turns;
  all.config = parts_.reload.shared_config();
  return all;
}

std::shared_ptr<const api::Snapshot> ControlBox::snapshot() {
  if (!newest_ || parts_.now() >= newest_->now + kOldest)
    newest_ = std::make_shared<const api::Snapshot>(take());
  return newest_;
}

void ControlBox::done() {
  newest_.reset();
  parts_.loop.members().look(parts_.now());  // a session that has to wait publishes nothing
  parts_.changed();
}

api::ReloadReport ControlBox::reload() {
  if (parts_.loop.ending()) {
    parts_.log(LogLevel::kWarning, "reload ignored: shutting down");
    return {.failed = {"nothing was read: the box is shutting down"}};
  }
  MemberLoop& members = parts_.loop.members();
  members.look_at_all(parts_.now());  // of sessions that go, the last status is what is printed
  api::ReloadReport report =
      parts_.reload.take(config::load_config(parts_.path), members.engine(), parts_.now());
  done();
  return report;
}

Result<void> ControlBox::set_window(const std::string& job, std::uint32_t window) {
  auto set = parts_.reload.set_window(job, window, parts_.loop.members().engine(), parts_.now());
  done();
  return set;
}

Result<void> ControlBox::abort(const std::string& job, const std::string& reason) {
  auto aborted = parts_.loop.members().engine().abort(job, reason, parts_.now());
  done();
  return aborted;
}

std::vector<doctor::Finding> ControlBox::examine() { return examine_box(parts_.reload.config()); }

Result<void> ControlBox::start_trace(const api::TraceWish& wish) {
  const TimeNs now = parts_.now();
  const auto day = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  return tracer_.start(wish, now, static_cast<std::uint64_t>(day) - now);
}

api::TraceBatch ControlBox::read_trace() { return tracer_.read(parts_.now()); }
void ControlBox::stop_trace() { tracer_.stop(); }
api::TraceStatus ControlBox::trace() { return tracer_.status(); }

void ControlBox::set_log_level(LogLevel level) {
  parts_.reload.set_level(level);
  newest_.reset();
}

void ControlBox::note(const std::string& text) { parts_.log(LogLevel::kInfo, "control: " + text); }

}  // namespace tally::daemon
