#include "scenario.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "jobs.h"
#include "jobs/layout.h"
#include "tally/net.h"

namespace tally::sim {

double often_none(Rng& rng, double most) { return rng.chance(0.5) ? 0 : most * rng.unit() * rng.unit(); }

namespace {

members::NativeConfig random_job(Rng& rng, std::size_t index) {
  members::NativeConfig job;
  job.priority = members::kMaxPriority;
  job.name = "job" + std::to_string(index);
  job.token = "token" + std::to_string(rng.below(100));
  job.workers = static_cast<std::uint16_t>(rng.chance(0.05) ? rng.between(6, 12) : rng.between(1, 4));
  job.elements = static_cast<std::uint16_t>(16 * rng.between(1, 4));
  job.window = 16U << rng.below(2);
  job.lease = rng.between(1, 2) * kSecond;
  job.first_chunk = rng.chance(0.5) ? Chunk{0xFFFF'FFFDU} : Chunk{0};
  return job;
}

void add_workers(Scenario& s, Rng& rng, const members::NativeConfig& job) {
  const bool leaves = rng.chance(0.2);
  for (std::uint16_t r = 0; r < job.workers; ++r) {
    WorkerOptions w;
    w.index = s.workers.size();
    w.job = job.name;
    w.token = job.token;
    w.rank = Rank{r};
    w.world = job.workers;
    w.elements = static_cast<std::uint16_t>(rng.chance(0.8) ? 2224 : 16 * rng.between(1, 4));
    w.binding = test_binding(static_cast<std::uint16_t>(s.box.jobs.size()), r);
    w.binding.port = PortIndex{static_cast<std::uint16_t>(w.index)};
    w.in_flight = static_cast<std::uint32_t>(rng.between(1, 4));
    w.early = rng.chance(0.5);
    w.leaves = leaves;
    s.workers.push_back(w);
  }
}

void add_blows(Scenario& s, Rng& rng) {
  const auto count = rng.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    PlannedBlow b;
    b.when = rng.below(s.heal_at);
    const auto pick = rng.below(12);
    b.what = pick < 4    ? Blow::kPauseWorker
             : pick < 5  ? Blow::kPauseSwitch
             : pick < 6  ? Blow::kCrashWorker
             : pick < 9  ? Blow::kRestartDataPlane
             : pick < 11 ? Blow::kRestartSwitch
                         : Blow::kAbortByWorker;
    b.worker = rng.below(s.workers.size());
    b.lasts = rng.below(rng.chance(0.2) ? 4 * kSecond : 50 * kMillisecond);
    s.blows.push_back(b);
  }
}

void add_resizes(Scenario& s, Rng& rng) {
  if (rng.chance(0.6)) return;
  const auto count = rng.between(1, 6);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = Blow::kResize,
                       .worker = rng.below(s.workers.size()),
                       .window = 16U << rng.below(2)});
  }
}

// What comes seconds late, again as a whole, in one direction only, or while the box is coming back.
void add_upsets(Scenario& s, Rng& rng) {
  if (rng.chance(0.4)) return;
  if (rng.chance(0.3)) s.faults.late = 0.05 * rng.unit() * rng.unit();
  constexpr std::array kUpsets{
      Blow::kCutUp,        Blow::kCutDown,         Blow::kReplayControl,        Blow::kStallSwitch,
      Blow::kRestartTwice, Blow::kRestartAndCrash, Blow::kRestartAmidOldControl};
  const auto count = rng.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = kUpsets[rng.below(kUpsets.size())],
                       .worker = rng.below(s.workers.size()),
                       .lasts = rng.below(rng.chance(0.3) ? 3 * kSecond : 300 * kMillisecond)});
  }
}

void draw_links(Scenario& s, Rng& rng) {
  s.link.delay = rng.between(2, 200) * kMicrosecond;
  s.link.vouched = rng.chance(0.5);
  s.faults.loss = rng.often_none(0.3);
  s.faults.duplicate = rng.often_none(0.3);
  s.faults.reorder = rng.often_none(0.5);
  s.faults.reorder_delay = rng.between(1, 20'000) * kMicrosecond;
  s.faults.corrupt = rng.often_none(0.1);
  s.faults.poison = s.link.vouched ? rng.often_none(0.05) : 0;
  s.faults.replay = rng.often_none(0.5);
}

// On the path, off it, and whole conversations again.
void add_forgers(Scenario& s, Rng& rng) {
  if (rng.chance(0.4)) return;
  s.faults.forge = rng.often_none(0.5);
  if (rng.chance(0.2)) s.faults.forge_delay = 150 * kSecond;
  if (rng.chance(0.5)) s.made_up_every = rng.between(50, 20'000) * kMicrosecond;
  const auto count = rng.below(3);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = Blow::kReplayConversation,
                       .worker = rng.below(s.workers.size()),
                       .lasts = rng.below(rng.chance(0.3) ? 3 * kSecond : 300 * kMillisecond)});
  }
}

// Who is late is late by a pause or by losses; the shortest time-outs take a round trip for lateness.
void add_stragglers(Scenario& s, Rng& rng) {
  for (std::size_t i = 0; i < s.box.jobs.size(); ++i) {
    members::NativeConfig& job = s.box.jobs[i];
    if (shares_slots(job.discipline) || job.workers < 2 || !rng.chance(0.3)) continue;
    auto& late = job.stragglers.emplace();
    late.timeout = rng.between(1, rng.chance(0.5) ? 5 : 100) * kMillisecond;
    late.least = static_cast<std::uint16_t>(rng.between(1, job.workers));
    for (WorkerOptions& worker : s.workers) worker.stragglers |= worker.job == job.name;
  }
}

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
  for (members::NativeConfig& job : s.box.jobs) {
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

// Makes some or all jobs of `s`, whose jobs and workers are there, share slots: disciplines, quotas and
// priorities, and how scarce slots and the server's memory are.
void share_slots(Scenario& s, Rng& rng) {
  choose_disciplines(s, rng);
  choose_priorities(s, rng);
  std::uint32_t demand = 0;
  for (const members::NativeConfig& job : s.box.jobs) {
    if (shares_slots(job.discipline)) demand += job.window;
    s.box.shared_elements = std::max(s.box.shared_elements, job.elements);
  }
  const double per_core = static_cast<double>(demand) / s.box.cores;
  s.box.shared_entries = std::max(1U, log_uniform(rng, 0.01 * per_core, 2 * per_core));
  const auto sharing = static_cast<std::uint32_t>(
      std::count_if(s.box.jobs.begin(), s.box.jobs.end(),
                    [](const members::NativeConfig& job) { return shares_slots(job.discipline); }));
  const std::uint32_t states = std::max(sharing, log_uniform(rng, 1, 2 * per_core));  // one for each job
  // A state that nobody will complete, of a chunk that somebody asks for again, holds a full table up until
  // it ages: with fewer states than chunks in flight that may be seconds for each chunk, and chunks must be
  // few.
  if (4 * states < demand) {
    s.largest = std::min(s.largest, 300U);
    s.operations = std::min(s.operations, 3U);
  }
  s.box.server_lines = states * jobs::entry_lines(s.box.shared_elements);
}

ServerOptions server_of_all(const Scenario& s, std::uint8_t i, Rng& rng) {
  ServerOptions server;
  server.index = s.workers.size() + i;
  for (const members::NativeConfig& job : s.box.jobs) {
    if (job.external_servers() > i) server.jobs.push_back({job.name, job.token, i});
  }
  // One that can carry less than its jobs could lowers what they send.
  server.elements = static_cast<std::uint16_t>(rng.chance(0.8) ? 64 : 16 * rng.between(1, 4));
  server.states = static_cast<std::uint32_t>(rng.chance(0.5) ? rng.between(16, 256) : rng.between(1, 16));
  server.binding.address = mapped({10, 0, 200, static_cast<std::uint8_t>(i + 1)});
  server.binding.mac = {2, 5, 0, 0, 0, i};
  server.binding.udp_port = 50'000;
  server.binding.port = PortIndex{static_cast<std::uint16_t>(server.index)};
  return server;
}

void add_server_blows(Scenario& s, Rng& rng) {
  const auto count = rng.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = rng.chance(0.5) ? Blow::kCrashServer : Blow::kPauseServer,
                       .worker = rng.below(s.servers.size()),
                       .lasts = rng.below(rng.chance(0.2) ? 4 * kSecond : 50 * kMillisecond)});
  }
}

// Gives some or all jobs of `s` that share slots, in some scenarios, servers in processes of their own, which
// crash and pause too. `s` is complete otherwise.
void serve_outside(Scenario& s, Rng& rng) {
  if (rng.chance(0.6)) return;
  const bool all = rng.chance(0.6);
  std::uint8_t most = 0;
  for (members::NativeConfig& job : s.box.jobs) {
    if (!shares_slots(job.discipline) || (!all && rng.chance(0.5))) continue;
    job.server = ServerKind::kExternal;
    job.servers = static_cast<std::uint8_t>(rng.chance(0.6) ? 1 : rng.between(2, 3));
    most = std::max(most, job.servers);
  }
  for (std::uint8_t i = 0; i < most; ++i) s.servers.push_back(server_of_all(s, i, rng));
  if (most == 0) return;
  add_server_blows(s, rng);
  s.largest = std::min(s.largest, 300U);
}

}  // namespace

Scenario sparse_scenario_of(std::uint64_t seed) {
  Rng rng(mix64(seed + 81));
  Scenario s;
  s.seed = seed;
  s.tables = true;
  s.box.cores = static_cast<std::uint8_t>(rng.between(1, 3));
  s.box.staged = rng.chance(0.2);
  const std::size_t jobs = rng.chance(0.8) ? 1 : 2;
  for (std::size_t i = 0; i < jobs; ++i) {
    s.box.jobs.push_back(random_job(rng, i));
    if (rng.chance(0.3)) s.box.jobs.back().window = 64;
    add_workers(s, rng, s.box.jobs.back());
  }
  // A rank that does not understand it decides for all of its job.
  if (rng.chance(0.1)) s.workers[rng.below(s.workers.size())].sparse = false;
  draw_links(s, rng);
  s.operations = static_cast<std::uint32_t>(rng.between(1, 4));
  s.largest = static_cast<std::uint32_t>(rng.between(100, rng.chance(0.2) ? 6'000 : 2'000));
  s.heal_at = rng.chance(0.7) ? rng.between(1, 100) * kMillisecond : rng.between(1, 3) * kSecond;
  add_blows(s, rng);
  add_resizes(s, rng);
  add_upsets(s, rng);
  add_forgers(s, rng);
  return s;
}

Scenario tables_scenario_of(std::uint64_t seed) {
  Rng rng(mix64(seed + 83));
  Scenario s;
  s.seed = seed;
  s.operations = 0;
  s.box.cores = static_cast<std::uint8_t>(rng.between(1, 3));
  s.box.staged = rng.chance(0.2);
  s.box.jobs.push_back(random_job(rng, 0));
  s.box.jobs.back().workers = std::max<std::uint16_t>(2, s.box.jobs.back().workers);
  add_workers(s, rng, s.box.jobs.back());
  for (WorkerOptions& worker : s.workers) worker.leaves = false;
  draw_links(s, rng);
  s.heal_at = rng.chance(0.8) ? rng.between(20, 600) * kMillisecond : rng.between(1, 3) * kSecond;
  constexpr std::array kBlows{Blow::kPauseWorker,   Blow::kPauseSwitch,   Blow::kRestartDataPlane,
                              Blow::kRestartSwitch, Blow::kRestartTwice,  Blow::kCutUp,
                              Blow::kCutDown,       Blow::kStallSwitch,   Blow::kRestartDataPlane,
                              Blow::kResize,        Blow::kReplayControl, Blow::kRestartAmidOldControl};
  const auto count = rng.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = kBlows[rng.below(kBlows.size())],
                       .worker = rng.below(s.workers.size()),
                       .lasts = rng.below(rng.chance(0.1) ? 3 * kSecond : 100 * kMillisecond),
                       .window = 16U << rng.below(2)});
  }
  add_forgers(s, rng);
  return s;
}

Scenario scenario_of(std::uint64_t seed) {
  Rng rng(mix64(seed + 1));
  Rng sharing(mix64(seed + 5));  // of its own: what is drawn here changes nothing else
  const bool shares = sharing.chance(0.6);
  const bool many = shares && sharing.chance(0.2);
  Scenario s;
  s.seed = seed;
  auto jobs = rng.chance(0.7) ? 1 : rng.between(2, 3);
  if (shares && jobs == 1 && sharing.chance(0.5)) jobs = 2;
  if (many) jobs = sharing.between(4, 16);
  s.box.cores = static_cast<std::uint8_t>(rng.between(1, 3));
  s.box.staged = rng.chance(0.2);
  for (std::size_t i = 0; i < jobs; ++i) {
    s.box.jobs.push_back(random_job(rng, i));
    add_workers(s, rng, s.box.jobs.back());
  }
  draw_links(s, rng);
  s.operations = static_cast<std::uint32_t>(rng.between(1, 6));
  s.largest = static_cast<std::uint32_t>(rng.chance(0.1) ? 8000 : rng.between(20, 1500));
  if (shares) s.largest = std::min(s.largest, many ? 200U : 1'000U);
  if (many) s.operations = std::min(s.operations, 2U);
  // Most plans end within tens of milliseconds; blows shall hit them.
  s.heal_at = rng.chance(0.5) ? rng.between(1, 100) * kMillisecond : rng.between(1, 6) * kSecond;
  add_blows(s, rng);
  Rng resizes(mix64(seed + 9));  // of its own, as `sharing`
  add_resizes(s, resizes);
  if (shares) share_slots(s, sharing);
  Rng outside(mix64(seed + 13));  // of its own
  serve_outside(s, outside);
  Rng late(mix64(seed + 17));
  add_stragglers(s, late);
  Rng upsets(mix64(seed + 21));  // of its own
  add_upsets(s, upsets);
  Rng forgers(mix64(seed + 25));  // of its own
  add_forgers(s, forgers);
  return s;
}

std::string describe(const Scenario& s) {
  const auto percent = [](double p) {
    return std::to_string(static_cast<int>(p * 1000) / 10.0).substr(0, 4) + " %";
  };
  std::string disciplines;
  for (const members::NativeConfig& job : s.box.jobs)
    disciplines += job.stragglers ? 'l' : "-pfes"[static_cast<int>(job.discipline)];
  return std::to_string(1 + s.others.size()) + " boxes, " + std::to_string(s.box.jobs.size()) + " jobs (" +
         disciplines + "), " + std::to_string(s.workers.size()) + " workers, " + std::to_string(s.box.cores) +
         (s.box.staged ? " staged" : " fused") + " cores, " + std::to_string(s.box.shared_entries) +
         " shared entries, " + std::to_string(s.box.server_lines) + " server lines, " +
         std::to_string(s.servers.size()) + " servers outside, loss " + percent(s.faults.loss) +
         ", duplicate " + percent(s.faults.duplicate) + ", reorder " + percent(s.faults.reorder) +
         ", corrupt " + percent(s.faults.corrupt) + ", poison " + percent(s.faults.poison) + ", replay " +
         percent(s.faults.replay) + ", late " + percent(s.faults.late) + ", forged " +
         percent(s.faults.forge) + ", made up every " + std::to_string(s.made_up_every / kMicrosecond) +
         " us, " + std::to_string(s.blows.size()) + " blows, heals at " +
         std::to_string(s.heal_at / kMillisecond) + " ms";
}

}  // namespace tally::sim
