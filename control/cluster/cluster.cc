#include "cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "config/diagnostic.h"
#include "text/text.h"

namespace tally::cluster {

planner::Topology topology_of(const Cluster& cluster) {
  planner::Topology made;
  for (const Cluster::Switch& one : cluster.switches) made.add_switch(one.name);
  for (const Cluster::Host& host : cluster.hosts) made.add_host(host.name, host.at, host.nic, host.nic);
  for (const Cluster::Link& link : cluster.links) made.add_link(link.from, link.to, link.rate, link.back);
  for (const Cluster::Box& box : cluster.boxes) made.add_box(box.name, box.at, box.rate);
  for (const Cluster::Server& server : cluster.servers)
    made.add_server(server.name, server.host, server.ingress);
  return made;
}

Index switch_named(const Cluster& cluster, const std::string& name) {
  const auto found = std::ranges::find(cluster.switches, name, &Cluster::Switch::name);
  return found == cluster.switches.end() ? planner::kNone
                                         : static_cast<Index>(found - cluster.switches.begin());
}

namespace {

tl::unexpected<Error> no_such(const std::string& kind, const std::string& name,
                              const std::vector<std::string>& names) {
  const std::string near = config::nearest(name, names);
  std::string help = "; did you mean " + near + "?";
  if (near.empty()) help = names.empty() ? "" : "; there are " + text::listed(names);
  return fail(ErrorCode::kInvalidArgument, "there is no " + kind + " " + text::in_quotes(name) + help);
}

Result<void> lose_box(Cluster& cluster, const std::string& name) {
  const auto box = std::ranges::find(cluster.boxes, name, &Cluster::Box::name);
  if (box != cluster.boxes.end()) return box->rate = 0, Result<void>{};
  std::vector<std::string> names;
  for (const Cluster::Box& one : cluster.boxes) names.push_back(one.name);
  return no_such("box", name, names);
}

Result<void> lose_link(Cluster& cluster, const std::string& name) {
  std::vector<std::string> names;
  for (Cluster::Link& link : cluster.links) {
    const auto written = [&](Index a, Index b) {
      return std::string(cluster.switches[a].name).append("-").append(cluster.switches[b].name);
    };
    names.push_back(written(link.from, link.to));
    if (name == names.back() || name == written(link.to, link.from))
      return link.rate = link.back = 0, Result<void>{};
  }
  return no_such("link", name, names);
}

Result<void> lose_switch(Cluster& cluster, const std::string& name) {
  const Index at = switch_named(cluster, name);
  if (at == planner::kNone) {
    std::vector<std::string> names;
    for (const Cluster::Switch& one : cluster.switches) names.push_back(one.name);
    return no_such("switch", name, names);
  }
  for (Cluster::Link& link : cluster.links) {
    if (link.from == at || link.to == at) link.rate = link.back = 0;
  }
  for (Cluster::Box& box : cluster.boxes) {
    if (box.at == at) box.rate = 0;
  }
  return {};
}

}  // namespace

Result<Cluster> without(Cluster cluster, const std::string& what) {
  const std::size_t equals = what.find('=');
  const std::string kind = what.substr(0, equals);
  const std::string name = equals == std::string::npos ? "" : what.substr(equals + 1);
  Result<void> lost =
      fail(ErrorCode::kInvalidArgument,
           "what is lost is box=NAME, link=A-B or switch=NAME, not " + text::in_quotes(text::cleaned(what)));
  if (!name.empty() && kind == "box") lost = lose_box(cluster, name);
  if (!name.empty() && kind == "link") lost = lose_link(cluster, name);
  if (!name.empty() && kind == "switch") lost = lose_switch(cluster, name);
  if (!lost) return tl::unexpected<Error>(lost.error());
  return cluster;
}

}  // namespace tally::cluster
