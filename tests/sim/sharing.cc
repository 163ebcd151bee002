#include "sharing.h"

#include <algorithm>
#include <cmath>

#include "jobs/layout.h"

namespace tally::sim {
namespace {

Discipline random_discipline(Rng& rng) {
  const auto pick = rng.below(10);
  return pick < 5 ? Discipline::kShared : pick < 7 ? Discipline::kFcfs : Discipline::kPreemptive;
}

// reserved: what is left to be reserved by later jobs.
members::Quota random_quota(Rng& rng, std::uint32_t& reserved) {
  members::Quota q;
  if (rng.chance(0.5)) q.reserved_ppm = static_cast<std::uint32_t>(rng.below(reserved + 1));
  reserved -= q.reserved_ppm;
  if (rng.chance(0.3))
    q.cap_ppm = static_cast<std::uint32_t>(rng.between(std::max(q.reserved_ppm, 1U), members::kWholePpm));
  q.weight = static_cast<std::uint32_t>(rng.between(1, 4));
  return q;
}

void choose_disciplines(Scenario& s, Rng& rng) {
  const bool all_alike = rng.chance(0.5);
  const Discipline one = random_discipline(rng);
  const bool quotas = rng.chance(0.5);
  std::uint32_t to_reserve = members::kWholePpm;
  for (members::JobConfig& job : s.box.jobs) {
    if (!all_alike && rng.chance(0.15)) continue;  // a pool beside them
    job.discipline = all_alike ? one : random_discipline(rng);
    job.server = ServerKind::kEmbedded;
    job.decay = static_cast<Decay>(rng.below(3));
    if (quotas) job.quota = random_quota(rng, to_reserve);
    if (rng.chance(0.3)) job.priority = static_cast<std::uint8_t>(rng.below(255));
  }
}

// Of all ranks of a job the same, or each its own.
void choose_priorities(Scenario& s, Rng& rng) {
  if (rng.chance(0.3)) return;
  const bool by_rank = rng.chance(0.2);
  std::uint8_t priority = 0;
  for (WorkerOptions& worker : s.workers) {
    if (worker.rank == Rank{0} || by_rank) priority = static_cast<std::uint8_t>(rng.below(255));
    worker.priority = priority;
  }
}

// Small numbers as likely as large ones.
std::uint32_t log_uniform(Rng& rng, double least, double most) {
  return static_cast<std::uint32_t>(std::lround(least * std::pow(most / least, rng.unit())));
}

}  // namespace

void share_slots(Scenario& s, Rng& rng) {
  choose_disciplines(s, rng);
  choose_priorities(s, rng);
  std::uint32_t demand = 0;
  for (const members::JobConfig& job : s.box.jobs) {
    if (shares_slots(job.discipline)) demand += job.window;
    s.box.shared_elements = std::max(s.box.shared_elements, job.elements);
  }
  const double per_core = static_cast<double>(demand) / s.box.cores;
  s.box.shared_entries = std::max(1U, log_uniform(rng, 0.01 * per_core, 2 * per_core));
  const std::uint32_t states = std::max(1U, log_uniform(rng, 1, 2 * per_core));
  // A state that nobody will complete, of a chunk that somebody asks for again, holds a full table up for
  // seconds: then chunks must be few and patience long.
  if (4 * states < demand) {
    s.largest = std::min(s.largest, 300U);
    s.operations = std::min(s.operations, 3U);
    s.give_up = s.heal_at + 600 * kSecond;
  }
  s.box.server_lines = states * jobs::entry_lines(s.box.shared_elements);
}

}  // namespace tally::sim
