#pragma once
// What a plan is made for: switches and the directed links between them, hosts under some of them (their racks),
// boxes at switches, parameter servers on hosts. Rates are in Gbit/s. Once it is built it serves any number of plans.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::planner {

using Index = std::uint32_t;
inline constexpr Index kNone = ~Index{0};

// A link is a resource with the number it has in Topology::links; the boxes' numbers follow, then the servers'.
using Resource = std::uint32_t;
// Of each resource, in Gbit/s: what it can take, or what others leave of it, or how much lies on it.
using Rates = std::vector<double>;

struct Switch {
  std::string name;
};

// One direction. Of a host's link one end is the host, which is no switch: kNone.
struct Link {
  Index from = kNone;
  Index to = kNone;
  double rate = 0;  // 0: it is down, and no way leads over it
  Index reverse = kNone;
};

struct Host {
  std::string name;
  Index rack = kNone;  // the switch it hangs on
  Index up = kNone;    // links
  Index down = kNone;
};

// rate: what of contributions it can take in, with its card, cores and memory; 0: it is down.
struct Box {
  std::string name;
  Index at = kNone;  // a switch
  double rate = 0;
};

// ingress: what it can merge; its host's link is counted beside it.
struct Server {
  std::string name;
  Index host = kNone;
  double ingress = 0;
};

class Topology {
 public:
  // They return the number of what they add. Names are for people and need not differ.
  Index add_switch(std::string name);
  // Both directions; returns the first, its reverse is the next number.
  Index add_link(Index from, Index to, double rate, double reverse_rate);
  Index add_host(std::string name, Index rack, double up, double down);
  Index add_box(std::string name, Index at, double rate);
  Index add_server(std::string name, Index host, double ingress);
  // What a link, a box or a server can take from now on; 0: it is down. Ways that were found before are not for it.
  void set_rate(Resource resource, double rate);

  [[nodiscard]] const std::vector<Switch>& switches() const noexcept { return switches_; }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  [[nodiscard]] const std::vector<Host>& hosts() const noexcept { return hosts_; }
  [[nodiscard]] const std::vector<Box>& boxes() const noexcept { return boxes_; }
  [[nodiscard]] const std::vector<Server>& servers() const noexcept { return servers_; }
  // Links that leave a switch for another switch, and those that arrive from one.
  [[nodiscard]] const std::vector<Index>& out_of(Index at) const { return out_[at]; }
  [[nodiscard]] const std::vector<Index>& into(Index at) const { return in_[at]; }
  // The first box at a switch; kNone if there is none.
  [[nodiscard]] Index box_at(Index at) const { return box_at_[at]; }

  [[nodiscard]] std::size_t resources() const noexcept {
    return links_.size() + boxes_.size() + servers_.size();
  }
  [[nodiscard]] Resource link(Index number) const noexcept { return number; }
  [[nodiscard]] Resource box(Index number) const noexcept {
    return static_cast<Resource>(links_.size()) + number;
  }
  [[nodiscard]] Resource server(Index number) const noexcept {
    return static_cast<Resource>(links_.size() + boxes_.size()) + number;
  }
  // All of it, when nobody else is there.
  [[nodiscard]] Rates rates() const;
  // "link rack1 to spine2", "box at rack3", "server ps1", "link host7 to rack1"
  [[nodiscard]] std::string name_of(Resource resource) const;

 private:
  std::vector<Switch> switches_;
  std::vector<Link> links_;
  std::vector<Host> hosts_;
  std::vector<Box> boxes_;
  std::vector<Server> servers_;
  std::vector<std::vector<Index>> out_;
  std::vector<std::vector<Index>> in_;
  std::vector<Index> box_at_;
  std::vector<Index> host_of_link_;  // of links: whose it is; kNone: between switches
};

// Racks under spines, every rack with one link to every spine.
struct LeafSpine {
  Index racks = 4;
  Index spines = 1;
  Index hosts_per_rack = 8;
  double nic = 25;
  double uplink = 100;
  double rack_box = 0;  // 0: racks have none
  double spine_box = 0;
};
// Switches: the racks, then the spines. Hosts: rack by rack. No servers yet.
[[nodiscard]] Topology leaf_spine(const LeafSpine& shape);

// The fat tree of k ports: k pods of k/2 racks and k/2 aggregation switches, (k/2)^2 cores, k/2 hosts in a rack.
struct FatTree {
  Index k = 6;  // even, at least 2
  double link = 20;
  double nic = 20;
  double box = 0;  // at every switch
};
// Switches: racks pod by pod, aggregation switches pod by pod, cores. Links: those of hosts in the order of hosts
// (up, down), then rack by rack to its aggregation switches, then those to the cores. No servers yet.
[[nodiscard]] Topology fat_tree(const FatTree& shape);

}  // namespace tally::planner
