#pragma once
// What the seeds of several boxes and of racks draw alike. The order of draws is part of what a seed means.

#include <array>
#include <string>
#include <vector>

#include "jobs.h"
#include "scenario.h"

namespace tally::sim {

// A job's, in which numbers wrap soon, or begin anywhere.
inline Chunk draw_first_chunk(Rng& rng) {
  return rng.chance(0.5) ? Chunk{0xFFFF'FFFDU} : Chunk{static_cast<std::uint32_t>(rng.below(2'048))};
}

inline SwitchOptions draw_box(Rng& rng, std::uint8_t index) {
  SwitchOptions box;
  box.self = test_box(index);
  box.cores = static_cast<std::uint8_t>(rng.between(1, 3));
  box.staged = rng.chance(0.2);
  return box;
}

// The next of all workers, who asks these boxes in this order.
inline WorkerOptions draw_worker(const Scenario& s, Rng& rng, const members::NativeConfig& job, Rank rank,
                                 std::vector<jobs::Box> boxes) {
  WorkerOptions w;
  w.index = s.workers.size();
  w.job = job.name;
  w.token = job.token;
  w.rank = rank;
  w.world = job.world();
  w.elements = kMaxElements;
  w.boxes = std::move(boxes);
  w.in_flight = static_cast<std::uint32_t>(rng.between(1, 4));
  w.early = rng.chance(0.5);
  return w;
}

inline Faults draw_faults(Rng& rng, double share) {
  Faults f;
  f.loss = rng.often_none(0.3 * share);
  f.duplicate = rng.often_none(0.3 * share);
  f.reorder = rng.often_none(0.5 * share);
  f.reorder_delay = rng.between(1, 20'000) * kMicrosecond;
  f.corrupt = rng.often_none(0.1 * share);
  f.replay = rng.often_none(0.5 * share);
  if (rng.chance(0.2)) f.late = 0.05 * rng.unit() * rng.unit();
  return f;
}

// Most plans are done soon after the first members are there; that is when blows count.
template <std::size_t N>
PlannedBlow draw_blow(const Scenario& s, Rng& rng, const std::array<Blow, N>& blows) {
  PlannedBlow b{.when = rng.below(s.heal_at), .what = blows[rng.below(N)]};
  if (rng.chance(0.7)) b.when = rng.between(10, 300) * kMillisecond;
  return b;
}
inline TimeNs draw_length(Rng& rng) { return rng.below(rng.chance(0.3) ? 4 * kSecond : 50 * kMillisecond); }

}  // namespace tally::sim
