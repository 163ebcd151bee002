#pragma once
// Which control packets go to the control thread. A flood must cost the data core a look at the packet and
// control nothing, and whoever floods must not keep others out: who is known by secret and binding has its
// job's budget and a ring of its own; a stranger has that of its address, and of its port of the box.

#include <array>
#include <cstdint>
#include <optional>

#include "jobs/job_table.h"
#include "jobs/source_limiter.h"
#include "tally/counters.h"
#include "tally/time.h"

namespace tally::pipeline {

// Owner: one data core, whose packets alone these budgets are of.
class PuntGate {
 public:
  // A rank says less than 110 a second: a HEARTBEAT each tenth of the shortest lease, and those for hints.
  static constexpr jobs::Budget kOfRank{.per_second = 400, .burst = 100};
  // Joining, a rank says a few a second; there may be 64 at one address. PROBEs are limited again, to 100/s.
  static constexpr jobs::Budget kOfHost{.per_second = 2'000, .burst = 256};
  // What control needs 10 ms a second for, if they are JOINs with the right token.
  static constexpr jobs::Budget kOfPort{.per_second = 4'000, .burst = 512};

  explicit PuntGate(std::uint64_t key) noexcept : hosts_(kOfHost, key) {}

  // Why not; nothing: it may go. job: of the member that sent it; nullptr: a stranger.
  std::optional<Drop> refuse(const jobs::NativeJob* job, const jobs::Binding& source, TimeNs now) noexcept {
    if (job != nullptr) {
      const std::uint32_t ranks = job->world + std::uint32_t{job->servers};
      const jobs::Budget all{kOfRank.per_second * ranks, kOfRank.burst * ranks};
      return jobs_[raw(job->id)].take(all, now) ? std::nullopt : std::optional(Drop::kMemberBudget);
    }
    if (!hosts_.take(jobs::host_of(source), now)) return Drop::kSourceBudget;
    jobs::TokenBucket& port = ports_[raw(source.port) % jobs::SourceLimiter::kPorts];
    return port.take(kOfPort, now) ? std::nullopt : std::optional(Drop::kPortBudget);
  }

 private:
  jobs::SourceLimiter hosts_;
  std::array<jobs::TokenBucket, jobs::SourceLimiter::kPorts> ports_{};
  std::array<jobs::TokenBucket, kMaxJobs + 1> jobs_{};
};

}  // namespace tally::pipeline
