// Seeds of jobs over several boxes: who is there, what plans the home gets, and what each box, link and server
// suffers.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "jobs/layout.h"
#include "scenario_draws.h"
#include "tally/net.h"

namespace tally::sim {
namespace {

struct BoxesShape {
  std::uint8_t boxes = 2;
  std::uint8_t servers = 1;
};

// Of some of the boxes, the home among them or not: racks of any size, and any route for each of them. Now and then
// none that fits.
Plan any_plan(Rng& rng, const members::PlanRequest& request) {
  if (rng.chance(0.3)) return even_plan(request);
  Plan plan;
  for (std::size_t box = 0; box < request.addresses.size(); ++box)
    if ((request.usable >> box & 1U) != 0 && rng.chance(0.7)) plan.boxes.push_back(request.addresses[box]);
  if (plan.boxes.empty()) return even_plan(request);
  plan.server_count = request.servers;
  for (auto& server : plan.servers) server = static_cast<std::uint8_t>(rng.below(request.servers));
  plan.tables.resize(rng.between(1, std::min<std::uint64_t>(4, request.world)));
  for (std::uint32_t rank = 0; rank < request.world; ++rank)
    plan.table_of.push_back(static_cast<std::uint8_t>(rng.below(plan.tables.size())));
  const auto route = [&] {
    return Route{.box = static_cast<BoxIndex>(rng.below(plan.boxes.size())), .direct = false};
  };
  const double together = rng.unit();
  const double direct = rng.chance(0.5) ? 0 : 0.5 * rng.unit();
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const bool one = rng.chance(together);
    const Route common = route();
    for (RouteTable& table : plan.tables) {
      table[group] = one ? common : route();
      table[group].direct = rng.chance(direct);
    }
  }
  if (rng.chance(0.03)) plan.table_of.pop_back();
  return plan;
}

void add_boxes(Scenario& s, Rng& rng, const BoxesShape& shape,
               const std::vector<members::NativeConfig>& jobs) {
  std::uint32_t demand = 0;
  for (const members::NativeConfig& job : jobs) demand += job.window;
  for (std::uint8_t i = 0; i < shape.boxes; ++i) {
    SwitchOptions box = draw_box(rng, i);
    box.shared_elements = 64;
    // From hardly any to more than enough.
    box.shared_entries = static_cast<std::uint32_t>(rng.between(1, rng.chance(0.3) ? 4 : 2 * demand));
    box.plans = [dice = std::make_shared<Rng>(rng.next())](const members::PlanRequest& request) {
      return any_plan(*dice, request);
    };
    box.jobs = jobs;
    for (members::NativeConfig& job : box.jobs) job.boxes->here = i;
    i == 0 ? s.box = box : s.others.emplace_back(box);
  }
}

members::NativeConfig job_over(Rng& rng, std::size_t index, const BoxesShape& shape) {
  members::NativeConfig job;
  job.priority = members::kMaxPriority;
  job.name = "job" + std::to_string(index);
  job.token = "token" + std::to_string(rng.below(100));
  job.workers = static_cast<std::uint16_t>(rng.chance(0.1) ? rng.between(7, 12) : rng.between(1, 6));
  job.elements = static_cast<std::uint16_t>(16 * rng.between(1, 4));
  job.window = 16U << rng.below(2);
  job.lease = rng.between(1, 2) * kSecond;
  job.first_chunk = draw_first_chunk(rng);
  job.discipline = Discipline::kShared;
  job.server = ServerKind::kExternal;
  job.servers = shape.servers;
  job.boxes.emplace();
  for (std::uint8_t i = 0; i < shape.boxes; ++i) job.boxes->addresses.push_back(mapped(test_box(i).ipv4));
  job.boxes->home = static_cast<BoxIndex>(rng.below(shape.boxes));
  return job;
}

void add_members(Scenario& s, Rng& rng, const BoxesShape& shape) {
  std::vector<jobs::Box> boxes;
  for (std::uint8_t i = 0; i < shape.boxes; ++i) boxes.push_back(test_box(i));
  for (std::size_t j = 0; j < s.box.jobs.size(); ++j) {
    const members::NativeConfig& job = s.box.jobs[j];
    const bool leaves = rng.chance(0.2);
    for (std::uint16_t r = 0; r < job.workers; ++r) {
      std::vector<jobs::Box> asked = boxes;  // the home, or it finds it
      std::rotate(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(rng.below(boxes.size())), asked.end());
      WorkerOptions w = draw_worker(s, rng, job, Rank{r}, std::move(asked));
      w.binding = test_binding(static_cast<std::uint16_t>(j + 1), r);
      w.binding.port = PortIndex{static_cast<std::uint16_t>(w.index)};
      w.leaves = leaves;
      s.workers.push_back(w);
    }
  }
  for (std::uint8_t i = 0; i < shape.servers; ++i) {
    ServerOptions server;
    server.index = s.workers.size() + i;
    for (const members::NativeConfig& job : s.box.jobs) server.jobs.push_back({job.name, job.token, i});
    server.elements = 64;
    server.states = static_cast<std::uint32_t>(rng.between(64, 256));
    server.binding.address = mapped({10, 0, 200, static_cast<std::uint8_t>(i + 1)});
    server.binding.mac = {2, 5, 0, 0, 0, i};
    server.binding.udp_port = 50'000;
    server.binding.port = PortIndex{static_cast<std::uint16_t>(server.index)};
    server.boxes = boxes;
    s.servers.push_back(server);
  }
}

void add_faults(Scenario& s, Rng& rng) {
  s.faults = draw_faults(rng, 0.5);
  s.faults.forge = rng.chance(0.7) ? 0 : rng.often_none(0.3);
  const std::size_t links = (s.workers.size() + s.servers.size()) * (1 + s.others.size());
  const auto worse = rng.chance(0.5) ? 0 : rng.below(links);
  for (std::uint64_t i = 0; i < worse; ++i) s.link_faults.emplace_back(rng.below(links), draw_faults(rng, 1));
  if (rng.chance(0.2)) s.made_up_every = rng.between(50, 20'000) * kMicrosecond;
}

void add_blows_to_boxes(Scenario& s, Rng& rng) {
  constexpr std::array kBlows{
      Blow::kPauseWorker,      Blow::kCrashWorker,      Blow::kPauseSwitch,   Blow::kStallSwitch,
      Blow::kRestartDataPlane, Blow::kRestartDataPlane, Blow::kRestartSwitch, Blow::kRestartSwitch,
      Blow::kCutBoxOff,        Blow::kDeafenBox,        Blow::kMuteBox,       Blow::kCutUp,
      Blow::kCutDown,          Blow::kReplan,           Blow::kReplan,        Blow::kReplan,
      Blow::kPauseServer,      Blow::kCrashServer,      Blow::kReplayControl, Blow::kReplayConversation,
      Blow::kRestartTwice,     Blow::kRestartAndCrash,  Blow::kAbortByWorker, Blow::kRestartAmidOldControl,
      Blow::kTakeOver,         Blow::kTakeOver};
  const auto count = rng.chance(0.1) ? 0 : rng.between(1, 9);
  for (std::uint64_t i = 0; i < count; ++i) {
    PlannedBlow b = draw_blow(s, rng, kBlows);
    const bool server = b.what == Blow::kPauseServer || b.what == Blow::kCrashServer;
    b.worker = rng.below(server ? s.servers.size() : s.workers.size());
    b.lasts = draw_length(rng);
    b.box = rng.below(1 + s.others.size());
    if (b.what == Blow::kReplan) b.box = s.box.jobs[rng.below(s.box.jobs.size())].boxes->home;
    s.blows.push_back(b);
  }
}

}  // namespace

Scenario boxes_scenario_of(std::uint64_t seed) {
  Rng rng(mix64(seed + 41));
  Scenario s;
  s.seed = seed;
  const BoxesShape shape{.boxes = static_cast<std::uint8_t>(rng.between(2, rng.chance(0.6) ? 3 : 8)),
                         .servers = static_cast<std::uint8_t>(rng.between(1, rng.chance(0.6) ? 2 : 4))};
  std::vector<members::NativeConfig> jobs;
  const std::size_t count = rng.chance(0.8) ? 1 : 2;
  for (std::size_t i = 0; i < count; ++i) jobs.push_back(job_over(rng, i, shape));
  add_boxes(s, rng, shape, jobs);
  add_members(s, rng, shape);
  // Long ones make operations long, at no cost.
  s.link.delay = rng.between(2, rng.chance(0.5) ? 200 : 3'000) * kMicrosecond;
  s.link.vouched = rng.chance(0.5);
  s.operations = static_cast<std::uint32_t>(rng.between(2, 12));
  s.largest = static_cast<std::uint32_t>(rng.between(20, rng.chance(0.8) ? 600 : 3'000));
  s.heal_at = rng.between(20, rng.chance(0.6) ? 400 : 4'000) * kMillisecond;
  add_faults(s, rng);
  add_blows_to_boxes(s, rng);
  return s;
}

}  // namespace tally::sim
