#include "planner/topology.h"

#include <utility>

namespace tally::planner {

Index Topology::add_switch(std::string name) {
  switches_.push_back({std::move(name)});
  out_.emplace_back();
  in_.emplace_back();
  box_at_.push_back(kNone);
  return static_cast<Index>(switches_.size() - 1);
}

Index Topology::add_link(Index from, Index to, double rate, double reverse_rate) {
  const auto forth = static_cast<Index>(links_.size());
  links_.push_back({from, to, rate, forth + 1});
  links_.push_back({to, from, reverse_rate, forth});
  host_of_link_.insert(host_of_link_.end(), {kNone, kNone});
  if (from != kNone && to != kNone) {
    out_[from].push_back(forth);
    in_[to].push_back(forth);
    out_[to].push_back(forth + 1);
    in_[from].push_back(forth + 1);
  }
  return forth;
}

Index Topology::add_host(std::string name, Index rack, double up, double down) {
  const auto number = static_cast<Index>(hosts_.size());
  const Index link = add_link(kNone, rack, up, down);
  host_of_link_[link] = number;
  host_of_link_[link + 1] = number;
  hosts_.push_back({std::move(name), rack, link, link + 1});
  return number;
}

Index Topology::add_box(std::string name, Index at, double rate) {
  const auto number = static_cast<Index>(boxes_.size());
  boxes_.push_back({std::move(name), at, rate});
  if (box_at_[at] == kNone) box_at_[at] = number;
  return number;
}

Index Topology::add_server(std::string name, Index host, double ingress) {
  servers_.push_back({std::move(name), host, ingress});
  return static_cast<Index>(servers_.size() - 1);
}

void Topology::set_rate(Resource resource, double rate) {
  std::size_t number = resource;
  if (number < links_.size()) {
    links_[number].rate = rate;
    return;
  }
  number -= links_.size();
  if (number < boxes_.size())
    boxes_[number].rate = rate;
  else
    servers_[number - boxes_.size()].ingress = rate;
}

Rates Topology::rates() const {
  Rates all;
  all.reserve(resources());
  for (const Link& link : links_) all.push_back(link.rate);
  for (const Box& box : boxes_) all.push_back(box.rate);
  for (const Server& server : servers_) all.push_back(server.ingress);
  return all;
}

std::string Topology::name_of(Resource resource) const {
  std::size_t number = resource;
  if (number >= links_.size() + boxes_.size())
    return "server " + servers_[number - links_.size() - boxes_.size()].name;
  if (number >= links_.size()) return "box " + boxes_[number - links_.size()].name;
  const Link& link = links_[number];
  const Index host = host_of_link_[number];
  const auto end = [&](Index at) { return at == kNone ? hosts_[host].name : switches_[at].name; };
  return "link " + end(link.from) + " to " + end(link.to);
}

Topology leaf_spine(const LeafSpine& shape) {
  Topology made;
  for (Index r = 0; r < shape.racks; ++r) made.add_switch("rack" + std::to_string(r + 1));
  for (Index s = 0; s < shape.spines; ++s) made.add_switch("spine" + std::to_string(s + 1));
  for (Index r = 0; r < shape.racks; ++r) {
    for (Index h = 0; h < shape.hosts_per_rack; ++h)
      made.add_host("host" + std::to_string(r * shape.hosts_per_rack + h + 1), r, shape.nic, shape.nic);
  }
  for (Index r = 0; r < shape.racks; ++r) {
    for (Index s = 0; s < shape.spines; ++s) made.add_link(r, shape.racks + s, shape.uplink, shape.uplink);
  }
  for (Index r = 0; r < shape.racks && shape.rack_box > 0; ++r)
    made.add_box(made.switches()[r].name, r, shape.rack_box);
  for (Index s = 0; s < shape.spines && shape.spine_box > 0; ++s)
    made.add_box(made.switches()[shape.racks + s].name, shape.racks + s, shape.spine_box);
  return made;
}

Topology fat_tree(const FatTree& shape) {
  Topology made;
  const Index half = shape.k / 2;
  const Index racks = shape.k * half;
  const auto numbered = [](const char* what, Index number) { return what + std::to_string(number + 1); };
  for (Index r = 0; r < racks; ++r) made.add_switch(numbered("rack", r));
  for (Index a = 0; a < racks; ++a) made.add_switch(numbered("aggregation", a));
  for (Index c = 0; c < half * half; ++c) made.add_switch(numbered("core", c));
  for (Index h = 0; h < racks * half; ++h) made.add_host(numbered("host", h), h / half, shape.nic, shape.nic);
  for (Index r = 0; r < racks; ++r) {
    for (Index j = 0; j < half; ++j) made.add_link(r, racks + r / half * half + j, shape.link, shape.link);
  }
  for (Index a = 0; a < racks; ++a) {
    for (Index m = 0; m < half; ++m)
      made.add_link(racks + a, 2 * racks + a % half * half + m, shape.link, shape.link);
  }
  const auto switches = static_cast<Index>(made.switches().size());
  for (Index s = 0; s < switches && shape.box > 0; ++s) made.add_box(made.switches()[s].name, s, shape.box);
  return made;
}

}  // namespace tally::planner
