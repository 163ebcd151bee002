#include "planning/locate.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "members/texts.h"
#include "text/text.h"

namespace tally::planning {
namespace {

using cluster::Cluster;
using planner::Index;
using planner::kNone;

// One for all jobs.
class Locator {
 public:
  Locator(const Cluster& cluster, std::span<const JobFacts> jobs)
      : cluster_(cluster), host_taken_(cluster.hosts.size()), server_taken_(cluster.servers.size()) {
    for (Index s = 0; s < cluster.servers.size(); ++s) {
      serves_.resize(cluster.hosts.size());
      serves_[cluster.servers[s].host] = true;
      if (const auto& own = cluster.servers[s].address) take_server(*own, s);
    }
    serves_.resize(cluster.hosts.size());
    hosts_of_.resize(cluster_.switches.size());
    // Those without a server first.
    for (const bool serves : {false, true}) {
      for (Index h = 0; h < cluster_.hosts.size(); ++h)
        if (serves_[h] == serves) hosts_of_[cluster_.hosts[h].at].push_back(h);
    }
    // Servers of all jobs first: a worker beside one is on its host.
    for (const JobFacts& job : jobs)
      for (const Ipv6& server : job.servers) (void)server_at(server);
  }

  Result<planner::Job> job(const JobFacts& facts) {
    planner::Job made{.name = facts.job, .through_boxes = true};
    for (std::size_t s = 0; s < facts.servers.size(); ++s) {
      const Index server = server_at(facts.servers[s]);
      if (server == kNone)
        return nowhere(facts, "server " + std::to_string(s), facts.servers[s], "further server");
      made.servers.push_back(server);
    }
    for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
      const Index host = host_at(facts.ranks[r]);
      if (host == kNone) return nowhere(facts, "rank " + std::to_string(r), facts.ranks[r], "further host");
      made.workers.push_back(host);
    }
    for (std::size_t b = 0; b < facts.boxes.size(); ++b) {
      if ((facts.usable >> b & 1U) == 0) continue;
      const auto box =
          std::ranges::find(cluster_.boxes, std::optional(facts.boxes[b]), &Cluster::Box::address);
      if (box == cluster_.boxes.end())
        return fail(ErrorCode::kInvalidArgument,
                    "the box at " + members::address_text(facts.boxes[b]) +
                        " is none of the cluster file: write its address there (boxes[].address)",
                    facts.job);
      made.boxes.push_back({static_cast<Index>(box - cluster_.boxes.begin())});
    }
    return made;
  }

 private:
  // kNone: in no rack.
  [[nodiscard]] Index rack_of(const Ipv6& address) const {
    const auto place = std::ranges::find_if(
        cluster_.places, [&](const Cluster::Place& one) { return one.network.contains(address); });
    return place == cluster_.places.end() ? kNone : place->rack;
  }

  void take_server(const Ipv6& address, Index server) {
    server_taken_[server] = true;
    server_of_[address] = server;
    host_of_.emplace(address, cluster_.servers[server].host);
    host_taken_[cluster_.servers[server].host] = true;
  }

  Index server_at(const Ipv6& address) {
    if (const auto known = server_of_.find(address); known != server_of_.end()) return known->second;
    const Index rack = rack_of(address);
    for (Index s = 0; s < cluster_.servers.size() && rack != kNone; ++s) {
      if (server_taken_[s] || cluster_.servers[s].address ||
          cluster_.hosts[cluster_.servers[s].host].at != rack)
        continue;
      take_server(address, s);
      return s;
    }
    return kNone;
  }

  Index host_at(const Ipv6& address) {
    if (const auto known = host_of_.find(address); known != host_of_.end()) return known->second;
    const Index rack = rack_of(address);
    if (rack == kNone) return kNone;
    const auto free = std::ranges::find_if(hosts_of_[rack], [&](Index h) { return !host_taken_[h]; });
    if (free == hosts_of_[rack].end()) return kNone;
    host_taken_[*free] = true;
    host_of_.emplace(address, *free);
    return *free;
  }

  [[nodiscard]] tl::unexpected<Error> nowhere(const JobFacts& facts, const std::string& who,
                                              const Ipv6& address, const std::string& lacks) const {
    const Index rack = rack_of(address);
    const std::string at = who + " at " + members::address_text(address);
    if (rack == kNone)
      return fail(
          ErrorCode::kInvalidArgument,
          at + " is in no rack of the cluster file: write its network there (racks[].addresses or places)",
          facts.job);
    return fail(ErrorCode::kInvalidArgument,
                at + ": " + cluster_.switches[rack].name + " has no " + lacks + " in the cluster file",
                facts.job);
  }

  const Cluster& cluster_;
  std::map<Ipv6, Index> server_of_{};
  std::map<Ipv6, Index> host_of_{};
  std::vector<bool> host_taken_;
  std::vector<bool> server_taken_;
  std::vector<bool> serves_{};                  // hosts with a server
  std::vector<std::vector<Index>> hosts_of_{};  // a rack
};

}  // namespace

std::vector<Result<planner::Job>> located(const Cluster& cluster, std::span<const JobFacts> jobs) {
  Locator locator(cluster, jobs);
  std::vector<Result<planner::Job>> out;
  out.reserve(jobs.size());
  for (const JobFacts& job : jobs) out.push_back(locator.job(job));
  return out;
}

}  // namespace tally::planning
