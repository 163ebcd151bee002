#include "daemon/planner_link.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cluster/cluster_file.h"
#include "daemon/plan_status.h"
#include "planner/linear_program.h"
#include "tally/background_thread.h"

namespace tally::daemon {
namespace {

// Behind everything else that is no packet's: nobody waits for it.
constexpr int kNice = 10;

std::vector<Ipv6> addresses_of(const config::Config& config) {
  std::vector<Ipv6> own;
  if (config.box.ipv4) own.push_back(mapped(config.box.ipv4->address));
  if (config.box.ipv6) own.push_back(config.box.ipv6->address);
  return own;
}

}  // namespace

ClusterResult read_cluster(const config::PlannerSection& section) {
  if (!section.cluster) return nullptr;
  auto loaded = cluster::load_cluster(*section.cluster);
  if (!loaded) return tl::unexpected<config::Diagnostics>(std::move(loaded.error()));
  return std::make_shared<const cluster::Cluster>(std::move(loaded->cluster));
}

planning::Desk make_desk(const config::Config& config) { return planning::Desk(addresses_of(config)); }

PlannerLink::PlannerLink(planning::Desk& desk, Plane& plane, MemberLoop& members,
                         const config::Config& config, LogSink log)
    : desk_(desk),
      plane_(plane),
      members_(members),
      file_(config.planner.cluster.value_or("")),
      own_(addresses_of(config)),
      log_(std::move(log)),
      thread_(background_thread("tally-plan", config.dataplane.cores, [this] { reckon(); })) {}

PlannerLink::~PlannerLink() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();  // a program that is being solved ends now, too
}

void PlannerLink::reckon() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  const planner::StopWhen stop(over_);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return over_ || !work_.empty(); });
    if (over_) return;
    planning::Work work = std::move(work_.front());
    work_.erase(work_.begin());
    lock.unlock();
    planning::WorkDone done = planning::do_work(std::move(work));
    lock.lock();
    done_.push_back(std::move(done));
  }
}

void PlannerLink::give(planning::Work work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void PlannerLink::exchange_work(TimeNs now) {
  std::vector<planning::WorkDone> done;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, {});
  }
  for (planning::WorkDone& one : done) {
    if (one.work.fleet)
      for_fleet_ = std::move(one);
    else
      desk_.done(std::move(one));
  }
  if (auto work = desk_.work(now)) give(std::move(*work));
}

void PlannerLink::look_at_jobs(TimeNs now) {
  const auto& jobs = members_.watch().jobs();
  std::vector<std::string> left;
  left.reserve(desk_.jobs().size());
  for (const auto& [name, job] : desk_.jobs()) left.push_back(name);
  for (const auto& [id, status] : jobs) {
    if (!status.boxes || std::erase(left, status.name) == 0) continue;
    if (status.boxes->here != status.boxes->home) {
      desk_.gone(status.name);
      continue;
    }
    planning::Desk::Seen seen{.running = status.phase == members::JobPhase::kRunning,
                              .over = status.phase == members::JobPhase::kDeclared ||
                                      status.phase == members::JobPhase::kEnded ||
                                      status.phase == members::JobPhase::kAborted,
                              .epoch = status.epoch};
    for (std::size_t b = 0; b < status.boxes->boxes.size(); ++b)
      if (status.boxes->boxes[b].left_out) seen.left_out |= std::uint64_t{1} << b;
    desk_.saw(status.name, seen, now);
  }
  for (const std::string& name : left) desk_.gone(name);
}

void PlannerLink::look_at_misses(TimeNs now) {
  for (const auto& [id, status] : members_.watch().jobs()) {
    if (!status.boxes || !desk_.jobs().contains(status.name)) continue;
    Taken all;
    for (std::size_t core = 0; core < plane_.cores(); ++core) {
      const pipeline::SlotCounters& slots = plane_.state(core, id).slots;
      all.claims += slots.claims.get();
      all.denied += slots.denied.get();
    }
    const auto [at, first] = taken_.try_emplace(status.name, all);
    const Taken before = std::exchange(at->second, all);
    if (first || all.denied < before.denied || all.claims < before.claims) continue;  // of another life
    desk_.saw_slots(status.name, all.claims - before.claims, all.denied - before.denied, now);
  }
  std::erase_if(taken_, [&](const auto& one) { return !desk_.jobs().contains(one.first); });
}

void PlannerLink::tell() {
  for (const planning::Desk::Note& note : desk_.take_notes()) {
    const auto left_out = limit_.take(steady_now());
    if (!left_out) continue;
    log_(note.warning ? LogLevel::kWarning : LogLevel::kInfo,
         "job '" + note.job + "': " + note.text + left_out_text(*left_out),
         {.kind = "job.planned", .job = note.job});
  }
}

bool PlannerLink::turn(TimeNs now) {
  exchange_work(now);
  if (desk_.jobs().empty()) return false;
  look_at_jobs(now);
  if (now >= misses_at_ + kBetweenMisses) {
    misses_at_ = now;
    look_at_misses(now);
  }
  bool called_back = false;
  for (const planning::Desk::Wish& wish : desk_.wishes(now)) {
    if (members_.engine().replan(wish.job, now, wish.take_back))
      called_back = true;
    else
      desk_.refused(wish.job);
  }
  if (called_back) {
    members_.look(now);
    look_at_jobs(now);
  }
  tell();
  return called_back;
}

void PlannerLink::set_cluster(const config::PlannerSection& section,
                              std::shared_ptr<const cluster::Cluster> cluster, TimeNs now) {
  file_ = section.cluster.value_or("");
  desk_.set_cluster(std::move(cluster), now);
  status_.reset();
}

std::shared_ptr<const api::PlanStatus> PlannerLink::status(TimeNs now) {
  if (file_.empty() && who_.planner.empty() && who_.trouble.empty()) return nullptr;
  if (!status_ || now >= status_at_ + kStatusAge) {
    auto made = std::make_shared<api::PlanStatus>(plan_status(desk_, file_, own_));
    made->planner = who_.planner;
    made->planner_since = who_.since;
    made->is_planner = who_.here || !who_.in_fleet;
    made->trouble = who_.trouble;
    status_ = std::move(made);
    status_at_ = now;
  }
  return status_;
}

}  // namespace tally::daemon
