#pragma once
// One run: a job whose workers and box are the product's, with servers beside it, in virtual time. They join; if a set was
// agreed on its two sums are made; then rounds follow one another, each beginning for a worker when the one before has
// ended for it: the servers have what all pushed, and the sums of hot rows are here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hot_workers.h"
#include "round_plan.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::rounds {

// What there is one or more of; the busiest of each counts.
enum class Part : std::uint8_t { kServerThreads, kServerLinks, kWorkersUp, kWorkersDown, kBoxCores };
inline constexpr std::size_t kParts = 5;
inline constexpr std::array<std::string_view, kParts> kPartNames{
    "servers' threads", "servers' links", "workers' links up", "workers' links down", "box"};

struct Measured {
  TimeNs time = 0;  // of all rounds: from the last worker's end of the one before
  std::uint32_t rounds = 0;
  bench::Traffic traffic;             // of them
  TimeNs agreement = 0;               // its two sums
  std::uint64_t wrong = 0;            // values of sums, rows that are missing or too many, stamps
  std::uint64_t again = 0;            // contributions
  std::array<double, kParts> busy{};  // share of the time
  double to_servers = 0;              // bytes on their links, of all rounds

  [[nodiscard]] double per_second() const { return rounds / (static_cast<double>(time) / 1e9); }
  [[nodiscard]] Part fullest() const;
};

// agreement: that the set comes from; nullptr: from none. Fails if anything is broken or does not end.
[[nodiscard]] Result<Measured> run(const Conditions& conditions, const hot::KeySet& set,
                                   const bench::HotWorkers::Agreement* agreement);

}  // namespace tally::rounds
