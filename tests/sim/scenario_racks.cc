// Seeds of jobs of racks: a box for each rack and one for the racks, and what each box and link suffers.

#include <array>
#include <string>
#include <vector>

#include "scenario_draws.h"
#include "tally/net.h"

namespace tally::sim {
namespace {

std::vector<std::uint8_t> any_racks(Rng& rng) {
  std::vector<std::uint8_t> workers(rng.chance(0.05) ? 1 : rng.between(2, rng.chance(0.6) ? 3 : 8));
  for (std::uint8_t& n : workers) n = static_cast<std::uint8_t>(rng.between(1, 4));
  return workers;
}

// What is the same at all its boxes.
members::NativeConfig job_of_racks(Rng& rng, const std::vector<std::uint8_t>& workers) {
  members::NativeConfig job;
  job.priority = members::kMaxPriority;
  job.name = "job0";
  job.token = "token" + std::to_string(rng.below(100));
  job.lease = rng.between(1, 2) * kSecond;
  job.racks.emplace();
  job.racks->workers = workers;
  return job;
}

SwitchOptions box_of(Rng& rng, std::uint8_t i, members::NativeConfig job) {
  SwitchOptions box = draw_box(rng, i);
  if (i != 0) {
    job.racks->rack = static_cast<std::uint8_t>(i - 1);
    job.racks->parent = mapped(test_box(0).ipv4);
  }
  job.workers = job.racks->ranks_here();
  job.elements = static_cast<std::uint16_t>(16 * rng.between(1, 4));
  job.window = 16U << rng.below(2);
  job.first_chunk = draw_first_chunk(rng);
  box.jobs.push_back(job);
  return box;
}

void add_workers_of(Scenario& s, Rng& rng, const members::NativeConfig& job) {
  const bool leaves = rng.chance(0.2);
  for (std::size_t rack = 0; rack < s.racks; ++rack) {
    SwitchOptions& box = s.others[rack];
    for (std::uint16_t r = 0; r < job.racks->workers[rack]; ++r) {
      const auto number = static_cast<std::uint16_t>(s.workers.size());
      WorkerOptions w = draw_worker(s, rng, job, Rank{number}, {box.self});
      w.binding = test_binding(1, number);
      w.binding.port = PortIndex{number};
      w.leaves = leaves;
      box.ports.push_back(w.binding.port);
      s.workers.push_back(w);
    }
  }
  for (std::size_t rack = 0; rack < s.racks; ++rack)
    s.others[rack].ports.push_back(PortIndex{static_cast<std::uint16_t>(s.workers.size() + rack)});
}

void add_faults_to_racks(Scenario& s, Rng& rng) {
  s.faults = draw_faults(rng, 0.5);
  s.faults.poison = s.link.vouched ? rng.often_none(0.03) : 0;
  s.faults.forge = rng.chance(0.7) ? 0 : rng.often_none(0.3);
  // Links of a rack, to its parent above all.
  const auto worse = rng.chance(0.5) ? 0 : rng.between(1, s.racks);
  const std::size_t ends = s.workers.size() + s.racks;
  for (std::uint64_t i = 0; i < worse; ++i) {
    const bool above = rng.chance(0.6);
    const std::size_t end = above ? s.workers.size() + rng.below(s.racks) : rng.below(s.workers.size());
    const std::size_t box = above ? 0 : rng.between(1, s.racks);
    s.link_faults.emplace_back(box * ends + end, draw_faults(rng, 1));
  }
  if (rng.chance(0.2)) s.made_up_every = rng.between(50, 20'000) * kMicrosecond;
}

std::size_t rack_of(const Scenario& s, std::size_t worker) {
  const auto& racks = s.box.jobs.front().racks;
  std::size_t rack = 0;
  while (worker >= racks->first_of(rack + 1)) ++rack;
  return rack;
}

void add_blows_to_racks(Scenario& s, Rng& rng) {
  constexpr std::array kBlows{
      Blow::kPauseWorker,      Blow::kCrashWorker,      Blow::kPauseSwitch,   Blow::kStallSwitch,
      Blow::kRestartDataPlane, Blow::kRestartDataPlane, Blow::kRestartSwitch, Blow::kRestartSwitch,
      Blow::kCutBoxOff,        Blow::kDeafenBox,        Blow::kMuteBox,       Blow::kCutUp,
      Blow::kCutDown,          Blow::kReplayControl,    Blow::kResize,        Blow::kReplayConversation,
      Blow::kRestartTwice,     Blow::kRestartAndCrash,  Blow::kAbortByWorker, Blow::kRestartAmidOldControl};
  const auto count = rng.chance(0.1) ? 0 : rng.between(1, 7);
  for (std::uint64_t i = 0; i < count; ++i) {
    PlannedBlow b = draw_blow(s, rng, kBlows);
    b.worker = rng.below(s.workers.size());
    b.lasts = draw_length(rng);
    b.window = 16U << rng.below(2);
    b.box = rng.below(1 + s.racks);
    const bool of_link = b.what == Blow::kCutUp || b.what == Blow::kCutDown ||
                         b.what == Blow::kReplayControl || b.what == Blow::kReplayConversation;
    if (of_link) {
      const bool above = rng.chance(0.5);
      b.box = above ? 0 : 1 + rack_of(s, b.worker);
      if (above) b.worker = s.workers.size() + rng.below(s.racks);
    }
    s.blows.push_back(b);
  }
}

}  // namespace

Scenario racks_scenario_of(std::uint64_t seed) {
  Rng rng(mix64(seed + 61));
  Scenario s;
  s.seed = seed;
  const std::vector<std::uint8_t> workers = any_racks(rng);
  const members::NativeConfig job = job_of_racks(rng, workers);
  s.racks = workers.size();
  s.box = box_of(rng, 0, job);
  for (std::uint8_t rack = 0; rack < s.racks; ++rack)
    s.others.push_back(box_of(rng, static_cast<std::uint8_t>(rack + 1), job));
  add_workers_of(s, rng, job);
  s.link.delay = rng.between(2, rng.chance(0.5) ? 200 : 2'000) * kMicrosecond;
  s.link.vouched = rng.chance(0.5);
  s.operations = static_cast<std::uint32_t>(rng.between(2, 8));
  s.largest = static_cast<std::uint32_t>(rng.between(20, rng.chance(0.8) ? 500 : 2'000));
  s.heal_at = rng.between(20, rng.chance(0.6) ? 400 : 4'000) * kMillisecond;
  add_faults_to_racks(s, rng);
  add_blows_to_racks(s, rng);
  return s;
}

}  // namespace tally::sim
