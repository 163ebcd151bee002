#include "plan_tool/purchase.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "tally/mix64.h"

namespace tally::plan_tool {
namespace {

using cluster::Cluster;

// A box more has to bring at least this share, or the difference is rounding to chunk groups.
constexpr double kMore = 1e-9;
constexpr std::size_t kMostCompared = 5'000;  // choices, for whether they are alike

Cluster with_boxes(Cluster cluster, const std::vector<Index>& at, double rate) {
  for (const Index place : at) cluster.boxes.push_back({cluster.switches[place].name, place, rate, {}});
  return cluster;
}

// n over k, or more than `most`.
std::size_t choices(std::size_t n, std::size_t k, std::size_t most) {
  std::size_t all = 1;
  for (std::size_t i = 1; i <= k && all <= most; ++i) all = all * (n - k + i) / i;
  return all;
}

class Search {
 public:
  Search(const Cluster& cluster, const Purchase& purchase) : cluster_(cluster), purchase_(purchase) {}

  Placement tried(const std::vector<Index>& at) const {
    const Cluster bought = with_boxes(cluster_, at, purchase_.rate);
    const PlannedCluster planned = plan_all(bought, planner::Effort::kProduct, Compare::kNothing);
    Placement out{.at = at, .total = planned.total(), .bound = bound_of_total(bought)};
    for (const PlannedJob& job : planned.jobs) out.rates.push_back(job.rate());
    return out;
  }

  // Of every choice of k places one of those that are alike; empty: they are too many.
  std::vector<std::vector<Index>> unlike_choices(std::size_t k) const {
    const std::size_t n = purchase_.places.size();
    if (choices(n, k, kMostCompared) > kMostCompared) return {};
    std::vector<bool> taken(n);
    std::fill_n(taken.begin(), k, true);
    std::set<std::uint64_t> seen;
    std::vector<std::vector<Index>> out;
    do {
      std::vector<Index> at;
      for (std::size_t i = 0; i < n; ++i) {
        if (taken[i]) at.push_back(purchase_.places[i]);
      }
      if (!seen.insert(likeness_of(with_boxes(cluster_, at, purchase_.rate)).signature).second) continue;
      if (out.size() == purchase_.most_tried) return {};
      out.push_back(std::move(at));
    } while (std::prev_permutation(taken.begin(), taken.end()));
    return out;
  }

  Placement best_of(const std::vector<std::vector<Index>>& all) const {
    Placement best;
    for (const std::vector<Index>& at : all) keep_better(best, tried(at));
    best.all_tried = true;
    best.tried = all.size();
    return best;
  }

  // One place more than those.
  Placement best_with_one_more(const std::vector<Index>& at) const {
    const std::vector<std::size_t> classes = likeness_of(with_boxes(cluster_, at, purchase_.rate)).classes;
    std::set<std::size_t> seen;
    Placement best;
    std::size_t count = 0;
    for (const Index place : purchase_.places) {
      if (std::ranges::find(at, place) != at.end() || !seen.insert(classes[place]).second) continue;
      std::vector<Index> more = at;
      more.push_back(place);
      keep_better(best, tried(more));
      ++count;
    }
    best.tried = count;
    return best;
  }

 private:
  static void keep_better(Placement& best, Placement other) {
    if (best.rates.empty() || other.total > best.total * (1 + kMore)) best = std::move(other);
  }

  const Cluster& cluster_;
  const Purchase& purchase_;
};

}  // namespace

Likeness likeness_of(const Cluster& cluster) {
  using Look = std::vector<double>;
  std::vector<Look> looks(cluster.switches.size());
  for (std::size_t s = 0; s < looks.size(); ++s) looks[s].push_back(cluster.switches[s].rack ? 1 : 0);
  const auto hang = [&](Index at, Look what) {
    what.push_back(-1);  // an end, so that no two lists look like one
    looks[at].insert(looks[at].end(), what.begin(), what.end());
  };
  for (const Cluster::Box& box : cluster.boxes)
    hang(box.at, {2, box.rate, box.slots ? static_cast<double>(*box.slots) : -2});
  for (std::size_t j = 0; j < cluster.jobs.size(); ++j) {
    std::map<std::pair<Index, double>, double> workers;  // by switch and link
    for (const Index host : cluster.jobs[j].plan.workers)
      ++workers[{cluster.hosts[host].at, cluster.hosts[host].nic}];
    for (const auto& [where, count] : workers)
      hang(where.first, {3, static_cast<double>(j), where.second, count});
    std::map<Index, Look> servers;
    for (const Index server : cluster.jobs[j].plan.servers) {
      const Cluster::Host& host = cluster.hosts[cluster.servers[server].host];
      Look& look = servers[host.at];
      look.insert(look.end(), {cluster.servers[server].ingress, host.nic});
    }
    for (const auto& [at, look] : servers) {
      hang(at, {4, static_cast<double>(j)});
      hang(at, look);
    }
  }
  // Again and again by what the neighbours are, until that tells no two more apart.
  Likeness out{.classes = std::vector<std::size_t>(looks.size())};
  std::vector<std::size_t>& of = out.classes;
  for (std::size_t classes = 0;;) {
    std::map<Look, std::vector<std::size_t>> members;
    for (std::size_t s = 0; s < looks.size(); ++s) members[looks[s]].push_back(s);
    std::size_t next = 0;
    for (const auto& [look, alike] : members) {
      for (const std::size_t s : alike) of[s] = next;
      ++next;
      out.signature = mix64(out.signature + alike.size());
      for (const double part : look)
        out.signature = mix64(out.signature ^ std::bit_cast<std::uint64_t>(part));
    }
    if (next == classes) return out;
    classes = next;
    std::vector<std::vector<Look>> around(looks.size());
    for (const Cluster::Link& link : cluster.links) {
      around[link.from].push_back({static_cast<double>(of[link.to]), link.rate, link.back});
      around[link.to].push_back({static_cast<double>(of[link.from]), link.back, link.rate});
    }
    for (std::size_t s = 0; s < looks.size(); ++s) {
      std::ranges::sort(around[s]);
      looks[s].assign(1, static_cast<double>(of[s]));
      for (const Look& one : around[s]) looks[s].insert(looks[s].end(), one.begin(), one.end());
    }
  }
}

std::vector<Placement> placements(const Cluster& cluster, const Purchase& purchase) {
  const Search search(cluster, purchase);
  std::vector<Placement> out{search.tried({})};
  out[0].all_tried = true;
  out[0].tried = 1;
  const std::size_t most = std::min(purchase.boxes, purchase.places.size());
  for (std::size_t k = 1; k <= most; ++k) {
    const auto all = search.unlike_choices(k);
    Placement best = all.empty() ? search.best_with_one_more(out.back().at) : search.best_of(all);
    // Rounding to chunk groups can take a little with a box more: then that box is better not used.
    if (best.total < out.back().total) {
      best.total = out.back().total;
      best.rates = out.back().rates;
    }
    out.push_back(std::move(best));
  }
  return out;
}

}  // namespace tally::plan_tool
