#include "plan_tool/purchase.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tally::plan_tool {
namespace {

using cluster::Cluster;

// A box more has to bring at least this share, or the difference is rounding to chunk groups.
constexpr double kMore = 1e-9;

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
    const PlannedCluster planned = plan_all(bought, planner::Effort::kProduct, Compare::kNo);
    Placement out{.at = at, .total = planned.total(), .bound = bound_of_total(bought)};
    for (const PlannedJob& job : planned.jobs) out.rates.push_back(job.rate());
    return out;
  }

  // Every choice of k places, in order.
  Placement best_of_all(std::size_t k) const {
    std::vector<bool> taken(purchase_.places.size());
    std::fill_n(taken.begin(), k, true);
    Placement best;
    std::size_t count = 0;
    do {
      std::vector<Index> at;
      for (std::size_t i = 0; i < taken.size(); ++i) {
        if (taken[i]) at.push_back(purchase_.places[i]);
      }
      keep_better(best, tried(at));
      ++count;
    } while (std::prev_permutation(taken.begin(), taken.end()));
    best.all_tried = true;
    best.tried = count;
    return best;
  }

  // One place more than those.
  Placement best_with_one_more(const std::vector<Index>& at) const {
    const std::vector<std::size_t> classes = classes_of(with_boxes(cluster_, at, purchase_.rate));
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

std::vector<std::size_t> classes_of(const Cluster& cluster) {
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
    for (const auto& [where, count] : workers) hang(where.first, {3, static_cast<double>(j), where.second, count});
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
  std::vector<std::size_t> of(looks.size());
  for (std::size_t classes = 0;;) {
    std::map<Look, std::size_t> numbers;
    for (const Look& look : looks) numbers.emplace(look, 0);
    std::size_t next = 0;
    for (auto& [look, number] : numbers) number = next++;
    for (std::size_t s = 0; s < looks.size(); ++s) of[s] = numbers.at(looks[s]);
    if (numbers.size() == classes) return of;
    classes = numbers.size();
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
    const bool all = choices(purchase.places.size(), k, purchase.most_tried) <= purchase.most_tried;
    Placement best = all ? search.best_of_all(k) : search.best_with_one_more(out.back().at);
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
