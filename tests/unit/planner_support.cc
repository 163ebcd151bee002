#include "planner_support.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "tally/mix64.h"

namespace tally::planner_test {

using planner::Entry;
using planner::Job;
using planner::kGroups;
using planner::kNone;
using planner::Link;
using planner::Rates;
using planner::Results;
using planner::Routing;
using planner::Topology;

double drawn(std::uint64_t seed, std::uint64_t what, std::uint64_t i) {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  return static_cast<double>(mix64(mix64(seed * kStep + what) + i * kStep)) * 0x1p-64;
}

std::vector<Index> picked(std::uint64_t seed, std::uint64_t what, Index n, Index count) {
  std::vector<std::pair<double, Index>> order;
  for (Index i = 0; i < n; ++i) order.emplace_back(drawn(seed, what, i), i);
  std::sort(order.begin(), order.end());
  std::vector<Index> chosen;
  for (Index i = 0; i < count; ++i) chosen.push_back(order[i].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Instance fat_tree_instance(Index workers, std::uint64_t seed, bool unlike) {
  Instance made{planner::fat_tree({.k = 6, .link = 20, .nic = 20, .box = 9}), {.name = "fat"}};
  Topology& topology = made.topology;
  const std::vector<Index> servers = picked(seed, 1, 54, 4);
  std::vector<Index> others;
  for (Index h = 0; h < 54; ++h) {
    if (std::find(servers.begin(), servers.end(), h) == servers.end()) others.push_back(h);
  }
  for (const Index i : picked(seed, 2, static_cast<Index>(others.size()), workers))
    made.job.workers.push_back(others[i]);
  for (const Index host : servers)
    made.job.servers.push_back(
        topology.add_server("ps" + std::to_string(made.job.servers.size() + 1), host, 20));
  made.job.shares.assign(4, 0.25);
  for (Index l = 0; unlike && l < topology.links().size(); ++l)
    topology.set_rate(topology.link(l), 10 + 20 * drawn(seed, 3, l));
  return made;
}

Instance random_instance(std::uint64_t seed, bool wide) {
  std::uint64_t draws = 0;
  const auto draw = [&] { return drawn(seed, 7, ++draws); };
  const auto whole = [&](Index low, Index high) {
    return low + static_cast<Index>(draw() * (high - low + 1));
  };
  Instance made{{}, {.name = "random"}};
  Topology& topology = made.topology;
  const Index racks = whole(1, 4);
  const Index spines = whole(1, 3);
  for (Index r = 0; r < racks; ++r) topology.add_switch("rack" + std::to_string(r + 1));
  for (Index s = 0; s < spines; ++s) topology.add_switch("spine" + std::to_string(s + 1));
  for (Index r = 0; r < racks; ++r) {
    const Index hosts = whole(1, 4);
    for (Index h = 0; h < hosts; ++h)
      topology.add_host("host" + std::to_string(topology.hosts().size() + 1), r, 5 + 20 * draw(),
                        5 + 20 * draw());
    for (Index s = 0; s < spines; ++s) {
      const double width = wide ? 1e6 : 2 + 40 * draw() * draw();
      const double back = wide ? 1e6 : 2 + 40 * draw() * draw();
      const Index link = topology.add_link(r, racks + s, width, back);
      if (wide || draw() > 0.03) continue;
      topology.set_rate(topology.link(link), 0);
      topology.set_rate(topology.link(link + 1), 0);
    }
  }
  for (Index s = 0; s < racks + spines; ++s) {
    if (draw() < 0.7) topology.add_box("box" + std::to_string(s + 1), s, draw() < 0.05 ? 0 : 1 + 40 * draw());
  }
  for (Index h = 0; h < topology.hosts().size(); ++h) {
    if (draw() < 0.8) made.job.workers.push_back(h);
    if (draw() < 0.1) made.job.workers.push_back(h);
  }
  if (made.job.workers.empty()) made.job.workers.push_back(0);
  const Index servers = whole(1, 3);
  for (Index s = 0; s < servers; ++s) {
    const Index host = whole(0, static_cast<Index>(topology.hosts().size()) - 1);
    made.job.servers.push_back(topology.add_server("ps" + std::to_string(s + 1), host, 2 + 40 * draw()));
  }
  if (draw() < 0.5) {
    for (Index s = 0; s < servers; ++s) made.job.shares.push_back(0.1 + draw());
    const double all = std::accumulate(made.job.shares.begin(), made.job.shares.end(), 0.0);
    for (double& share : made.job.shares) share /= all;
  }
  return made;
}

Instance large_instance(double uplink, bool unlike) {
  Instance made{planner::leaf_spine({.racks = 64,
                                     .spines = 8,
                                     .hosts_per_rack = 8,
                                     .nic = 25,
                                     .uplink = 2 * uplink,
                                     .rack_box = 100,
                                     .spine_box = 100}),
                {.name = "large"}};
  Topology& topology = made.topology;
  for (Index h = 0; h < 512; ++h) made.job.workers.push_back(h);
  for (Index s = 0; s < 8; ++s)
    made.job.servers.push_back(topology.add_server("ps" + std::to_string(s + 1), s * 64, 100));
  for (Index l = 2 * 512; unlike && l < topology.links().size(); ++l)
    topology.set_rate(topology.link(l), uplink * (1 + drawn(1, 9, l)));
  for (Index b = 0; unlike && b < topology.boxes().size(); ++b)
    topology.set_rate(topology.box(b), 50 + 100 * drawn(1, 10, b));
  return made;
}

namespace {

// Hops to a switch over links that are up, by relaxing all links until nothing changes.
std::vector<Index> hops_to(const Topology& topology, Index to) {
  std::vector<Index> hops(topology.switches().size(), kNone);
  hops[to] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Link& link : topology.links()) {
      if (link.from == kNone || link.to == kNone || !(link.rate > 0) || hops[link.to] == kNone) continue;
      if (hops[link.from] <= hops[link.to] + 1) continue;
      hops[link.from] = hops[link.to] + 1;
      changed = true;
    }
  }
  return hops;
}

std::vector<Index> next_links(const Topology& topology, const std::vector<Index>& hops, Index at) {
  std::vector<Index> next;
  for (Index l = 0; l < topology.links().size(); ++l) {
    const Link& link = topology.links()[l];
    if (link.from != at || link.to == kNone || !(link.rate > 0)) continue;
    if (hops[link.to] != kNone && hops[link.to] + 1 == hops[at]) next.push_back(l);
  }
  return next;
}

// What of one unit lies on each link, if every switch divides equally among its next hops.
void divide(const Topology& topology, const std::vector<Index>& hops, Index at, double amount,
            std::map<Index, double>& on) {
  if (hops[at] == 0) return;
  const std::vector<Index> next = next_links(topology, hops, at);
  for (const Index link : next) {
    const double part = amount / static_cast<double>(next.size());
    on[link] += part;
    divide(topology, hops, topology.links()[link].to, part, on);
  }
}

class Counter {
 public:
  Counter(const Instance& instance, const planner::Plan& plan, Routing routing, Results results)
      : topology_(instance.topology), plan_(plan), routing_(routing), results_(results), ways_(topology_) {
    loads_.resize(topology_.resources());
  }
  void put_link(Index link, double amount) {
    loads_[topology_.link(link)] += amount;
    if (results_ == Results::kCounted) loads_[topology_.link(topology_.links()[link].reverse)] += amount;
  }
  void to_box(Index from, Index box, double amount) {
    loads_[topology_.box(box)] += amount;
    walk(from, topology_.boxes()[box].at, plan_.spread.to_box(from, box), amount);
  }
  void to_server(Index from, Index server, double amount) {
    loads_[topology_.server(server)] += amount;
    const planner::Host& host = topology_.hosts()[topology_.servers()[server].host];
    put_link(host.down, amount);
    walk(from, host.rack, plan_.spread.to_server(from, server), amount);
  }
  Rates& loads() { return loads_; }

 private:
  void walk(Index from, Index to, const std::vector<double>* shares, double amount) {
    if (routing_ == Routing::kChosen && shares != nullptr) {
      const std::vector<planner::Way>& ways = ways_.between(from, to);
      for (std::size_t w = 0; w < ways.size(); ++w) {
        for (const Index link : ways[w].links) put_link(link, amount * (*shares)[w]);
      }
      return;
    }
    auto [found, is_new] = equal_.try_emplace({from, to});
    if (is_new) divide(topology_, hops_to(topology_, to), from, 1, found->second);
    for (const auto& [link, part] : found->second) put_link(link, amount * part);
  }

  const Topology& topology_;
  const planner::Plan& plan_;
  Routing routing_;
  Results results_;
  planner::Ways ways_;
  std::map<std::pair<Index, Index>, std::map<Index, double>> equal_;
  Rates loads_{};
};

}  // namespace

Rates counted_loads(const Instance& instance, const planner::Plan& plan, Routing routing, Results results) {
  const Topology& topology = instance.topology;
  const Job& job = instance.job;
  Counter counter(instance, plan, routing, results);
  constexpr double kPart = 1.0 / kGroups;
  for (const Index host : job.workers) counter.put_link(topology.hosts()[host].up, 1);
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::set<Index> summed;
    Index server = kNone;
    for (const Index host : job.workers) {
      const Index rack = topology.hosts()[host].rack;
      const auto table =
          std::find(plan.tables.racks.begin(), plan.tables.racks.end(), rack) - plan.tables.racks.begin();
      const Entry entry = plan.tables.of_rack.at(static_cast<std::size_t>(table))[g];
      if (!job.servers.empty()) server = job.servers.at(entry.server);
      if (entry.box == Entry::kNoBox) {
        counter.to_server(rack, server, kPart);
      } else {
        const Index box = plan.tables.boxes.at(entry.box);
        counter.to_box(rack, box, kPart);
        summed.insert(box);
      }
    }
    for (const Index box : summed) {
      if (server != kNone) counter.to_server(topology.boxes()[box].at, server, kPart);
    }
  }
  return counter.loads();
}

double rate_by(const Rates& capacity, const Rates& loads) {
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < loads.size(); ++r) {
    if (loads[r] > 0) rate = std::min(rate, capacity[r] / loads[r]);
  }
  return rate;
}

namespace {

// Rows and columns by triplets, straight into Clp.
class Program {
 public:
  int column(double objective) {
    objective_.push_back(objective);
    return static_cast<int>(objective_.size()) - 1;
  }
  int row(double low, double high) {
    low_.push_back(low);
    high_.push_back(high);
    return static_cast<int>(low_.size()) - 1;
  }
  void add(int row, int column, double value) { values_[{row, column}] += value; }
  double maximum() {
    std::vector<int> rows;
    std::vector<int> columns;
    std::vector<double> elements;
    for (const auto& [at, value] : values_) {
      rows.push_back(at.first);
      columns.push_back(at.second);
      elements.push_back(value);
    }
    CoinPackedMatrix matrix(true, rows.data(), columns.data(), elements.data(),
                            static_cast<int>(elements.size()));
    matrix.setDimensions(static_cast<int>(low_.size()), static_cast<int>(objective_.size()));
    ClpSimplex clp;
    clp.setLogLevel(0);
    clp.loadProblem(matrix, nullptr, nullptr, objective_.data(), low_.data(), high_.data());
    clp.setOptimizationDirection(-1);
    clp.dual();
    return clp.isProvenOptimal() ? clp.objectiveValue() : -1;
  }

 private:
  std::vector<double> objective_;
  std::vector<double> low_;
  std::vector<double> high_;
  std::map<std::pair<int, int>, double> values_;
};

// Traffic to one switch: of each switch what begins there goes on, link by link, nearer each time.
class FlowTo {
 public:
  FlowTo(Program& program, const std::vector<int>& resources, const Topology& topology, Index to,
         Routing routing)
      : program_(program),
        resources_(resources),
        topology_(topology),
        hops_(hops_to(topology, to)),
        routing_(routing) {
    if (routing == Routing::kEcmp) return;
    for (Index at = 0; at < hops_.size(); ++at)
      balance_.push_back(hops_[at] == kNone || hops_[at] == 0 ? -1 : program.row(0, 0));
    for (Index at = 0; at < hops_.size(); ++at) {
      if (balance_[at] < 0) continue;
      for (const Index link : next_links(topology, hops_, at)) {
        const int flow = program.column(0);
        program.add(resources[link], flow, 1);
        program.add(balance_[at], flow, 1);
        const int there = balance_[topology.links()[link].to];
        if (there >= 0) program.add(there, flow, -1);
      }
    }
  }
  [[nodiscard]] bool reached_from(Index at) const { return hops_[at] != kNone; }
  void begin(Index at, int column, double amount) {
    if (routing_ == Routing::kChosen) {
      if (balance_[at] >= 0) program_.add(balance_[at], column, -amount);
      return;
    }
    std::map<Index, double> on;
    divide(topology_, hops_, at, amount, on);
    for (const auto& [link, part] : on) program_.add(resources_[link], column, part);
  }

 private:
  Program& program_;
  const std::vector<int>& resources_;
  const Topology& topology_;
  std::vector<Index> hops_;
  Routing routing_;
  std::vector<int> balance_{};
};

}  // namespace

double best_rate(const Instance& instance, Routing routing) {
  const Topology& topology = instance.topology;
  const Job& job = instance.job;
  std::vector<double> shares = job.shares;
  if (shares.empty()) {
    double all = 0;
    for (const Index server : job.servers) {
      const planner::Server& it = topology.servers()[server];
      shares.push_back(std::min(it.ingress, topology.links()[topology.hosts()[it.host].down].rate));
      all += shares.back();
    }
    for (double& share : shares) share /= all;
  }
  const std::vector<std::size_t> groups = planner::largest_remainder(shares, kGroups);
  for (std::size_t s = 0; s < shares.size(); ++s) shares[s] = static_cast<double>(groups[s]) / kGroups;
  Program program;
  const Rates capacity = topology.rates();
  std::vector<int> resources;
  for (const double room : capacity) resources.push_back(program.row(-COIN_DBL_MAX, room));
  const int rate = program.column(1);
  for (const Index host : job.workers)
    program.add(resources[topology.link(topology.hosts()[host].up)], rate, 1);

  std::vector<FlowTo> to_box;
  for (const planner::Box& box : topology.boxes())
    to_box.emplace_back(program, resources, topology, box.at, routing);
  for (std::size_t s = 0; s < job.servers.size(); ++s) {
    const planner::Server& server = topology.servers()[job.servers[s]];
    const planner::Host& host = topology.hosts()[server.host];
    FlowTo to_server(program, resources, topology, host.rack, routing);
    const auto arrives = [&](int column) {
      program.add(resources[topology.server(job.servers[s])], column, 1);
      program.add(resources[topology.link(host.down)], column, 1);
    };
    std::vector<int> sums;  // of each box: what it sends on
    for (Index b = 0; b < topology.boxes().size(); ++b) {
      sums.push_back(program.column(0));
      arrives(sums.back());
      const Index at = topology.boxes()[b].at;
      if (to_server.reached_from(at))
        to_server.begin(at, sums.back(), 1);
      else
        program.add(program.row(0, 0), sums.back(), 1);
    }
    for (const Index worker : job.workers) {
      const Index rack = topology.hosts()[worker].rack;
      const int whole = program.row(0, 0);
      program.add(whole, rate, -shares[s]);
      if (to_server.reached_from(rack)) {
        const int direct = program.column(0);
        program.add(whole, direct, 1);
        arrives(direct);
        to_server.begin(rack, direct, 1);
      }
      for (Index b = 0; b < topology.boxes().size(); ++b) {
        if (!to_box[b].reached_from(rack)) continue;
        const int part = program.column(0);
        program.add(whole, part, 1);
        program.add(resources[topology.box(b)], part, 1);
        to_box[b].begin(rack, part, 1);
        const int enough = program.row(-COIN_DBL_MAX, 0);
        program.add(enough, part, 1);
        program.add(enough, sums[b], -1);
      }
    }
  }
  return program.maximum();
}

}  // namespace tally::planner_test
