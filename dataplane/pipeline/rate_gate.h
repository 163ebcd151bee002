#pragma once
// Quotas of rate of the jobs: what a tenant sends beyond them is dropped before its values are touched, and
// costs the others no more than a packet that the gates refuse. Fuses and no shapers: a worker whose packets
// are dropped sends them again.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "jobs/job_table.h"
#include "jobs/source_limiter.h"
#include "pipeline/job_state.h"
#include "tally/counters.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::pipeline {

// Is a packet that is dropped for this a bad one, which nobody sends who follows the protocol? Copies and what
// comes late are none: networks make them.
constexpr bool is_bad_packet(Drop why) noexcept {
  switch (why) {
    case Drop::kFlags:
    case Drop::kElements:
    case Drop::kContributors:
    case Drop::kSlot:
    case Drop::kPeer:
    case Drop::kRun:
    case Drop::kType:
    case Drop::kSum:
    case Drop::kDirect:
    case Drop::kSequence:
    case Drop::kMismatch:
    case Drop::kAsker:
      return true;
    default:
      return false;
  }
}

// Owner: one data core, whose packets alone these budgets are of.
class RateGate {
 public:
  // Must refuse() be asked about a packet of this worker? sender: its bit; 0: a server's.
  [[nodiscard]] static bool concerns(const jobs::Job& job, const JobState& state,
                                     std::uint64_t sender) noexcept {
    return job.limits_packets || (state.silenced & sender) != 0;
  }

  // Why the packet goes no further; nothing: it may. Takes a token of the job's packets.
  std::optional<Drop> refuse(JobId job, const jobs::RateLimits& limits, JobState& state, std::uint64_t sender,
                             TimeNs now) noexcept {
    if ((state.silenced & sender) != 0) {
      if (limits.bad_packets && !bad_of(job, sender).ready(*limits.bad_packets, now))
        return Drop::kBadPacketRate;
      state.silenced &= ~sender;
    }
    if (limits.packets && !packets_[raw(job)].take(*limits.packets, now)) return Drop::kPacketRate;
    return std::nullopt;
  }

  // The worker `sender` has sent a bad packet. With its last token it is silenced until it has another one: of what
  // it sends then, good or bad, no check is made.
  void accuse(JobId job, const jobs::RateLimits& limits, JobState& state, std::uint64_t sender,
              TimeNs now) noexcept {
    if (!limits.bad_packets) return;
    jobs::TokenBucket& bucket = bad_of(job, sender);
    bucket.take(*limits.bad_packets, now);
    if (!bucket.ready(*limits.bad_packets, now)) state.silenced |= sender;
  }

 private:
  // Of a job that had this number before: full again after a burst's time, at the latest.
  jobs::TokenBucket& bad_of(JobId job, std::uint64_t sender) noexcept {
    return bad_[raw(job) * kMaxRanks + static_cast<std::size_t>(std::countr_zero(sender))];
  }

  std::unique_ptr<jobs::TokenBucket[]> packets_ = std::make_unique<jobs::TokenBucket[]>(kMaxJobs + 1);
  std::unique_ptr<jobs::TokenBucket[]> bad_ =
      std::make_unique<jobs::TokenBucket[]>((kMaxJobs + 1) * kMaxRanks);
};

}  // namespace tally::pipeline
