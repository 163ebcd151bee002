#include "planner/job.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace tally::planner {

std::vector<std::size_t> largest_remainder(std::span<const double> amounts, std::size_t total) {
  const double all = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  std::vector<std::size_t> counts;
  std::vector<double> lost;
  std::size_t given = 0;
  for (const double amount : amounts) {
    const double exact = amount / all * static_cast<double>(total);
    // A hair less than a whole number is rounding of floats, not of groups.
    counts.push_back(static_cast<std::size_t>(std::floor(exact + 1e-9)));
    lost.push_back(exact - static_cast<double>(counts.back()));
    given += counts.back();
  }
  std::vector<std::size_t> order(amounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lost[a] > lost[b]; });
  for (std::size_t i = 0; given < total; ++i, ++given) ++counts[order[i % order.size()]];
  return counts;
}

double ingress_of(const Topology& topology, const Rates& capacity, Index server) {
  const Host& host = topology.hosts()[topology.servers()[server].host];
  return std::min(capacity[topology.server(server)], capacity[topology.link(host.down)]);
}

double box_rate(const Topology& topology, const Party& party, const Rates& capacity, Index box) {
  const double rate = capacity[topology.box(box)];
  return party.box_limits.empty() ? rate : std::min(rate, party.box_limits[box]);
}

namespace {

Result<std::vector<double>> shares_of(const Topology& topology, const Job& job, const Rates& capacity) {
  std::vector<double> shares = job.shares;
  if (shares.empty()) {
    for (const Index server : job.servers) shares.push_back(ingress_of(topology, capacity, server));
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share = all > 0 ? share / all : 1.0 / static_cast<double>(shares.size());
  }
  if (shares.size() != job.servers.size())
    return fail(ErrorCode::kInvalidArgument,
                "there are " + std::to_string(shares.size()) + " shares for " +
                    std::to_string(job.servers.size()) + " servers",
                job.name);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool negative = std::any_of(shares.begin(), shares.end(), [](double share) { return !(share >= 0); });
  if (!shares.empty() && (negative || std::abs(sum - 1) > 1e-9))
    return fail(ErrorCode::kInvalidArgument, "the shares of the servers do not add up to 1", job.name);
  if (shares.empty()) return shares;
  const std::vector<std::size_t> groups = largest_remainder(shares, kGroups);
  for (std::size_t s = 0; s < shares.size(); ++s) shares[s] = static_cast<double>(groups[s]) * kOneGroup;
  return shares;
}

}  // namespace

Result<Party> party_of(const Topology& topology, const Job& job, const Rates& capacity) {
  if (job.workers.empty()) return fail(ErrorCode::kInvalidArgument, "a job without workers", job.name);
  const auto beyond = [](const std::vector<Index>& numbers, std::size_t size) {
    return std::any_of(numbers.begin(), numbers.end(), [size](Index number) { return number >= size; });
  };
  if (beyond(job.workers, topology.hosts().size()) || beyond(job.servers, topology.servers().size()))
    return fail(ErrorCode::kInvalidArgument, "there is no such host or server", job.name);
  if (std::any_of(job.boxes.begin(), job.boxes.end(),
                  [&](const Job::Use& use) { return use.box >= topology.boxes().size(); }))
    return fail(ErrorCode::kInvalidArgument, "there is no such box", job.name);
  const auto shares = shares_of(topology, job, capacity);
  if (!shares) return tl::unexpected<Error>(shares.error());

  Party party;
  party.through_boxes = job.through_boxes && !job.servers.empty();
  if (!job.boxes.empty()) party.box_limits.assign(topology.boxes().size(), 0);
  for (const Job::Use& use : job.boxes) party.box_limits[use.box] = use.most;
  const auto own_box = [&](Index at) {
    if (job.boxes.empty()) return topology.box_at(at);
    const auto own = std::find_if(job.boxes.begin(), job.boxes.end(),
                                  [&](const Job::Use& use) { return topology.boxes()[use.box].at == at; });
    return own == job.boxes.end() ? kNone : own->box;
  };
  party.demand = job.demand;
  party.slowest = job.demand;
  std::map<Index, double> hosts;
  std::map<Index, double> racks;
  for (const Index host : job.workers) {
    ++hosts[host];
    ++racks[topology.hosts()[host].rack];
  }
  party.hosts.assign(hosts.begin(), hosts.end());
  for (const auto& [at, workers] : racks) party.racks.push_back({at, workers, own_box(at)});
  for (const auto& [host, workers] : hosts)
    party.slowest = std::min(party.slowest, capacity[topology.hosts()[host].up] / workers);
  party.workers = static_cast<double>(job.workers.size());
  for (std::size_t s = 0; s < job.servers.size(); ++s) {
    const Index server = job.servers[s];
    party.servers.push_back({server, topology.hosts()[topology.servers()[server].host].rack, (*shares)[s]});
  }
  return party;
}

}  // namespace tally::planner
