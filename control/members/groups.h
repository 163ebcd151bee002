#pragma once
// Jobs that nobody declared. A job with `admit` lets the first JOIN of JOB/GROUP, under its own token, make a
// job of that name: what frameworks form among some of its workers (a communicator, a process group). A group
// has its job's configuration, as it is at that moment, and the world of the JOIN; it goes when nobody was in
// it for a while, and with its job. After a restart of the box its workers make it again.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/source_limiter.h"
#include "members/agenda.h"
#include "members/control_packet.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::members {

// Why a JOIN is not obeyed.
struct Objection {
  MembershipDrop drop{};
  std::string text{};  // for JOINED(refused); empty: no answer, its worker asks again
};

// The name of the job of which `name` could be a group: what is before its first '/'. Empty: of none, for what
// follows is not one name or several, parted by '/'. The names of declared jobs have no '/'.
[[nodiscard]] std::string_view parent_name(std::string_view name) noexcept;

// What a group of `parent` is that a JOIN of this name and world makes.
[[nodiscard]] NativeConfig group_config(const NativeConfig& parent, std::string_view name,
                                        std::uint16_t world);

class Groups {
 public:
  explicit Groups(std::uint64_t random) : rate_({.per_second = 10, .burst = 10}, random) {}

  // The JOIN may make a group of `parent`, which is the job of that id and has `admit`: token, name and
  // freshness are right.
  [[nodiscard]] std::optional<Objection> objection_to(const NativeConfig& parent, JobId parent_id,
                                                      const JoinRequest& join, const jobs::Binding& source,
                                                      TimeNs now);
  // parent: has `admit`.
  void add(JobId group, JobId parent_id, const NativeConfig& parent);
  void remove(JobId group);
  // The name of its job, which may be withdrawn while a box closes; empty: it is no group.
  [[nodiscard]] std::string parent_of(JobId group) const;
  [[nodiscard]] std::vector<JobId> of(JobId parent) const;

  // Its phase is another than before.
  void moved(JobId id) {
    if (groups_.contains(id)) moved_.insert(id);
  }
  // Those that moved since the last call; each is given to idle() then.
  [[nodiscard]] std::set<JobId> take_moved();
  void idle(JobId group, bool idle, TimeNs now);

  // A group in which nobody was for long enough.
  [[nodiscard]] std::optional<JobId> due(TimeNs now) const noexcept { return leaving_.due(now); }
  [[nodiscard]] TimeNs deadline() const noexcept { return moved_.empty() ? leaving_.first() : 0; }

 private:
  struct Group {
    JobId parent{};
    std::string parent_name{};
    TimeNs idle = 0;  // after so long it is forgotten
  };

  std::map<JobId, Group> groups_{};
  std::set<JobId> moved_{};
  Agenda leaving_{};
  jobs::SourceLimiter rate_;  // of JOINs that would make one, of each host
};

}  // namespace tally::members
