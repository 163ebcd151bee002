#include "planner/jobs.h"

#include <algorithm>
#include <numeric>

#include "planner/closed_form.h"

namespace tally::planner {
namespace {

// Workers of racks that use a box.
std::vector<double> reaching(const Plan& plan, const Party& party) {
  std::vector<double> here(plan.tables.boxes.size());
  for (std::size_t r = 0; r < party.racks.size(); ++r) {
    std::vector<bool> seen(here.size());
    for (const Entry& entry : plan.tables.of_rack[r]) {
      if (entry.box == Entry::kNoBox || seen[entry.box]) continue;
      seen[entry.box] = true;
      here[entry.box] += party.racks[r].workers;
    }
  }
  return here;
}

// What a box has answered: how much it carries when `here` workers reach it.
struct Given {
  bool asked = false;
  std::uint64_t slots = 0;
};

}  // namespace

Result<Plan> make_admitted_plan(const Network& network, const Job& job, const Rates& capacity,
                                const Admission& admission, const Options& options) {
  const Topology& topology = network.topology;
  auto party = party_of(topology, job, capacity);
  if (!party) return tl::unexpected<Error>(party.error());
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  std::vector<Given> given(topology.boxes().size());
  if (party->box_limits.empty()) party->box_limits.assign(given.size(), kNoLimit);
  for (int again = 0;; ++again) {
    auto plan = make_plan(network, job.name, *party, capacity, options);
    if (!plan) return plan;
    const std::vector<double> here = reaching(*plan, *party);
    const auto carried = [&](std::size_t b) {
      return memory_rate(here[b], given[plan->tables.boxes[b]].slots, admission.slot_bytes,
                         admission.seconds);
    };
    bool enough = true;
    for (std::size_t b = 0; b < here.size(); ++b) {
      const Index box = plan->tables.boxes[b];
      const double load = plan->loads[topology.box(box)];
      const std::uint64_t wanted = slots_for(load, here[b], admission.slot_bytes, admission.seconds);
      if (again < kSolvedAgain) given[box] = {true, std::min(wanted, admission.ask(box, wanted))};
      if (given[box].slots >= wanted) continue;
      enough = false;
      party->box_limits[box] = carried(b);
    }
    if (enough) return plan;
    if (again == kSolvedAgain) {
      // Fewer workers reach a box than when it was asked, and its slots carry less: the rate is what they carry.
      double rate = plan->rate;
      for (std::size_t b = 0; b < here.size(); ++b) {
        const Resource resource = topology.box(plan->tables.boxes[b]);
        const double possible = plan->rate * carried(b) / plan->loads[resource];
        if (possible >= rate) continue;
        rate = possible;
        plan->binding = resource;
      }
      if (!(rate > 0))
        return fail(ErrorCode::kInvalidArgument, "the boxes give this job too few slots", job.name);
      for (double& load : plan->loads) load *= rate / plan->rate;
      plan->rate = rate;
      return plan;
    }
    if (again + 1 < kSolvedAgain) continue;
    // The last time: of each box what it has promised, if everybody reaches it as now.
    std::fill(party->box_limits.begin(), party->box_limits.end(), 0);
    for (std::size_t b = 0; b < here.size(); ++b) party->box_limits[plan->tables.boxes[b]] = carried(b);
  }
}

namespace {

// Which resources a job alone may use are its hosts' links, its servers, and its boxes if it names them; links between
// switches anybody.
std::vector<bool> usable_by(const Topology& topology, const Job& job) {
  std::vector<bool> usable(topology.resources(), true);
  for (const Host& host : topology.hosts()) {
    usable[topology.link(host.up)] = false;
    usable[topology.link(host.down)] = false;
  }
  for (Index s = 0; s < topology.servers().size(); ++s) usable[topology.server(s)] = false;
  const auto use_host = [&](Index number) {
    const Host& host = topology.hosts()[number];
    usable[topology.link(host.up)] = true;
    usable[topology.link(host.down)] = true;
  };
  for (Index b = 0; b < topology.boxes().size() && !job.boxes.empty(); ++b)
    usable[topology.box(b)] =
        std::any_of(job.boxes.begin(), job.boxes.end(), [b](const Job::Use& use) { return use.box == b; });
  for (const Index host : job.workers) {
    if (host < topology.hosts().size()) use_host(host);
  }
  for (const Index server : job.servers) {
    if (server >= topology.servers().size()) continue;
    usable[topology.server(server)] = true;
    use_host(topology.servers()[server].host);
  }
  return usable;
}

void add_to(Rates& left, const Rates& loads, double sign) {
  for (std::size_t r = 0; r < left.size(); ++r) left[r] = std::max(0.0, left[r] + sign * loads[r]);
}

}  // namespace

std::vector<Result<Plan>> make_plans(const Network& network, std::span<const Job> jobs, const Rates& capacity,
                                     const Options& options) {
  const Topology& topology = network.topology;
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return jobs[a].workers.size() > jobs[b].workers.size();
  });
  std::vector<std::vector<bool>> usable;
  std::vector<double> all_workers(topology.resources());  // of jobs that may use it
  for (const Job& job : jobs) {
    usable.push_back(usable_by(topology, job));
    for (std::size_t r = 0; r < all_workers.size(); ++r)
      all_workers[r] += usable.back()[r] ? static_cast<double>(job.workers.size()) : 0;
  }

  std::vector<Result<Plan>> plans(jobs.size(), fail(ErrorCode::kInvalidArgument, "not planned"));
  Rates left = capacity;
  for (const std::size_t j : order) {
    const auto workers = static_cast<double>(jobs[j].workers.size());
    Rates share = capacity;
    for (std::size_t r = 0; r < share.size(); ++r) {
      if (usable[j][r]) share[r] *= workers / all_workers[r];
    }
    plans[j] = make_plan(network, jobs[j], share, options);
    if (plans[j]) add_to(left, plans[j]->loads, -1);
  }
  std::vector<double> waiting = all_workers;
  for (const std::size_t j : order) {
    const auto workers = static_cast<double>(jobs[j].workers.size());
    Rates share = left;
    for (std::size_t r = 0; r < share.size(); ++r) {
      if (!usable[j][r]) continue;
      if (waiting[r] > workers) share[r] *= workers / waiting[r];
      waiting[r] -= workers;
    }
    if (plans[j]) {
      add_to(share, plans[j]->loads, 1);
      add_to(left, plans[j]->loads, 1);
    }
    auto again = make_plan(network, jobs[j], share, options);
    if (again && (!plans[j] || again->rate > plans[j]->rate)) plans[j] = std::move(again);
    if (plans[j]) add_to(left, plans[j]->loads, -1);
  }
  return plans;
}

}  // namespace tally::planner
