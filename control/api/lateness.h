#pragma once
// Who is late: for each rank of a job, what the box knows of how far it is and since when it does nothing.
// Pure.
//
// The box knows three things of a rank: when it last heard of it at all, when a data core last took a new
// contribution of it, and, from its heartbeats, the first chunk that it has not offered yet. Workers of a job
// are never further apart than a window: when one stops, all the others have filled theirs a moment later and
// stop too. So a rank is late when it has contributed nothing for longer than two heartbeats and is behind
// the others, or when it is not heard of at all; or when its port is down, which then is why.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "tally/time.h"

namespace tally::api {

struct RankProgress {
  bool late = false;
  std::string why{};                    // "behind by 256 chunks, nothing new for 4.1 s"; empty unless late
  std::optional<TimeNs> seen{};         // ago; empty: never
  std::optional<TimeNs> contributed{};  // ago; empty: not in this life of the box
  // Chunks behind the rank that is furthest, a window at most; empty while it moves, when the last reports of two ranks differ
  // by what was done between them.
  std::optional<std::uint32_t> behind{};
};

// By rank.
[[nodiscard]] std::vector<RankProgress> progress_of(const JobCounts& job, TimeNs now);

// "rank 3 (10.0.0.4): silent for 3.2 s; rank 5 ...", at most three of them; empty: nobody is late.
[[nodiscard]] std::string late_text(const JobCounts& job, const std::vector<RankProgress>& progress);

// Of the box of a rack whose parent is silent: since when; empty: it answers, or is not asked.
[[nodiscard]] std::string parent_text(const members::JobStatus& job, TimeNs now);

}  // namespace tally::api
