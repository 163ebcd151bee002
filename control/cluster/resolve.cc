#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cluster/cluster_file.h"
#include "config/value_types.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::cluster {
namespace {

using config::shown;
using planner::kNone;

using Numbers = std::unordered_map<std::string, Index>;

std::string path_of(const char* list, std::size_t number, const char* key) {
  return std::string(list) + "[" + std::to_string(number) + "]" + (*key != '\0' ? "." : "") + key;
}

// 'rack1-16' for rack[1-16]; empty: it does not look like a range.
std::string range_meant(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash + 1 == name.size()) return {};
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t first = name.find_last_not_of(kDigits, dash - 1) + 1;
  if (dash == 0 || first == dash || name.find_first_not_of(kDigits, dash + 1) != std::string::npos) return {};
  return name.substr(0, first) + "[" + name.substr(first) + "]";
}

class Resolver {
 public:
  explicit Resolver(const Resolving& resolving) : r_(resolving), file_(resolving.file) {}

  Cluster cluster() {
    out_.routing = file_.routing;
    out_.results = file_.results;
    out_.slot_seconds = static_cast<double>(file_.slot_time) / static_cast<double>(kSecond);
    if (!make_network()) return std::move(out_);
    // What is missing of the network would only be complained of again.
    add_places();
    add_links();
    add_boxes();
    complained_ = false;
    add_servers();
    servers_known_ = !complained_ && r_.places.sound_inside("servers");
    add_jobs();
    check_connected();
    return std::move(out_);
  }

 private:
  void error(const std::string& path, std::string message, std::string help) {
    complained_ = true;
    r_.report.error(r_.places.of(path), path, {std::move(message), std::move(help)});
  }
  [[nodiscard]] bool sound(const std::string& path) const { return r_.places.sound(path); }
  [[nodiscard]] bool written(const std::string& path) const { return r_.places.written(path); }

  // Switches, hosts and the links that follow from them. False: something is wrong with them.
  bool make_network() {
    const bool leaf_spine = written("leaf_spine");
    const bool fat_tree = written("fat_tree");
    const bool racks = written("racks");
    if (!leaf_spine && !fat_tree && !racks) {
      error("", "nothing here says what the network is",
            "write racks, leaf_spine or fat_tree: man tally-cluster");
      return false;
    }
    const char* const second = leaf_spine && fat_tree ? "fat_tree" : "racks";
    if (static_cast<int>(leaf_spine) + static_cast<int>(fat_tree) + static_cast<int>(racks) > 1) {
      error(second,
            std::string("the network is described twice: ") + (leaf_spine ? "leaf_spine" : "fat_tree") +
                " makes all racks",
            "keep one of the two; single links may differ: links");
      return false;
    }
    if (!racks && written("switches")) {
      error("switches", std::string(leaf_spine ? "leaf_spine" : "fat_tree") + " makes all switches",
            "remove it, or describe the racks");
      return false;
    }
    for (const char* const section : {"leaf_spine", "fat_tree", "switches", "racks"}) {
      if (!r_.places.sound_inside(section)) return false;
    }
    if (leaf_spine) {
      const LeafSpineSection& s = file_.leaf_spine;
      copy(planner::leaf_spine({s.racks, s.spines, s.hosts, s.nic, s.uplink}));
    } else if (fat_tree) {
      const FatTreeSection& s = file_.fat_tree;
      copy(planner::fat_tree({s.k, s.link, s.nic}));
    } else {
      add_racks();
    }
    return !complained_;
  }

  // A made network, with hosts called by their racks.
  void copy(const planner::Topology& made) {
    for (const planner::Switch& one : made.switches()) add_switch(one.name, false, "", "");
    std::vector<std::size_t> hosts(made.switches().size());
    for (const planner::Host& host : made.hosts()) {
      out_.switches[host.rack].rack = true;
      const std::string name = made.switches()[host.rack].name + "-" + std::to_string(++hosts[host.rack]);
      add_host(name, host.rack, made.links()[host.up].rate, "");
    }
    for (Index l = 0; l < made.links().size(); l += 2) {
      const planner::Link& link = made.links()[l];
      if (link.from != kNone && link.to != kNone) add_link(link.from, link.to, link.rate, link.rate);
    }
  }

  void add_switch(const std::string& name, bool rack, const std::string& path, const std::string& what) {
    if (name == "all" || name == "racks")
      return error(path, shown(name) + " is a word of its own, no name", "choose another");
    if (!switches_.emplace(name, static_cast<Index>(out_.switches.size())).second)
      return error(path, shown(name) + " is the name of another " + what, "choose another");
    out_.switches.push_back({name, rack});
  }

  void add_host(const std::string& name, Index at, double nic, const std::string& path) {
    if (switches_.contains(name))
      return error(path, shown(name) + " is the name of a switch too", "choose another for the host");
    if (!hosts_.emplace(name, static_cast<Index>(out_.hosts.size())).second)
      return error(path, shown(name) + " is the name of another host", "choose another");
    out_.hosts.push_back({name, at, nic});
  }

  void add_link(Index from, Index to, double rate, double back) {
    link_of_[std::minmax(from, to)] = out_.links.size();
    out_.links.push_back({from, to, rate, back});
  }

  void add_racks() {
    if (file_.racks.empty())
      return error("racks", "there is no rack", "write one: {name: rack1, hosts: 8, nic: 25G}");
    for (std::size_t i = 0; i < file_.racks.size(); ++i) {
      for (const std::string& name : file_.racks[i].name)
        add_switch(name, true, path_of("racks", i, "name"), "rack");
    }
    for (const std::string& name : file_.switches) add_switch(name, false, "switches", "switch");
    if (complained_) return;
    for (std::size_t i = 0; i < file_.racks.size(); ++i) {
      add_hosts(i);
      add_uplinks(i);
    }
  }

  void add_hosts(std::size_t i) {
    const RackSection& racks = file_.racks[i];
    const RackSection::Hosts& hosts = racks.hosts;
    const std::string path = path_of("racks", i, "hosts");
    if (hosts.names.size() % std::max<std::size_t>(racks.name.size(), 1) != 0)
      return error(path,
                   text::counted(hosts.names.size(), "host") + " cannot be shared out in equal parts to " +
                       text::counted(racks.name.size(), "rack"),
                   "write an entry of racks for each number of hosts");
    const std::size_t each = hosts.names.empty() ? hosts.each : hosts.names.size() / racks.name.size();
    if (each * racks.name.size() + out_.hosts.size() > kMaxNames)
      return error(path, "these are more than " + std::to_string(kMaxNames) + " hosts",
                   "is a number too long?");
    auto next = hosts.names.begin();
    for (const std::string& rack : racks.name) {
      for (std::size_t h = 1; h <= each; ++h) {
        const std::string name = hosts.names.empty() ? rack + "-" + std::to_string(h) : *next++;
        add_host(name, switches_.at(rack), racks.nic, path);
      }
    }
  }

  void add_uplinks(std::size_t i) {
    const RackSection& racks = file_.racks[i];
    const std::string to_path = path_of("racks", i, "uplink_to");
    if (!racks.uplink) {
      if (racks.to) error(to_path, "these uplinks have no rate", "write uplink, such as uplink: 100G");
      return;
    }
    if (!racks.to && file_.switches.empty())
      return error(path_of("racks", i, "uplink"), "there is no switch that these uplinks could lead to",
                   "write switches, such as switches: spine[1-2]");
    const std::vector<Index> ends =
        found(racks.to ? *racks.to : file_.switches, switches_, "switch", to_path);
    for (const std::string& rack : racks.name) {
      for (const Index to : ends) {
        const Index from = switches_.at(rack);
        if (from == to) return error(to_path, "a link from " + rack + " to itself", "name other switches");
        if (link_of_.contains(std::minmax(from, to)))
          return error(to_path, rack + " and " + out_.switches[to].name + " have a link already",
                       "two parallel links are one of twice the rate");
        add_link(from, to, *racks.uplink, *racks.uplink);
      }
    }
  }

  // Stops at the first name that is none; reported then.
  std::vector<Index> found(const Names& names, const Numbers& all, const std::string& kind,
                           const std::string& path) {
    std::vector<Index> out;
    for (const std::string& name : names) {
      const auto at = all.find(name);
      if (at == all.end()) return unknown(name, {&all}, kind, path), std::vector<Index>();
      out.push_back(at->second);
    }
    return out;
  }

  void unknown(const std::string& name, const std::vector<const Numbers*>& kinds, const std::string& kind,
               const std::string& path) {
    std::vector<std::pair<Index, std::string>> in_order;
    for (const Numbers* all : kinds) {
      const auto before = static_cast<std::ptrdiff_t>(in_order.size());
      for (const auto& [known, number] : *all) in_order.emplace_back(number, known);
      std::sort(in_order.begin() + before, in_order.end());
    }
    Names names;
    for (auto& [number, known] : in_order) names.push_back(std::move(known));
    std::string help = names.empty() ? "there is none at all" : "there are " + some_of(names);
    const auto is_known = [&](const std::string& each) {
      return std::ranges::find(names, each) != names.end();
    };
    const std::string range = range_meant(name);
    const auto in_range = parse_names(range);
    if (in_range && std::ranges::all_of(*in_range, is_known))
      help = "did you mean " + range + "? " + help;
    else if (name.find_first_not_of("0123456789") == std::string::npos && kind == "rack or host")
      help = "write so many of each rack: " + names[0] + " x " + name;
    else if (name == "none")
      help = "write [] for none; " + help;
    else if (const std::string near = config::nearest(name, names); !near.empty())
      help = "did you mean " + near + "? " + help;
    error(path, "there is no " + kind + " " + shown(name), help);
  }

  struct Said {
    Cluster::Place place{};
    std::string path{};
    std::size_t number = 0;  // in the order of the file
  };

  void add_places() {
    std::vector<Said> said;
    for (std::size_t i = 0; i < file_.racks.size(); ++i) {
      if (const std::string path = path_of("racks", i, "addresses"); written(path))
        put_places(file_.racks[i].name, file_.racks[i].addresses, path, said);
    }
    for (std::size_t i = 0; i < file_.places.size(); ++i) {
      const PlaceSection& places = file_.places[i];
      if (!sound(path_of("places", i, "rack"))) continue;
      const std::vector<Index> racks = found(places.rack, switches_, "rack", path_of("places", i, "rack"));
      const auto bare = std::ranges::find_if(racks, [&](Index at) { return !out_.switches[at].rack; });
      if (bare != racks.end())
        error(path_of("places", i, "rack"), shown(out_.switches[*bare].name) + " has no hosts",
              "name racks; a box has its own address: boxes");
      else if (!racks.empty())
        put_places(places.rack, places.addresses, path_of("places", i, "addresses"), said);
    }
    std::ranges::sort(said, {}, [](const Said& one) { return std::pair(one.place.network, one.number); });
    const Said* outer = nullptr;  // the network that reached furthest by now
    for (const Said& one : said) {
      if (outer != nullptr && outer->place.network.contains(one.place.network.address)) {
        complain_of_overlap(*outer, one);
        continue;
      }
      outer = &one;
      out_.places.push_back(one.place);
    }
  }

  void put_places(const Names& racks, const std::vector<IpNetwork>& networks, const std::string& path,
                  std::vector<Said>& said) {
    if (!sound(path)) return;
    if (racks.size() != networks.size())
      return error(path,
                   text::counted(networks.size(), "network") + " for " + text::counted(racks.size(), "rack"),
                   "write one for each; further networks of a rack: places");
    for (std::size_t r = 0; r < racks.size(); ++r)
      said.push_back({{networks[r], switches_.at(racks[r])}, path, said.size()});
  }

  void complain_of_overlap(const Said& one, const Said& other) {
    const bool later = other.number > one.number;
    const Said& at = later ? other : one;
    const Said& first = later ? one : other;
    const std::string rack = out_.switches[first.place.rack].name;
    if (at.place.network == first.place.network)
      return error(at.path, network_text(at.place.network) + " stands twice: it is " + rack + "'s already",
                   "an address is in one rack");
    error(at.path,
          network_text(at.place.network) + " and " + network_text(first.place.network) + " of " + rack +
              " have addresses in common",
          "an address is in one rack: write networks that do not overlap");
  }

  // The address of the one of that number in its entry; empty: none is said, or it was complained of.
  std::optional<Ipv6> address_of(const std::vector<Ipv6>& all, std::size_t number, std::size_t count,
                                 const std::string& noun, const std::string& path) {
    if (all.empty() || !sound(path)) return std::nullopt;
    if (all.size() != count) {
      if (number == 0)
        error(
            path,
            std::to_string(all.size()) + (all.size() == 1 ? " address for " : " addresses for ") +
                (noun == "box" && count != 1 ? std::to_string(count) + " boxes" : text::counted(count, noun)),
            "write one for each, or leave it out");
      return std::nullopt;
    }
    const auto [taken, fresh] = addresses_.emplace(std::pair(noun, all[number]), path);
    if (fresh) return all[number];
    error(path, members::address_text(all[number]) + " is the address of another " + noun,
          taken->second == path ? "it stands twice here" : "it stands in " + taken->second + " already");
    return std::nullopt;
  }

  void add_links() {
    std::set<std::pair<Index, Index>> said;
    for (std::size_t i = 0; i < file_.links.size(); ++i) {
      const LinkSection& links = file_.links[i];
      const std::vector<Index> from = found(links.from, switches_, "switch", path_of("links", i, "from"));
      const std::vector<Index> to = found(links.to, switches_, "switch", path_of("links", i, "to"));
      for (const Index a : from) {
        for (const Index b : to) {
          if (!put_link(links, a, b, said, path_of("links", i, "to"))) break;
        }
      }
    }
  }

  // False: it was complained of.
  bool put_link(const LinkSection& links, Index a, Index b, std::set<std::pair<Index, Index>>& said,
                const std::string& path) {
    const std::string& one = out_.switches[a].name;
    const std::string& other = out_.switches[b].name;
    if (a == b) return error(path, "a link from " + one + " to itself", "name two switches"), false;
    if (!said.insert(std::minmax(a, b)).second)
      return error(path, "the link of " + one + " and " + other + " stands twice in links",
                   "back: is the rate of the other way; two parallel links are one of twice the rate"),
             false;
    const double back = links.back.value_or(links.rate);
    const auto known = link_of_.find(std::minmax(a, b));
    if (known == link_of_.end()) return add_link(a, b, links.rate, back), true;
    Cluster::Link& link = out_.links[known->second];
    link.rate = link.from == a ? links.rate : back;
    link.back = link.from == a ? back : links.rate;
    return true;
  }

  // Switches of boxes.at.
  std::vector<Index> places_of(const Names& at, const std::string& path) {
    if (at.size() != 1 || (at[0] != "all" && at[0] != "racks")) return found(at, switches_, "switch", path);
    std::vector<Index> out;
    for (Index s = 0; s < out_.switches.size(); ++s) {
      if (at[0] == "all" || out_.switches[s].rack) out.push_back(s);
    }
    return out;
  }

  void add_boxes() {
    std::set<std::string> taken;
    for (std::size_t i = 0; i < file_.boxes.size(); ++i) {
      const BoxSection& boxes = file_.boxes[i];
      const std::string at_path = path_of("boxes", i, "at");
      const std::string name_path = path_of("boxes", i, "name");
      if (!sound(at_path) || !sound(name_path)) continue;
      const std::vector<Index> at = places_of(boxes.at, at_path);
      if (!boxes.name.empty() && boxes.name.size() != at.size()) {
        if (!at.empty())
          error(name_path,
                text::counted(boxes.name.size(), "name") + " for " + text::counted(at.size(), "place"),
                "write one for each, or leave it out");
        continue;
      }
      for (std::size_t b = 0; b < at.size(); ++b) {
        const std::string& name = boxes.name.empty() ? out_.switches[at[b]].name : boxes.name[b];
        if (!taken.insert(name).second) {
          error(boxes.name.empty() ? at_path : name_path, shown(name) + " is the name of another box",
                "choose another: name");
          break;
        }
        out_.boxes.push_back(
            {name, at[b], boxes.rate, boxes.slots,
             address_of(boxes.address, b, at.size(), "box", path_of("boxes", i, "address"))});
      }
    }
  }

  void add_servers() {
    for (std::size_t i = 0; i < file_.servers.size(); ++i) {
      const auto path = [i](const char* key) { return path_of("servers", i, key); };
      const ServerSection& servers = file_.servers[i];
      const bool own = written(path("rack"));
      const bool shared = written(path("host"));
      if (!sound(path("name")) || !sound(path("rack")) || !sound(path("host"))) continue;
      if (own == shared) {
        error(path(""),
              own ? "rack and host: a server is on one host" : "nothing says where these servers are",
              "write rack, for hosts of their own, or host, for hosts that are there");
      } else if (own) {
        add_own_hosts(servers, path);
      } else {
        add_on_hosts(servers, path);
      }
    }
  }

  template <class Path>
  void add_own_hosts(const ServerSection& servers, const Path& path) {
    const std::vector<Index> racks = found(servers.rack, switches_, "rack", path("rack"));
    if (!servers.nic) {
      if (sound(path("nic")))
        error(path(""), "a host of its own needs its link's rate", "write nic, such as nic: 100G");
      return;
    }
    for (std::size_t s = 0; s < servers.name.size() && !racks.empty(); ++s) {
      add_host(servers.name[s], racks[s % racks.size()], *servers.nic, path("name"));
      add_server(servers, s, static_cast<Index>(out_.hosts.size() - 1), path);
    }
  }

  template <class Path>
  void add_on_hosts(const ServerSection& servers, const Path& path) {
    if (servers.nic)
      return error(path("nic"), "the host's link has a rate already",
                   "remove it; what the server merges is ingress");
    const std::vector<Index> hosts = found(servers.host, hosts_, "host", path("host"));
    if (hosts.empty()) return;
    if (hosts.size() != servers.name.size())
      return error(
          path("host"),
          text::counted(hosts.size(), "host") + " for " + text::counted(servers.name.size(), "server"),
          "write one for each");
    for (std::size_t s = 0; s < hosts.size(); ++s) add_server(servers, s, hosts[s], path);
  }

  template <class Path>
  void add_server(const ServerSection& servers, std::size_t number, Index host, const Path& path) {
    const std::string& name = servers.name[number];
    if (!servers_.emplace(name, static_cast<Index>(out_.servers.size())).second)
      return error(path("name"), shown(name) + " is the name of another server", "choose another");
    out_.servers.push_back(
        {name, host, servers.ingress.value_or(out_.hosts[host].nic),
         address_of(servers.address, number, servers.name.size(), "server", path("address"))});
    serving_.insert(host);
  }

  void add_jobs() {
    if (!written("jobs")) {
      out_.jobs.push_back({planner::Job{"all", free_hosts(kNone), all_servers()}});
      if (out_.jobs[0].plan.workers.empty())
        error("", "no host is left for workers", "write more hosts, or jobs with their workers");
      return;
    }
    std::set<std::string> taken;
    for (std::size_t i = 0; i < file_.jobs.size(); ++i) {
      const JobSection& job = file_.jobs[i];
      if (sound(path_of("jobs", i, "name")) && !job.name.empty() && !taken.insert(job.name).second)
        error(path_of("jobs", i, "name"), shown(job.name) + " is the name of another job", "choose another");
      Cluster::Job& made = out_.jobs.emplace_back();
      made.plan.name = job.name;
      made.plan.workers =
          job.workers ? workers_of(*job.workers, path_of("jobs", i, "workers")) : free_hosts(kNone);
      made.plan.servers = all_servers();
      if (job.servers && servers_known_)
        made.plan.servers = found(*job.servers, servers_, "server", path_of("jobs", i, "servers"));
      if (job.demand) made.plan.demand = *job.demand;
      made.gradient = job.gradient.value_or(0);
      if (made.plan.workers.empty() && !r_.report.has_errors())
        error(path_of("jobs", i, "workers"), "no host for a worker of this job", "name racks or hosts");
    }
    if (file_.jobs.empty() && sound("jobs"))
      error("jobs", "there is no job", "leave jobs out for one of all hosts, or write one: {name: bert}");
  }

  [[nodiscard]] std::vector<Index> all_servers() const {
    std::vector<Index> all(out_.servers.size());
    std::iota(all.begin(), all.end(), Index{0});
    return all;
  }

  // Those of a rack that have no server; kNone: of all.
  [[nodiscard]] std::vector<Index> free_hosts(Index at) const {
    std::vector<Index> out;
    for (Index h = 0; h < out_.hosts.size(); ++h) {
      if ((at == kNone || out_.hosts[h].at == at) && !serving_.contains(h)) out.push_back(h);
    }
    return out;
  }

  std::vector<Index> workers_of(const std::vector<Counted>& all, const std::string& path) {
    std::vector<Index> out;
    std::set<Index> seen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string indexed = path + "[" + std::to_string(i) + "]";
      const std::string& here = written(indexed) ? indexed : path;
      for (const std::string& name : all[i].names) {
        const std::vector<Index> hosts = hosts_for(name, all[i].count, here);
        if (hosts.empty()) return {};
        for (const Index host : std::set<Index>(hosts.begin(), hosts.end())) {
          if (!seen.insert(host).second) {
            error(here, out_.hosts[host].name + " has workers of this job already",
                  "two workers of one host: " + out_.hosts[host].name + " x 2");
            return {};
          }
        }
        out.insert(out.end(), hosts.begin(), hosts.end());
      }
    }
    return out;
  }

  // Empty: it was complained of.
  std::vector<Index> hosts_for(const std::string& name, std::size_t count, const std::string& path) {
    if (const auto host = hosts_.find(name); host != hosts_.end())
      return std::vector<Index>(std::max<std::size_t>(count, 1), host->second);
    const auto rack = switches_.find(name);
    if (rack == switches_.end())
      return unknown(name, {&switches_, &hosts_}, "rack or host", path), std::vector<Index>();
    std::vector<Index> hosts = free_hosts(rack->second);
    if (hosts.size() < std::max<std::size_t>(count, 1)) {
      error(path,
            name + " has " + text::counted(hosts.size(), "host") + " without a server, not " +
                std::to_string(std::max<std::size_t>(count, 1)),
            hosts.empty() ? "name racks that have some"
                          : "two workers of one host: name the host, and x 2 behind it");
      return {};
    }
    if (count > 0) hosts.resize(count);
    return hosts;
  }

  void check_connected() {
    if (r_.report.has_errors()) return;
    std::vector<Index> leader(out_.switches.size());
    std::iota(leader.begin(), leader.end(), Index{0});
    const auto leader_of = [&leader](Index s) {
      while (leader[s] != s) s = leader[s] = leader[leader[s]];
      return s;
    };
    for (const Cluster::Link& link : out_.links) leader[leader_of(link.from)] = leader_of(link.to);
    for (Index s = 1; s < out_.switches.size(); ++s) {
      if (leader_of(s) == leader_of(0)) continue;
      return error(written("racks") ? "racks" : "",
                   "nothing leads from " + out_.switches[0].name + " to " + out_.switches[s].name,
                   "write switches and the racks' uplink, or links");
    }
  }

  const Resolving& r_;
  const ClusterFile& file_;
  Cluster out_{};
  Numbers switches_;
  Numbers hosts_;
  Numbers servers_;
  bool complained_ = false;                                 // since it was set to false
  bool servers_known_ = true;                               // what is wrong with them was said once
  std::set<Index> serving_;                                 // hosts with a server
  std::map<std::pair<Index, Index>, std::size_t> link_of_;  // lower end first
  std::map<std::pair<std::string, Ipv6>, std::string>
      addresses_;  // of boxes and of servers: where they stand
};

}  // namespace

Cluster resolved(const Resolving& resolving) { return Resolver(resolving).cluster(); }

}  // namespace tally::cluster
