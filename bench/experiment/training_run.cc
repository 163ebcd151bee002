#include "training_run.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "box_model.h"
#include "chance.h"
#include "hosts.h"
#include "job_plan.h"
#include "links.h"
#include "packets.h"
#include "schedule.h"
#include "setting.h"

namespace tally::experiment {
namespace {

class Run {
 public:
  explicit Run(const Setting& setting)
      : setting_(setting),
        u_(setting.ns_per_byte * kFullPacketBytes),
        chance_(setting.seed),
        plans_(plans_of(setting, chance_)),
        box_(time_, packets_, setting, 2 * ns(setting.delay), rows_of(setting, plans_)) {
    make_workers();
    if (!setting.embedded) make_servers();
    connect_box();
    for (std::size_t job = 0; job < plans_.size(); ++job) {
      if (setting_.only_job_0 && job != 0) continue;
      for (auto& worker : workers_[job]) {
        worker->hear(box_.answer_join(worker->say_join()));
        worker->start(ns(plans_[job].arrival));
      }
    }
  }

  Outcomes go() {
    const TimeNs limit = ns(setting_.give_up);
    while (!finished()) {
      int events = 0;
      while (events < kEventsBetweenLooks && time_.step(limit)) ++events;
      if (events == 0) broken(describe() + " does not end");
    }
    return report();
  }

 private:
  static constexpr int kEventsBetweenLooks = 64;

  [[nodiscard]] TimeNs ns(double u) const { return static_cast<TimeNs>(u * u_); }

  [[nodiscard]] LinkModel link(double rate, std::uint64_t name) const {
    return {.ns_per_byte = setting_.ns_per_byte / rate,
            .delay = ns(setting_.delay),
            .loss = setting_.loss,
            .name = name};
  }

  void make_workers() {
    workers_.resize(plans_.size());
    for (std::size_t job = 0; job < plans_.size(); ++job) {
      for (std::uint16_t rank = 0; rank < setting_.world; ++rank) {
        const TrainingWorker::Options options{.job = box_.row(job),
                                              .rank = Rank{rank},
                                              .plan = plans_[job],
                                              .u = u_,
                                              .skew = setting_.skew,
                                              .rto_floor = setting_.rto_floor,
                                              .ecn = setting_.row.ecn};
        auto worker = std::make_unique<TrainingWorker>(time_, packets_, chance_, options);
        LinkModel up = link(1, 4 * (job * 64 + rank));
        up.jitter = ns(setting_.jitter);
        up.stall = setting_.stall;
        up.stall_time = ns(setting_.stall_time);
        worker->connect(std::make_unique<Link>(time_, packets_, chance_, up, box_, BoxModel::kFromWorker));
        workers_[job].push_back(std::move(worker));
      }
    }
  }

  void make_servers() {
    for (std::size_t first = 0; first < plans_.size(); first += setting_.jobs_of_server) {
      std::vector<const jobs::NativeJob*> jobs;
      for (std::size_t job = first; job < first + setting_.jobs_of_server && job < plans_.size(); ++job)
        jobs.push_back(&box_.row(job));
      if (jobs.front()->server != ServerKind::kExternal) return;
      auto host = std::make_unique<ServerHost>(time_, packets_, jobs, box_.gaps());
      host->connect(std::make_unique<Link>(
          time_, packets_, chance_, link(setting_.server_rate, 4 * first + 1), box_, BoxModel::kFromServer));
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const auto join = host->say_join();
        host->hear(box_.answer_join(join));
      }
      if (!host->running()) broken("a server does not take its JOINED");
      servers_.push_back(std::move(host));
    }
  }

  void connect_box() {
    std::vector<std::vector<std::unique_ptr<Link>>> down(plans_.size());
    for (std::size_t job = 0; job < plans_.size(); ++job) {
      for (std::size_t rank = 0; rank < workers_[job].size(); ++rank)
        down[job].push_back(std::make_unique<Link>(time_, packets_, chance_,
                                                   link(1, 4 * (job * 64 + rank) + 2), *workers_[job][rank],
                                                   TrainingWorker::kReceive));
    }
    std::vector<std::unique_ptr<ServerLink>> to_servers;
    for (std::size_t i = 0; i < servers_.size(); ++i)
      to_servers.push_back(
          std::make_unique<ServerLink>(time_, packets_, chance_, link(setting_.server_rate, 4 * i + 3),
                                       setting_.server_queue, *servers_[i], ServerHost::kReceive));
    box_.connect(std::move(down), std::move(to_servers));
  }

  [[nodiscard]] bool finished() const {
    for (std::size_t job = 0; job < workers_.size(); ++job) {
      if (setting_.only_job_0 && job != 0) break;
      for (const auto& worker : workers_[job])
        if (!worker->finished()) return false;
    }
    return true;
  }

  [[nodiscard]] std::string describe() const {
    return std::string(setting_.row.name) + ", seed " + std::to_string(setting_.seed) + ", slots " +
           std::to_string(slots_of(setting_));
  }

  Outcomes report() {
    Outcomes out;
    out.slots = slots_of(setting_);
    TimeNs end = 0;
    for (std::size_t job = 0; job < workers_.size(); ++job) {
      if (setting_.only_job_0 && job != 0) break;
      TimeNs last = 0;
      for (const auto& worker : workers_[job]) {
        last = std::max(last, worker->finished_at());
        out.wrong += worker->wrong();
        const EngineStatistics& s = worker->engine().statistics();
        out.contributions += s.contributions;
        out.retransmissions += s.retransmissions;
        out.early += s.early;
        out.queries += s.queries;
        out.lost += worker->link().lost();
      }
      end = std::max(end, last);
      out.jobs.push_back({plans_[job].model, static_cast<double>(last) / u_ - plans_[job].arrival});
    }
    for (const auto& server : servers_) {
      for (std::size_t job = 0; job < server->engine().jobs(); ++job) {
        const ps::PsJobStatistics& s = server->engine().statistics(job);
        out.flushes += s.flushes;
        out.resends += s.resends;
      }
      out.lost += server->link().lost();
    }
    out.end = static_cast<double>(end) / u_;
    out.events = time_.events();
    box_.report(out, end);
    return out;
  }

  Setting setting_;
  double u_;  // ns
  Chance chance_;
  sim::Schedule time_;
  Packets packets_;
  std::vector<JobPlan> plans_;
  BoxModel box_;
  std::vector<std::vector<std::unique_ptr<TrainingWorker>>> workers_;
  std::vector<std::unique_ptr<ServerHost>> servers_;
};

}  // namespace

Outcomes run(const Setting& setting) { return Run(setting).go(); }

double Outcomes::mean_time() const {
  double sum = 0;
  for (const JobOutcome& job : jobs) sum += job.time;
  return sum / static_cast<double>(jobs.size());
}

}  // namespace tally::experiment
