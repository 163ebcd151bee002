#pragma once
// What happened to jobs and ranks between two looks at the membership, as lines for people. Pure.

#include <map>
#include <string>
#include <vector>

#include "log.h"
#include "membership_status.h"

namespace tally {

class JobWatch {
 public:
  // ports: names, by PortIndex.
  JobWatch(LogSink log, std::vector<std::string> ports) : log_(std::move(log)), ports_(std::move(ports)) {}

  void look(const std::vector<JobStatus>& now);

  // The newest status of every job seen so far, also of those that are gone: their counters stay of interest.
  [[nodiscard]] const std::map<JobId, JobStatus>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] std::string job_name(JobId id) const;
  // "10.0.0.3 (port w3)"
  [[nodiscard]] std::string place_of(const Binding& binding) const;

 private:
  void compare(const JobStatus& was, const JobStatus& is) const;
  void compare_rank(const JobStatus& is, Rank rank, const RankStatus& before, const RankStatus& now) const;
  void compare_ranks(const JobStatus& was, const JobStatus& is) const;
  void window_line(const JobStatus& was, const JobStatus& is) const;
  void phase_line(const JobStatus& was, const JobStatus& is) const;
  void say(LogLevel level, const JobStatus& job, const std::string& text) const;

  LogSink log_;
  std::vector<std::string> ports_;
  std::map<JobId, JobStatus> jobs_{};
};

}  // namespace tally
