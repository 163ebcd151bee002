#include "daemon/control_box.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "config/load_config.h"
#include "daemon/box_doctor.h"
#include "daemon/counters_report.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

std::uint64_t cycles_now() noexcept { return __builtin_ia32_rdtsc(); }

// Milliseconds of the calendar: nobody makes a change in each, so a later life does not say one of this again.
std::uint64_t first_revision() noexcept { return unix_now() / kMillisecond; }

// The configuration, and the cluster that it names; mistakes of either.
config::ConfigResult load_all(const std::string& path, std::shared_ptr<const cluster::Cluster>& cluster) {
  config::ConfigResult read = config::load_config(path);
  if (!read) return read;
  auto found = read_cluster(read->config.planner);
  if (!found) return tl::unexpected<config::Diagnostics>(std::move(found.error()));
  cluster = std::move(*found);
  return read;
}

}  // namespace

ControlBox::ControlBox(Parts parts)
    : parts_(std::move(parts)),
      tracer_(parts_.plane, parts_.loop.members().watch()),
      made_({parts_.reload, parts_.loop.members().engine(), parts_.log,
             std::filesystem::path(parts_.path).parent_path().string(), parts_.now,
             [this] { return parts_.loop.ending(); }, [this] { done(); },
             parts_.keeping.path.empty()
                 ? decltype(MadeJobs::Parts::save)()
                 : [this](std::string text, std::function<void(Result<void>)>
                                                then) { writer_->write(std::move(text), std::move(then)); }}),
      started_(parts_.now()),
      started_cycles_(cycles_now()) {
  if (!parts_.keeping.path.empty() && !parts_.keeping.unusable)
    writer_.emplace(parts_.keeping.path, parts_.keeping.text, parts_.post);
  made_.begin(parts_.keeping, first_revision());
  reloads_.last_good_at = unix_now();
}

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
  for (api::JobCounts& job : all.jobs) {
    job.declared = done || std::ranges::binary_search(declared, job.status.id);
    job.made = parts_.reload.made(job.status.name);
    job.kept = job.status.group_of.empty() && (!job.made || made_.keeps());
  }
  all.dormant = made_.dormant();
  all.revision = made_.revision();
  for (std::size_t core = 0; core < all.cores.size(); ++core) {
    const TimeNs last = std::max(parts_.plane.statistics(core).last_turn.get(), started_);
    all.cores[core].silent = now > last ? now - last : 0;
  }
  all.instance = config.instance;
  all.now = now;
  all.unix_ns = unix_now();
  all.uptime = now - started_;
  all.uptime_cycles = cycles_now() - started_cycles_;
  all.ending = parts_.loop.ending();
  all.membership = members.engine().counters();
  all.answers_unsent = members.unsent();
  all.control = parts_.turns;
  all.reloads = reloads_;
  all.config = parts_.reload.shared_config();
  if (parts_.fleet) all.fleet = parts_.fleet(now);
  if (parts_.planner != nullptr) all.plans = parts_.planner->status(now);
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
  if (made_.busy())
    return {.failed = {"nothing was read: a change of the jobs is being written to the disk"}};
  MemberLoop& members = parts_.loop.members();
  members.look_at_all(parts_.now());  // of sessions that go, the last status is what is printed
  std::shared_ptr<const cluster::Cluster> cluster;
  const config::ConfigResult read = load_all(parts_.path, cluster);
  api::ReloadReport report = parts_.reload.take(read, members.engine(), parts_.now());
  if (!report.refused && parts_.planner != nullptr)
    parts_.planner->set_cluster(parts_.reload.config().planner, std::move(cluster), parts_.now());
  ++(report.refused ? reloads_.refused : reloads_.good);
  reloads_.last_good = !report.refused;
  if (!report.refused) {
    reloads_.last_good_at = unix_now();
    made_.retry();
  }
  if (!report.changed.empty()) made_.count_change();
  done();
  return report;
}

void ControlBox::reload_soon() {
  made_.after([this] { (void)reload(); });
}

api::DiffReport ControlBox::diff() {
  std::shared_ptr<const cluster::Cluster> cluster;
  auto read = load_all(parts_.path, cluster);
  if (!read) return {.diagnostics = std::move(read.error())};
  return {std::move(read->warnings), config::differences(parts_.reload.plan(read->config))};
}

api::ReloadReport ControlBox::restart() {
  if (parts_.loop.ending() || made_.busy())
    return {.failed = {parts_.loop.ending() ? "the box is shutting down already"
                                            : "a change of the jobs is being written to the disk"}};
  if (::access(parts_.program.c_str(), X_OK) != 0)
    return {.failed = {"there is no program to begin anew with: " + parts_.program + ": " +
                       std::generic_category().message(errno)}};
  std::shared_ptr<const cluster::Cluster> cluster;
  auto read = load_all(parts_.path, cluster);
  if (!read) return {.refused = true, .diagnostics = std::move(read.error())};
  api::ReloadReport report{.diagnostics = std::move(read->warnings)};
  const auto sessions = config::jobs_of<config::SessionConfig>(parts_.reload.config());
  for (const auto& [i, session] : sessions)
    report.changed.push_back(
        "job '" + session->name +
        "' is a session, whose clients bring nothing back: what they have begun is lost");
  if (const std::string lost = not_kept(); !lost.empty())
    return {.failed = {lost + " would be lost: nothing keeps what job.add made (control.state)"}};
  parts_.restart();
  return report;
}

std::string ControlBox::not_kept() const {
  std::vector<std::string> names;
  for (const auto& job : parts_.reload.config().jobs) {
    const std::string& name = members::common_of(job).name;
    if (parts_.reload.made(name) && !made_.keeps()) names.push_back("'" + name + "'");
  }
  if (names.empty()) return {};
  return (names.size() == 1 ? "job " : "jobs ") + text::listed(names);
}

void ControlBox::add_job(const api::Json& job, api::IfRevision if_revision, api::ChangeDone done) {
  made_.add(job, if_revision, std::move(done));
}

void ControlBox::set_job(const std::string& name, const api::Json& keys, api::IfRevision if_revision,
                         api::ChangeDone done) {
  made_.set(name, keys, if_revision, std::move(done));
}

void ControlBox::remove_job(const std::string& name, bool abort, api::IfRevision if_revision,
                            api::ChangeDone done) {
  made_.remove(name, abort, if_revision, std::move(done));
}

Result<void> ControlBox::abort(const std::string& job, const std::string& reason) {
  auto aborted = parts_.loop.members().engine().abort(job, reason, parts_.now());
  if (aborted) made_.count_change();
  done();
  return aborted;
}

Result<void> ControlBox::replan(const std::string& job) {
  if (parts_.planner != nullptr) parts_.planner->asked(job);
  auto planned = parts_.loop.members().engine().replan(job, parts_.now());
  if (planned) made_.count_change();
  done();
  return planned;
}

Result<void> ControlBox::set_plan_rate(const std::string& resource, std::optional<double> gbps) {
  if (parts_.planner == nullptr) return api::Box::set_plan_rate(resource, gbps);
  auto set = parts_.planner->set_rate(resource, gbps, parts_.now());
  if (set) made_.count_change();
  done();
  return set;
}

std::vector<doctor::Finding> ControlBox::examine() { return examine_box(parts_.reload.config()); }

Result<void> ControlBox::start_trace(const api::TraceWish& wish) {
  const TimeNs now = parts_.now();
  return tracer_.start(wish, now, unix_now() - now);
}

api::TraceBatch ControlBox::read_trace() { return tracer_.read(parts_.now()); }
void ControlBox::stop_trace() { tracer_.stop(); }
api::TraceStatus ControlBox::trace() { return tracer_.status(); }

void ControlBox::set_log_level(LogLevel level) {
  parts_.reload.set_level(level);
  made_.count_change();
  newest_.reset();
}

void ControlBox::note(const std::string& text) { parts_.log(LogLevel::kInfo, "control: " + text); }

}  // namespace tally::daemon
