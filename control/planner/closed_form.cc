#include "planner/closed_form.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tally::planner {

double any_box_rate(double workers, double ingress, double boxes, double nic) {
  const double merged = std::min(boxes / workers, ingress);
  return std::min(nic, (ingress + (workers - 1) * merged) / workers);
}

double rack_local_rate(std::span<const RackOfBox> racks, double ingress, double nic) {
  // The left side grows with f and bends where a box is full: between two bends it is a line.
  std::vector<RackOfBox> by_bend(racks.begin(), racks.end());
  std::sort(by_bend.begin(), by_bend.end(),
            [](const RackOfBox& a, const RackOfBox& b) { return a.box * b.workers < b.box * a.workers; });
  double slope = 0;  // of the left side, with no box full: one stream from each rack
  for (const RackOfBox& rack : by_bend) slope += rack.workers > 0 ? 1 : 0;
  double offset = 0;  // what full boxes take off it
  for (const RackOfBox& rack : by_bend) {
    if (rack.workers <= 0) continue;
    const double bend = rack.box / rack.workers;
    if ((ingress + offset) / slope <= bend) break;
    slope += rack.workers - 1;
    offset += (rack.workers - 1) * bend;
  }
  return slope > 0 ? std::min(nic, (ingress + offset) / slope) : nic;
}

double memory_rate(double here, std::uint64_t slots, double slot_bytes, double seconds) {
  return here * static_cast<double>(slots) * slot_bytes * 8e-9 / seconds;
}

std::uint64_t slots_for(double rate, double here, double slot_bytes, double seconds) {
  // A hair less than a whole slot is rounding, not a slot.
  const double slots = rate * seconds / (here * slot_bytes * 8e-9);
  return static_cast<std::uint64_t>(std::ceil(slots * (1 - 1e-12)));
}

namespace {

// The rate at which the first server has as much as it can take if everything comes merged once: with shares that are
// frozen the narrowest server for its share binds, not their sum; and servers of one host share its link.
double ingress_of_all(const Topology& topology, const Party& party, const Rates& capacity) {
  double ingress = std::numeric_limits<double>::infinity();
  for (const Party::Server& server : party.servers) {
    if (!(server.share > 0)) continue;
    const Index host = topology.servers()[server.number].host;
    double together = 0;
    for (const Party::Server& other : party.servers)
      together += topology.servers()[other.number].host == host ? other.share : 0;
    ingress = std::min({ingress, ingress_of(topology, capacity, server.number) / server.share,
                        capacity[topology.link(topology.hosts()[host].down)] / together});
  }
  return ingress;
}

}  // namespace

double upper_bound(const Topology& topology, const Party& party, const Rates& capacity) {
  double boxes = 0;
  for (Index b = 0; b < topology.boxes().size(); ++b) boxes += box_rate(topology, party, capacity, b);
  return upper_bound(topology, party, capacity, boxes);
}

double upper_bound(const Topology& topology, const Party& party, const Rates& capacity, double boxes) {
  if (party.servers.empty()) return std::min(party.slowest, boxes / party.workers);
  if (party.through_boxes)
    return std::min({party.slowest, ingress_of_all(topology, party, capacity), boxes / party.workers});
  // All that a server cannot take as single streams must be merged first, and a box saves it at most W - 1 of W
  // streams: the root f of sum over servers max(0, W x_s f - B_s) = (W - 1) boxes / W. The left side is convex and
  // grows from where the first server is full: servers by the rate at which they are.
  struct Bend {
    double at = 0;
    double share = 0;
    double ingress = 0;
  };
  std::vector<Bend> bends;
  for (const Party::Server& server : party.servers) {
    if (!(server.share > 0)) continue;
    const double ingress = ingress_of(topology, capacity, server.number);
    bends.push_back({ingress / (party.workers * server.share), server.share, ingress});
  }
  std::sort(bends.begin(), bends.end(), [](const Bend& a, const Bend& b) { return a.at < b.at; });
  double offset = (party.workers - 1) * boxes / party.workers;
  double slope = 0;
  double root = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < bends.size(); ++i) {
    offset += bends[i].ingress;
    slope += party.workers * bends[i].share;
    root = offset / slope;
    if (i + 1 == bends.size() || root <= bends[i + 1].at) break;
  }
  return std::min({party.slowest, ingress_of_all(topology, party, capacity), root});
}

double rack_local_rate(const Topology& topology, const Party& party, const Rates& capacity) {
  if (party.servers.empty()) return 0;
  if (party.through_boxes) {
    double rate = std::min(
        party.slowest, ingress_of_all(topology, party, capacity) / static_cast<double>(party.racks.size()));
    for (const Party::Rack& rack : party.racks)
      rate = std::min(rate,
                      rack.box == kNone ? 0 : box_rate(topology, party, capacity, rack.box) / rack.workers);
    return rate;
  }
  std::vector<RackOfBox> racks;
  for (const Party::Rack& rack : party.racks)
    racks.push_back({rack.workers, rack.box == kNone ? 0 : box_rate(topology, party, capacity, rack.box)});
  return rack_local_rate(racks, ingress_of_all(topology, party, capacity), party.slowest);
}

}  // namespace tally::planner
