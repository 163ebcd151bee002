#pragma once
// When each job has something to do, and what changed about which: what happens costs the jobs that it
// happens to, and none of the others that are declared.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// Of every job the time of its next tick, in order.
class Agenda {
 public:
  Agenda() { at_.fill(kNever); }

  void set(JobId id, TimeNs at) {
    TimeNs& was = at_.at(raw(id));
    if (was == at) return;
    if (was != kNever) order_.erase({was, id});
    if (at != kNever) order_.insert({at, id});
    was = at;
  }
  [[nodiscard]] TimeNs of(JobId id) const noexcept { return at_[raw(id)]; }
  [[nodiscard]] TimeNs first() const noexcept { return order_.empty() ? kNever : order_.begin()->first; }
  // Whose time has come; of several the one that waits longest.
  [[nodiscard]] std::optional<JobId> due(TimeNs now) const noexcept {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    return order_.begin()->second;
  }

 private:
  std::array<TimeNs, kMaxJobs + 1> at_{};
  std::set<std::pair<TimeNs, JobId>> order_{};
};

// The times in which nobody listened, the newest few of them apart.
class UnheardTimes {
 public:
  // `time` until `now`; both as CLOCK_MONOTONIC, now never less than before.
  void add(TimeNs time, TimeNs now) noexcept {
    if (count_ == times_.size()) {  // the oldest two become one, which says no less
      times_[1].time += times_[0].time;
      for (std::size_t i = 1; i < count_; ++i) times_[i - 1] = times_[i];
      --count_;
    }
    times_[count_++] = {now, time};
  }
  // How much of the time since `at` it was.
  [[nodiscard]] TimeNs since(TimeNs at) const noexcept {
    TimeNs all = 0;
    for (std::size_t i = count_; i-- > 0 && times_[i].until > at;)
      all += std::min(times_[i].time, times_[i].until - at);
    return all;
  }

 private:
  struct Time {
    TimeNs until = 0;
    TimeNs time = 0;
  };
  std::array<Time, 64> times_{};  // more of them in a lease: some count as lost that lie before it
  std::size_t count_ = 0;
};

}  // namespace tally::members
