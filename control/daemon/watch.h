#pragma once
// What happened to jobs and ranks between two looks at the membership, as lines for people. Pure.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/snapshot.h"
#include "daemon/log.h"
#include "daemon/plane.h"
#include "members/membership.h"
#include "members/membership_status.h"
#include "tally/time.h"

namespace tally::daemon {

class JobWatch {
 public:
  // ports: names, by PortIndex.
  JobWatch(LogSink log, std::vector<std::string> ports) : log_(std::move(log)), ports_(std::move(ports)) {}

  void look(members::JobStatus is);
  void gone(JobId id);

  // The newest status of every job seen so far, also of those that are gone: their counters stay of interest.
  [[nodiscard]] const std::map<JobId, members::JobStatus>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] std::string job_name(JobId id) const;
  // "10.0.0.3 (port w3)"
  [[nodiscard]] std::string place_of(const jobs::Binding& binding) const;
  // The members of jobs that live behind a port: "job 'a': ranks 0 and 1; job 'b': rank 3". Empty: none.
  [[nodiscard]] std::string behind(PortIndex port) const;

 private:
  void compare(const members::JobStatus& was, const members::JobStatus& is) const;
  void compare_rank(const members::JobStatus& is, Rank rank, const members::RankStatus& before,
                    const members::RankStatus& now, bool called_back) const;
  void compare_ranks(const members::JobStatus& was, const members::JobStatus& is) const;
  // Of the box of a rack.
  void parent_line(const members::JobStatus& was, const members::JobStatus& is) const;
  void window_line(const members::JobStatus& was, const members::JobStatus& is) const;
  void phase_line(const members::JobStatus& was, const members::JobStatus& is) const;
  // kind, rank: About.
  void say(LogLevel level, const members::JobStatus& job, std::string_view kind, const std::string& text,
           std::optional<Rank> rank = {}) const;

  LogSink log_;
  std::vector<std::string> ports_;
  std::map<JobId, members::JobStatus> jobs_{};
};

// Links that come and go, cores that stand still, memory that runs out: looked at every kBoxLook, told once. What
// has to be done about a link is done at the same look: a port whose interface returned is opened again, and the
// box announces its addresses where a link came up. Pure. Owner: the control thread.

inline constexpr TimeNs kBoxLook = 100 * kMillisecond;
inline constexpr TimeNs kStalled = api::kCoreStalled;

class BoxWatch {
 public:
  // plane, jobs: outlive the watch.
  BoxWatch(Plane& plane, const JobWatch& jobs, LogSink log, TimeNs now);

  void look(TimeNs now);
  // How long ago the core did its last turn that we know of, of the core for which that is longest.
  [[nodiscard]] TimeNs longest_silence(TimeNs now) const;

 private:
  [[nodiscard]] TimeNs silence(std::size_t core, TimeNs now) const;
  void look_at_links(TimeNs now);
  void tell_link(PortIndex port, const dpdk::PortLink& was, const dpdk::PortLink& is) const;
  void look_at_cores(TimeNs now);
  void look_at_memory(TimeNs now);
  void look_at_punts(TimeNs now);

  // A host, or a switch on the way, may hear nothing in the moment in which its link comes up: so the box says
  // twice who it is (RFC 5227, 2.3).
  static constexpr int kAnnouncements = 2;
  static constexpr TimeNs kBetweenAnnouncements = 2 * kSecond;

  struct Link {
    dpdk::PortLink state{};
    int announcements = 0;  // that are left
    TimeNs announce_at = 0;
  };

  // On a CPU with other busy threads it may stand still several times in a second.
  struct Core {
    TimeNs stalled_since = 0;  // 0: it runs
    bool told = false;         // of this stall
    LogLimit lines{1, 60 * kSecond};
  };
  static constexpr TimeNs kLongStall = kSecond;  // is told in any case

  Plane& plane_;
  const JobWatch& jobs_;
  LogSink log_;
  TimeNs started_;
  std::vector<Link> links_;  // by PortIndex
  std::vector<Core> cores_;
  std::uint64_t no_mbuf_ = 0;
  std::uint64_t punts_lost_ = 0;
  LogLimit memory_lines_{1, 60 * kSecond};
  LogLimit punt_lines_{1, 60 * kSecond};
};

// What the jobs that share slots want, as the data cores show it. Owner: the control thread.

class ShareWatch {
 public:
  // plane: outlives the watch.
  explicit ShareWatch(const Plane& plane) noexcept : plane_(plane) {}

  // The demand since the last look, of these jobs.
  [[nodiscard]] std::vector<members::SharedDemand> look(const std::set<JobId>& sharing);

 private:
  const Plane& plane_;
  std::map<JobId, std::uint64_t> denied_;  // of all cores, at the last look
};

}  // namespace tally::daemon
